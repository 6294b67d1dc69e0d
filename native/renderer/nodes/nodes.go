// Package nodes turns the YAML nodes of kustomize into objects.
//
// Kustomize's own conversion uses text and JSON, which takes longer than the build itself and turns large whole numbers
// into floating ones. The result is the same: the output of kustomize as kubectl reads it.
package nodes

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"stellwerk/renderer/objects"
)

// Object reads the node of one object. Errors name the field and quote no value.
//
// A number or boolean in an annotation of the object becomes text, as it was written: kustomize writes annotations as
// text, and users rely on it (component specification 7.1). Labels stay as they are, and are refused.
func Object(node *yaml.Node) (map[string]any, error) {
	value, err := valueOf(node, 0)
	if err != nil {
		return nil, err
	}
	body, isMapping := value.(map[string]any)
	if !isMapping {
		return nil, errors.New("is no mapping")
	}
	if hasScalar(objects.Annotations(body)) {
		writtenIn(node).replaceScalars(body)
	}
	return body, nil
}

func valueOf(node *yaml.Node, depth int) (any, error) {
	if depth > objects.MaxDepth {
		return nil, fmt.Errorf("is nested deeper than %d levels", objects.MaxDepth)
	}
	switch node.Kind {
	case yaml.DocumentNode:
		return valueOf(node.Content[0], depth)
	case yaml.AliasNode:
		return valueOf(node.Alias, depth+1)
	case yaml.MappingNode:
		return mappingOf(node, depth)
	case yaml.SequenceNode:
		return sequenceOf(node, depth)
	default:
		return scalar(node)
	}
}

func sequenceOf(node *yaml.Node, depth int) ([]any, error) {
	items := make([]any, len(node.Content))
	for index, inner := range node.Content {
		item, err := valueOf(inner, depth+1)
		if err != nil {
			return nil, err
		}
		items[index] = item
	}
	return items, nil
}

func mappingOf(node *yaml.Node, depth int) (map[string]any, error) {
	result := make(map[string]any, len(node.Content)/2)
	merged := map[string]any{}
	for index := 0; index+1 < len(node.Content); index += 2 {
		key, inner := node.Content[index], node.Content[index+1]
		if key.ShortTag() == "!!merge" {
			value, err := valueOf(inner, depth+1)
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
		value, err := valueOf(inner, depth+1)
		if err != nil {
			return nil, err
		}
		if _, twice := result[name]; twice {
			return nil, fmt.Errorf("has the key %q twice in one mapping", name)
		}
		result[name] = value
	}
	merge(result, merged)
	return result, nil
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

// merge adds the entries of <<: that the mapping does not have. In a list of mappings, an earlier one has precedence.
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

// plain converts numbers to the two types of objects.
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

// written is the part of a document that has annotations, with each number and boolean in them as its text.
type written struct {
	Kind     string
	Metadata struct{ Annotations map[string]string }
	Items    []written
}

// TextAnnotations makes numbers and booleans in the annotations of the objects of a text what they are in a
// kustomization: text, as it was written. Where the text cannot be read that way they stay, and are refused later.
func TextAnnotations(found []objects.Object, text []byte) {
	hasScalars := false
	for _, object := range found {
		hasScalars = hasScalars || hasScalar(objects.Annotations(object.Body))
	}
	if !hasScalars || objects.CheckAliases(text) != nil {
		return
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var all []written
	for {
		var document yaml.Node
		if decoder.Decode(&document) != nil {
			break
		}
		if document.Content[0].Kind == yaml.MappingNode {
			all = append(all, unfold(writtenIn(&document))...)
		}
	}
	if len(all) == len(found) {
		for index, object := range found {
			all[index].replaceScalars(object.Body)
		}
	}
}

func writtenIn(node *yaml.Node) (parts written) {
	_ = node.Decode(&parts) // what fits is decoded; an annotation of another type is refused later
	return parts
}

// unfold returns the object of a document, or those of the list that it is.
func unfold(parts written) []written {
	if !strings.HasSuffix(parts.Kind, "List") || parts.Items == nil {
		return []written{parts}
	}
	var all []written
	for _, item := range parts.Items {
		all = append(all, unfold(item)...)
	}
	return all
}

// replaceScalars makes the numbers and booleans in the annotations of an object text.
func (w written) replaceScalars(body map[string]any) {
	annotations := objects.Annotations(body)
	for key, value := range annotations {
		if text, isWritten := w.Metadata.Annotations[key]; isWritten && isScalar(value) {
			annotations[key] = text
		}
	}
}

func hasScalar(annotations map[string]any) bool {
	for _, value := range annotations {
		if isScalar(value) {
			return true
		}
	}
	return false
}

func isScalar(value any) bool {
	switch value.(type) {
	case bool, int64, float64:
		return true
	default:
		return false
	}
}
