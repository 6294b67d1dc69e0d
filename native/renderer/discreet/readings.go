package discreet

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"
)

// reading is a text with its escapes resolved, and where each byte of it was written.
type reading struct {
	text         string
	starts, ends []int
}

var (
	backslashes = regexp.MustCompile(`\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}` +
		`|U00[01][0-9a-fA-F]{5}|x[0-9a-fA-F]{2}|[abefnrtv0\\'"/ ])`)
	quotes   = regexp.MustCompile(`''`)
	percents = regexp.MustCompile(`(?:%[0-9a-fA-F]{2})+`)
	simple   = map[byte]string{
		'a': "\a", 'b': "\b", 'e': "\x1b", 'f': "\f", 'n': "\n", 'r': "\r", 't': "\t", 'v': "\v", '0': "\x00",
	}
)

// readings are the text as it is, and with each kind of escape resolved; backslashes twice, for JSON in a Go string.
func readings(text string) []*reading {
	plain := &reading{text: text, starts: make([]int, len(text)), ends: make([]int, len(text))}
	for at := range len(text) {
		plain.starts[at], plain.ends[at] = at, at+1
	}
	all := []*reading{plain}
	if strings.Contains(text, `\`) {
		once := plain.resolved(backslashes, ofBackslash)
		all = append(all, once)
		if strings.Contains(once.text, `\`) {
			all = append(all, once.resolved(backslashes, ofBackslash))
		}
	}
	if strings.Contains(text, "''") {
		all = append(all, plain.resolved(quotes, func(string) string { return "'" }))
	}
	if strings.Contains(text, "%") {
		all = append(all, plain.resolved(percents, ofPercent))
	}
	return all
}

func (r *reading) resolved(escapes *regexp.Regexp, meaning func(string) string) *reading {
	var text strings.Builder
	found := &reading{}
	copied := 0
	keep := func(end int) {
		text.WriteString(r.text[copied:end])
		found.starts = append(found.starts, r.starts[copied:end]...)
		found.ends = append(found.ends, r.ends[copied:end]...)
	}
	for _, place := range escapes.FindAllStringIndex(r.text, -1) {
		keep(place[0])
		meant := meaning(r.text[place[0]:place[1]])
		text.WriteString(meant)
		for range len(meant) {
			found.starts = append(found.starts, r.starts[place[0]])
			found.ends = append(found.ends, r.ends[place[1]-1])
		}
		copied = place[1]
	}
	keep(len(r.text))
	found.text = text.String()
	return found
}

func ofBackslash(escape string) string {
	switch letter := escape[1]; letter {
	case 'u', 'x', 'U':
		if len(escape) == len(`\ud83d\ude00`) && letter == 'u' {
			return string(utf16.DecodeRune(number(escape[2:6]), number(escape[8:])))
		}
		return string(number(escape[2:]))
	default:
		if meant, isSimple := simple[letter]; isSimple {
			return meant
		}
		return string(rune(letter))
	}
}

func number(digits string) rune {
	value, _ := strconv.ParseUint(digits, 16, 32)
	return rune(value)
}

func ofPercent(escape string) string {
	meant, err := url.PathUnescape(escape)
	if err != nil {
		return escape
	}
	return meant
}
