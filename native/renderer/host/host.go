// Package host is what a template may ask of the world outside: only the parent, and what it asked is noted.
package host

import (
	"encoding/json"
	"fmt"
)

// Asker answers questions with the rights of whom we render for; the pipe to the parent is one.
type Asker interface {
	// Ask returns the parent's answer. Found is false where the object does not exist; an error ends the rendering.
	// The error is a *NoSuchKind where the cluster serves no such kind.
	Ask(method string, args map[string]any) (value json.RawMessage, found bool, err error)
}

// NoSuchKind is the answer to a question about a kind that the cluster does not serve.
type NoSuchKind struct {
	APIVersion, Kind string
}

// Error names the kind.
func (e *NoSuchKind) Error() string {
	return fmt.Sprintf("the cluster serves no kind %s of %s", e.Kind, e.APIVersion)
}

// Uses notes which parts of a request had a part in its result (wire.Result.Uses).
type Uses map[string]bool

// Note marks a part as used.
func (u Uses) Note(part string) { u[part] = true }
