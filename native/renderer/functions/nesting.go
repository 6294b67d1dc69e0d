package functions

import (
	"fmt"
	"regexp"

	"stellwerk/renderer/objects"
)

// CheckNesting refuses a template whose blocks lie deeper in each other than its parser and engine can take in time:
// both recurse, and the time of a block grows with its depth. It counts the words that open and close a block.
func CheckNesting(text []byte, left string) error {
	words := regexp.MustCompile(regexp.QuoteMeta(left) + `-?\s*(if|range|with|define|block|end)\b`)
	depth := 0
	for _, word := range words.FindAllSubmatch(text, -1) {
		if string(word[1]) == "end" {
			depth = max(0, depth-1)
		} else if depth++; depth > objects.MaxDepth {
			return fmt.Errorf("has blocks nested deeper than %d levels", objects.MaxDepth)
		}
	}
	return nil
}
