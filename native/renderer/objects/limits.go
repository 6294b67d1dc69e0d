package objects

import (
	"fmt"

	"stellwerk/renderer/wire"
)

// What one text may hold. The API server accepts 3 MiB.
const (
	MaxText  = 16 << 20 // bytes
	MaxDepth = 100      // levels of mappings and lists
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
