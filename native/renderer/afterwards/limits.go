package afterwards

import (
	"strings"

	"stellwerk/renderer/wire"
)

const (
	largestOutput = 32 << 20
	// deepestDefault is how many ${a:-${b:-...}} may lie in each other.
	deepestDefault = 100
	// costliestEscapes bounds what the library copies for the escapes within one substitution.
	costliestEscapes = 256 << 20
	// longestTrimmed bounds ${v##*x}, whose time grows with the square of the value.
	longestTrimmed = 16 << 10
)

// room is how much output is left for one rendering.
type room struct{ left int }

func (r *room) fits(length int) error {
	if length > r.left {
		return exceeded("the result of the substitution is larger than 32 MiB")
	}
	return nil
}

// meter watches what one substitution takes from variables, before the library makes more of it.
type meter struct {
	piece string
	room  *room
	taken int
	err   error
}

func (m *meter) take(name, value string) string {
	if m.err == nil {
		m.err = m.check(name, value)
	}
	if m.err != nil {
		return ""
	}
	m.taken += len(value)
	return value
}

func (m *meter) check(name, value string) error {
	if len(value) > longestTrimmed && strings.ContainsAny(m.piece, "#%") && strings.ContainsAny(m.piece, "*?[") {
		return exceeded("the value of " + name + " is too long for a pattern (16 KiB are allowed)")
	}
	if err := m.room.fits(m.taken + len(value)); err != nil {
		return err
	}
	if strings.Contains(m.piece, "/") && len(value)*(m.taken+len(m.piece)) > 2*largestOutput {
		return exceeded("replacing in the value of " + name + " could make more than 64 MiB of it")
	}
	return nil
}

func checkPiece(piece string) error {
	if strings.Count(piece, `\`)*len(piece) > costliestEscapes {
		return exceeded("a substitution has too many escapes for its length")
	}
	depth := 0
	for index := 0; index+1 < len(piece); index++ {
		switch {
		case piece[index] == '$' && piece[index+1] == '{':
			depth++
		case piece[index] == '}' && depth > 0:
			depth--
		}
		if depth > deepestDefault {
			return exceeded("substitutions are nested more than 100 deep")
		}
	}
	return nil
}

func exceeded(message string) *wire.Error {
	return &wire.Error{Kind: wire.LimitExceeded, Message: message}
}
