// Package host is what a template may ask of the world outside: only the parent, and what it asked is noted.
package host

import "encoding/json"

// Asker answers questions with the rights of whom we render for; the pipe to the parent is one.
type Asker interface {
	// Ask returns the parent's answer. Found is false where the object does not exist; an error ends the rendering.
	Ask(method string, args map[string]any) (value json.RawMessage, found bool, err error)
}

// Uses notes which parts of a request had a part in its result (wire.Result.Uses).
type Uses map[string]bool

// Note marks a part as used.
func (u Uses) Note(part string) { u[part] = true }
