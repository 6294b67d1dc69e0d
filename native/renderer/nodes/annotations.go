package nodes

import (
	"bytes"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"stellwerk/renderer/objects"
)

// TextAnnotations makes numbers and booleans in the annotations of the objects of a text what they are in a
// kustomization: text, as it was written. Where the text cannot be followed they stay, and are refused later.
func TextAnnotations(found []objects.Object, text []byte) {
	odd := false
	for _, one := range found {
		odd = odd || isOdd(annotationsOf(one.Body))
	}
	if !odd || objects.CheckAliases(text) != nil {
		return
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var read []map[string]any
	for {
		var document yaml.Node
		if decoder.Decode(&document) != nil {
			break
		}
		read = appendObjects(read, &document)
	}
	if len(read) != len(found) {
		return
	}
	for index, one := range found {
		given := annotationsOf(one.Body)
		for key, value := range annotationsOf(read[index]) {
			if text, isText := value.(string); isText && isScalar(given[key]) {
				given[key] = text
			}
		}
	}
}

// appendObjects appends the object of a document, or those of the list that it is.
func appendObjects(read []map[string]any, node *yaml.Node) []map[string]any {
	for node.Kind == yaml.DocumentNode && len(node.Content) == 1 {
		node = node.Content[0]
	}
	if node.Kind != yaml.MappingNode {
		return read
	}
	var items *yaml.Node
	isList := false
	for index := 0; index+1 < len(node.Content); index += 2 {
		switch key, value := node.Content[index], node.Content[index+1]; key.Value {
		case "kind":
			isList = strings.HasSuffix(value.Value, "List")
		case "items":
			items = value
		}
	}
	if isList && items != nil && items.Kind == yaml.SequenceNode {
		for _, item := range items.Content {
			read = appendObjects(read, item)
		}
		return read
	}
	body, err := Object(node)
	if err != nil {
		body = nil
	}
	return append(read, body)
}

func annotationsOf(body map[string]any) map[string]any {
	metadata, _ := body["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	return annotations
}

func isOdd(annotations map[string]any) bool {
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
