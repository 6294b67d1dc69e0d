package objects

import (
	"bytes"
	"fmt"
	"regexp"

	"stellwerk/renderer/wire"
)

// What one text may be, and may become. A text beyond it is an attack or a mistake: the API server takes 3 MiB.
const (
	MaxText  = 16 << 20 // bytes
	MaxDepth = 100      // mappings and lists inside each other
	// maxMarks bounds what the text may unfold to in memory: the lines, commas and brackets outside of blocks of text,
	// one of which each value needs.
	maxMarks = 300_000
)

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

// IsTooDeep tells whether a value holds mappings or lists deeper than MaxDepth.
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
