package nodes

import (
	"bytes"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"stellwerk/renderer/objects"
)

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
		hasScalars = hasScalars || hasScalar(annotationsOf(object.Body))
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
	annotations := annotationsOf(body)
	for key, value := range annotations {
		if text, isWritten := w.Metadata.Annotations[key]; isWritten && isScalar(value) {
			annotations[key] = text
		}
	}
}

func annotationsOf(body map[string]any) map[string]any {
	metadata, _ := body["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	return annotations
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
