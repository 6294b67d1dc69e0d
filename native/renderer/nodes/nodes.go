// Package nodes turns what kustomize works on, YAML nodes, into objects.
//
// Kustomize's own way goes through text and JSON, which costs more than the build itself and turns large whole numbers
// into floating ones. The meaning is the same: what kustomize prints and kubectl reads is what comes out here.
package nodes

import (
	"errors"
	"fmt"
	"math"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"stellwerk/renderer/objects"
)

// What one object may unfold to by aliases.
const (
	mostValues = 1_000_000
	mostBytes  = 32 << 20
)

// Object reads the node of one object. Errors name the field and quote no value.
//
// A number or boolean in an annotation of the object becomes text, as it was written: kustomize writes annotations as
// text, and users rely on it (component specification 7.1). Labels stay as they are, and are refused.
func Object(node *yaml.Node) (map[string]any, error) {
	reader := reader{left: mostValues, room: mostBytes}
	value, err := reader.read(node, 0, object)
	if err != nil {
		return nil, err
	}
	body, isMapping := value.(map[string]any)
	if !isMapping {
		return nil, errors.New("is no mapping")
	}
	return body, nil
}

type reader struct{ left, room int } // in values, and in bytes of text

// place is where in an object a node is, as far as it matters.
type place int

const (
	elsewhere place = iota
	object
	metadata
	annotations
)

// below is the place of the value of a key.
func (p place) below(key string) place {
	switch {
	case p == object && key == "metadata":
		return metadata
	case p == metadata && key == "annotations":
		return annotations
	default:
		return elsewhere
	}
}

func (r *reader) read(node *yaml.Node, depth int, at place) (any, error) {
	if depth > objects.MaxDepth {
		return nil, fmt.Errorf("is nested deeper than %d levels", objects.MaxDepth)
	}
	if r.left--; r.left < 0 {
		return nil, fmt.Errorf("holds more than %d values", mostValues)
	}
	if r.room -= len(node.Value); r.room < 0 {
		return nil, fmt.Errorf("holds more than %d MiB", mostBytes>>20)
	}
	switch node.Kind {
	case yaml.DocumentNode:
		return r.read(node.Content[0], depth, at)
	case yaml.AliasNode:
		return r.read(node.Alias, depth+1, at)
	case yaml.MappingNode:
		return r.mapping(node, depth, at)
	case yaml.SequenceNode:
		return r.sequence(node, depth)
	default:
		return scalar(node)
	}
}

func (r *reader) sequence(node *yaml.Node, depth int) ([]any, error) {
	items := make([]any, len(node.Content))
	for index, inner := range node.Content {
		item, err := r.read(inner, depth+1, elsewhere)
		if err != nil {
			return nil, err
		}
		items[index] = item
	}
	return items, nil
}

func (r *reader) mapping(node *yaml.Node, depth int, at place) (map[string]any, error) {
	result := make(map[string]any, len(node.Content)/2)
	merged := map[string]any{}
	for index := 0; index+1 < len(node.Content); index += 2 {
		key, inner := node.Content[index], node.Content[index+1]
		if key.ShortTag() == "!!merge" {
			value, err := r.merged(inner, depth, at)
			if err != nil {
				return nil, err
			}
			merge(merged, value)
			continue
		}
		name, err := nameOf(key)
		if err != nil {
			return nil, err
		}
		value, err := r.read(inner, depth+1, at.below(name))
		if err != nil {
			return nil, err
		}
		if at == annotations {
			value = asWritten(inner, value)
		}
		if _, twice := result[name]; twice {
			return nil, fmt.Errorf("has the key %q twice in one mapping", name)
		}
		result[name] = value
	}
	merge(result, merged)
	return result, nil
}

// merged reads the value of <<:, one mapping or a list of them, which counts as written where it is merged.
func (r *reader) merged(node *yaml.Node, depth int, at place) (any, error) {
	if node.Kind != yaml.SequenceNode {
		return r.read(node, depth+1, at)
	}
	items := make([]any, len(node.Content))
	for index, inner := range node.Content {
		item, err := r.read(inner, depth+2, at)
		if err != nil {
			return nil, err
		}
		items[index] = item
	}
	return items, nil
}

// asWritten is the text of a number or boolean; other values stay.
func asWritten(node *yaml.Node, value any) any {
	if !isScalar(value) {
		return value
	}
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	return node.Value
}

func nameOf(key *yaml.Node) (string, error) {
	if key.Kind == yaml.AliasNode {
		key = key.Alias
	}
	if key.Kind != yaml.ScalarNode {
		return "", errors.New("has a key that is no text")
	}
	return key.Value, nil
}

// merge lays the entries of <<: below those that are there. A list of mappings counts from its first on.
func merge(target map[string]any, value any) {
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			merge(target, item)
		}
	case map[string]any:
		for key, item := range value {
			if _, there := target[key]; !there {
				target[key] = item
			}
		}
	}
}

func scalar(node *yaml.Node) (any, error) {
	switch node.ShortTag() {
	case "!!null":
		return nil, nil
	case "!!bool", "!!int", "!!float", "!!binary":
		var value any
		if err := node.Decode(&value); err != nil {
			return nil, errors.New("has a value that does not fit its tag")
		}
		return plain(value)
	default:
		return node.Value, nil // dates too: Kubernetes knows them as text only
	}
}

// plain brings numbers to the two types that objects have.
func plain(value any) (any, error) {
	switch value := value.(type) {
	case int:
		return int64(value), nil
	case uint64:
		return float64(value), nil
	case float64:
		if math.IsNaN(value) || math.IsInf(value, 0) {
			return nil, errors.New("has a number that JSON lacks")
		}
		if value == math.Trunc(value) && math.Abs(value) < 1<<53 {
			return int64(value), nil
		}
	}
	return value, nil
}
