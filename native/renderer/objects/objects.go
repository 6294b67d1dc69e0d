// Package objects reads text into Kubernetes objects, as kubectl would.
//
// The YAML library is the one kubectl uses, so that a manifest means here what it means there. Unlike kubectl,
// this package refuses a key that appears twice (kubectl takes the later one), and text whose aliases unfold to much more
// than was written. Whole numbers stay whole, also large ones.
package objects

import (
	"fmt"
	"strconv"
	"strings"

	"stellwerk/renderer/wire"
)

// What one text may hold. The API server accepts 3 MiB.
const (
	MaxText  = 16 << 20 // bytes
	MaxDepth = 100      // levels of mappings and lists
)

// Object is one rendered object and where it was written.
type Object struct {
	Body   map[string]any
	Origin string // file, and the template's name where there is one
	Quoted Quotes // where a variable can only bring text
}

// Parse reads all objects of a text: documents one after the other, lists unfolded, empty documents left out.
//
// An error is a *wire.Error of kind InvalidManifest or LimitExceeded with file and line; it quotes no value.
func Parse(file string, text []byte) ([]Object, error) {
	return Reader{File: file, Line: 1}.Parse(text)
}

// Parse reads all objects of a text, as the function of this name does.
func (r Reader) Parse(text []byte) ([]Object, error) {
	file := r.File
	documents, err := r.Documents(text)
	if err != nil {
		return nil, err
	}
	var found []Object
	for _, document := range documents {
		if found, err = unfold(found, document, file, listDepth); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// listDepth is how many levels of lists a document may have.
const listDepth = 5

// unfold appends the object of a document, or those of the list that it is.
func unfold(found []Object, document Document, file string, depth int) ([]Object, error) {
	body, isMapping := document.Value.(map[string]any)
	if !isMapping {
		return nil, invalid(file, document.Line, "holds %s where an object is expected", KindOf(document.Value))
	}
	apiVersion, _ := body["apiVersion"].(string)
	kind, _ := body["kind"].(string)
	if apiVersion == "" {
		return nil, invalid(file, document.Line, "has an object without apiVersion%s", known(body))
	} else if kind == "" {
		return nil, invalid(file, document.Line, "has an object without kind%s", known(body))
	}
	items, isList := body["items"].([]any)
	if !isList || !strings.HasSuffix(kind, "List") {
		return append(found, Object{Body: body, Origin: file, Quoted: document.Quoted}), nil
	}
	if depth == 0 {
		return nil, invalid(file, document.Line, "has more than %d lists inside each other", listDepth)
	}
	for index, item := range items {
		inherit(item, apiVersion, kind)
		quoted := document.Quoted.At(Place(Place("", "items"), strconv.Itoa(index)))
		var err error
		if found, err = unfold(found, Document{Value: item, Line: document.Line, Quoted: quoted}, file, depth-1); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// inherit gives an item the type that its typed list implies, as client-go does: a ConfigMapList holds ConfigMaps.
func inherit(item any, apiVersion, listKind string) {
	body, isMapping := item.(map[string]any)
	kind := strings.TrimSuffix(listKind, "List")
	if !isMapping || kind == "" || body["apiVersion"] != nil || body["kind"] != nil {
		return
	}
	body["apiVersion"], body["kind"] = apiVersion, kind
}

// Metadata returns the metadata of an object; nil where it has none.
func Metadata(body map[string]any) map[string]any {
	metadata, _ := body["metadata"].(map[string]any)
	return metadata
}

// Annotations returns the annotations of an object; nil where it has none.
func Annotations(body map[string]any) map[string]any {
	annotations, _ := Metadata(body)["annotations"].(map[string]any)
	return annotations
}

// longestName bounds the names that messages repeat; the API server accepts no longer ones.
const longestName = 253

// Known is how a message describes an object whose type is incomplete, from what is known of it.
func Known(apiVersion, name string) string {
	var parts []string
	if apiVersion != "" && len(apiVersion) <= longestName {
		parts = append(parts, "apiVersion "+apiVersion)
	}
	if name != "" && len(name) <= longestName {
		parts = append(parts, "name "+name)
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

func known(body map[string]any) string {
	apiVersion, _ := body["apiVersion"].(string)
	name, _ := Metadata(body)["name"].(string)
	return Known(apiVersion, name)
}

// KindOf is how a message describes the type of a value of YAML or JSON.
func KindOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case map[string]any:
		return "a mapping"
	case []any:
		return "a list"
	case string:
		return "text"
	case bool:
		return "true or false"
	default:
		return "a number"
	}
}

func invalid(file string, line int, format string, args ...any) *wire.Error {
	return &wire.Error{
		Kind: wire.InvalidManifest, Message: file + " " + fmt.Sprintf(format, args...), File: file, Line: line,
	}
}

func exceeded(file string, line int, format string, args ...any) *wire.Error {
	return &wire.Error{
		Kind: wire.LimitExceeded, Message: file + " " + fmt.Sprintf(format, args...), File: file, Line: line,
	}
}

func checkAll(file string, documents []Document) error {
	for _, document := range documents {
		if IsTooDeep(document.Value) {
			return exceeded(file, document.Line, "is nested deeper than %d levels", MaxDepth)
		}
	}
	return nil
}

// IsTooDeep is true where a value has more than MaxDepth levels of mappings and lists.
func IsTooDeep(value any) bool { return tooDeep(value, MaxDepth) }

func tooDeep(value any, room int) bool {
	switch value := value.(type) {
	case map[string]any:
		for _, inner := range value {
			if room == 0 || tooDeep(inner, room-1) {
				return true
			}
		}
	case []any:
		for _, inner := range value {
			if room == 0 || tooDeep(inner, room-1) {
				return true
			}
		}
	}
	return false
}
