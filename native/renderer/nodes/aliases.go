package nodes

import (
	"bytes"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"stellwerk/renderer/objects"
)

// CheckAliases refuses text that kustomize would unfold without an end, or to much more than it is. Text that is no YAML
// is left to the code that reads it, because the same library reads it.
//
// Kustomize cuts a text at each line that begins with ---, even where YAML would not, so that each piece counts.
func CheckAliases(text []byte) error {
	if bytes.IndexByte(text, '&') < 0 || bytes.IndexByte(text, '*') < 0 {
		return nil
	}
	if err := checkDocuments(text); err != nil {
		return err
	}
	for piece := range bytes.SplitSeq(text, []byte("\n---")) {
		if err := checkDocuments(piece); err != nil {
			return err
		}
	}
	return nil
}

func checkDocuments(text []byte) error {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var document yaml.Node
		if decoder.Decode(&document) != nil {
			return nil
		}
		if err := objects.CheckNode(&document, len(text)); err != nil {
			return err
		}
	}
}
