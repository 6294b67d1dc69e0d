package nodes

import (
	"bytes"
	"errors"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

const (
	// mostGrowth is how many times its size a text may grow by aliases; freeValues are always allowed.
	mostGrowth = 10
	freeValues = 1_000
	enough     = 1 << 40 // where counting ends: sums of sums would overflow
)

var (
	errCycle  = errors.New("has an alias within what it stands for")
	errGrowth = errors.New("has aliases that unfold to more than 10 times the text")
)

// CheckAliases refuses text that kustomize would unfold without an end, or to much more than it is. Text that is no YAML
// is left to whoever reads it.
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
		if err := decoder.Decode(&document); err != nil {
			return nil
		}
		count := counter{sizes: map[*yaml.Node]int{}}
		unfolded, err := count.size(&document)
		if err != nil {
			return err
		}
		if unfolded > max(freeValues, mostGrowth*count.written) {
			return errGrowth
		}
	}
}

type counter struct {
	written int
	sizes   map[*yaml.Node]int // of anchors, once they are complete
}

func (c *counter) size(node *yaml.Node) (int, error) {
	c.written++
	if node.Kind == yaml.AliasNode {
		size, complete := c.sizes[node.Alias]
		if !complete {
			return 0, errCycle
		}
		return size, nil
	}
	total := 1
	for _, inner := range node.Content {
		size, err := c.size(inner)
		if err != nil {
			return 0, err
		}
		total = min(total+size, enough)
	}
	if node.Anchor != "" {
		c.sizes[node] = total
	}
	return total, nil
}
