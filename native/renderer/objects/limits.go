package objects

import (
	"bytes"
	"fmt"
	"regexp"

	yaml3 "go.yaml.in/yaml/v3"

	"stellwerk/renderer/wire"
)

// What one text may be, and may become. A text beyond it is an attack or a mistake: the API server takes 3 MiB.
const (
	MaxText  = 16 << 20 // bytes
	MaxDepth = 100      // mappings and lists inside each other
	// maxMarks bounds what the text may unfold to in memory: the lines, commas and brackets outside of blocks of text,
	// one of which each value needs.
	maxMarks = 300_000
	// maxExpansion is how many times its written size a text may grow by aliases; freeValues are always allowed.
	maxExpansion = 10
	freeValues   = 1_000
)

func exceeded(file string, line int, format string, args ...any) *wire.Error {
	return &wire.Error{
		Kind: wire.LimitExceeded, Message: file + " " + fmt.Sprintf(format, args...), File: file, Line: line,
	}
}

func checkAll(file string, documents []Document) error {
	for _, document := range documents {
		if tooDeep(document.Value, MaxDepth) {
			return exceeded(file, document.Line, "is nested deeper than %d levels", MaxDepth)
		}
	}
	return nil
}

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

// blockOfText is a line whose value is a block of text: `key: |`.
var blockOfText = regexp.MustCompile(`(?:^|[:\-?]|!\S*|&\S*)\s*[|>][-+1-9]{0,2}\s*(?:#.*)?$`)

func checkWeight(file string, piece piece) error {
	if len(piece.text) < maxMarks {
		return nil
	}
	marks, block, line := 0, -1, piece.line
	for text := range bytes.Lines(piece.text) {
		indent := len(text) - len(bytes.TrimLeft(text, " "))
		isBlank := len(bytes.TrimSpace(text)) == 0
		if !isBlank && indent <= block {
			block = -1
		}
		if block < 0 && !isBlank {
			marks += 1 + bytes.Count(text, []byte(",")) + bytes.Count(text, []byte("[")) + bytes.Count(text, []byte("{"))
			if len(text) < 1024 && blockOfText.Match(bytes.TrimRight(text, "\r\n")) {
				block = indent
			}
		}
		if marks > maxMarks {
			return exceeded(file, line, "holds more than %d values in one document", maxMarks)
		}
		line++
	}
	return nil
}

// mayAlias finds what may be an alias; it may also be found in quoted text.
var mayAlias = regexp.MustCompile(`(?:^|[\s\[{,:\-])\*[^\s*]`)

// checkAliases refuses text that aliases make much larger than it was written.
//
// It reads the text with the newer library, which keeps aliases as they are. What that library cannot read is left to
// the one that counts.
func checkAliases(file string, piece piece) error {
	if bytes.IndexByte(piece.text, '&') < 0 || !mayAlias.Match(piece.text) {
		return nil
	}
	var document yaml3.Node
	if yaml3.Unmarshal(piece.text, &document) != nil {
		return nil
	}
	count := counter{sizes: map[*yaml3.Node]int{}}
	unfolded := count.size(&document)
	if unfolded > max(freeValues, maxExpansion*count.written) {
		return exceeded(file, piece.firstLine(), "has aliases that unfold to more than %d times the text", maxExpansion)
	}
	return nil
}

// counter adds up the values of a document as written, and as unfolded.
type counter struct {
	written int
	sizes   map[*yaml3.Node]int
}

// enough is where counting ends: sums of sums would overflow.
const enough = 1 << 40

func (c *counter) size(node *yaml3.Node) int {
	c.written++
	if node.Kind == yaml3.AliasNode {
		return c.sizes[node.Alias] // an anchor that is not counted yet holds this alias, which the reader refuses
	}
	total := 1
	for _, inner := range node.Content {
		total = min(total+c.size(inner), enough)
	}
	if node.Anchor != "" {
		c.sizes[node] = total
	}
	return total
}
