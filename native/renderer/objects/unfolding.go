package objects

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"

	yaml3 "go.yaml.in/yaml/v3"
)

const (
	// maxExpansion is how many times its written size a text may grow by aliases; freeValues are always allowed.
	maxExpansion = 10
	freeValues   = 1_000
	// freeBytes may always be reached by aliases, and MaxText never be exceeded: values are counted as well as bytes,
	// because one large value that is named 8,000 times is as much memory as a million small ones.
	freeBytes = 64 << 10
	// enough is where counting ends: sums of sums would overflow.
	enough = 1 << 40
)

// The texts continue a sentence that begins with the name of the file.
var (
	ErrAliasCycle     = errors.New("has an alias within what it stands for")
	ErrAliasGrowth    = fmt.Errorf("has aliases that unfold to more than %d times the text", maxExpansion)
	errAliasUnchecked = errors.New("has aliases, and is no YAML that can be checked before they are unfolded")
)

// mayAlias finds what may be an alias; it may also be found in quoted text.
var mayAlias = regexp.MustCompile(`(?:^|[\s\[{,:\-?])\*[^\s*]`)

// CheckUnfolding refuses a document that aliases make much larger than it was written, before a parser unfolds it.
//
// It reads the document with the library that keeps aliases. A document with aliases that this library cannot read is
// refused: the older library of kubectl might read it.
func CheckUnfolding(text []byte) error {
	if bytes.IndexByte(text, '&') < 0 || !mayAlias.Match(text) {
		return nil
	}
	var document yaml3.Node
	if yaml3.Unmarshal(text, &document) != nil {
		return errAliasUnchecked
	}
	return checkNode(&document, len(text))
}

// CheckAliases is CheckUnfolding for a text of any number of documents that the newer library reads later. Text that is
// no YAML passes, because that reader reports it.
//
// Kustomize cuts a text at each line that begins with ---, also where YAML does not, so each piece is checked as well.
func CheckAliases(text []byte) error {
	if bytes.IndexByte(text, '&') < 0 || bytes.IndexByte(text, '*') < 0 {
		return nil
	}
	for _, piece := range append(bytes.Split(text, []byte("\n---")), text) {
		decoder := yaml3.NewDecoder(bytes.NewReader(piece))
		for {
			var document yaml3.Node
			if decoder.Decode(&document) != nil {
				break
			}
			if err := checkNode(&document, len(piece)); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkNode refuses a document of so many written bytes whose aliases unfold to much more than that.
func checkNode(document *yaml3.Node, written int) error {
	count := counter{sizes: map[*yaml3.Node]weight{}}
	unfolded, err := count.size(document)
	if err != nil || count.aliases == 0 {
		return err
	}
	mostBytes := max(freeBytes, min(maxExpansion*written, MaxText))
	if unfolded.values > max(freeValues, maxExpansion*count.written) || unfolded.bytes > mostBytes {
		return ErrAliasGrowth
	}
	return nil
}

// weight is what a value comes to with its aliases unfolded.
type weight struct{ values, bytes int }

// counter adds up the values of a document as written, and as unfolded.
type counter struct {
	written, aliases int
	sizes            map[*yaml3.Node]weight // of anchors, once they are complete
}

func (c *counter) size(node *yaml3.Node) (weight, error) {
	c.written++
	if node.Kind == yaml3.AliasNode {
		c.aliases++
		known, isComplete := c.sizes[node.Alias]
		if !isComplete {
			return weight{}, ErrAliasCycle
		}
		return known, nil
	}
	total := weight{1, len(node.Value)}
	for _, inner := range node.Content {
		size, err := c.size(inner)
		if err != nil {
			return weight{}, err
		}
		total = weight{min(total.values+size.values, enough), min(total.bytes+size.bytes, enough)}
	}
	if node.Anchor != "" {
		c.sizes[node] = total
	}
	return total, nil
}
