// Package discreet removes secret words from messages.
//
// Libraries quote the value at which they fail: whole, escaped as in Go, JSON, YAML or a URL, its first letters, or its
// rest after the error. A long message is also cut. So a word is searched in each of these forms, in time that is linear
// in the message and in the words: the message is unescaped in all ways, instead of escaping each word in all ways (see
// readings.go). The parent does the same for the values that it knows to be from Secrets (kube/masking.py).
package discreet

import (
	"index/suffixarray"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	mask = "***"
	// shortest is the length from which a word is hidden; hiding shorter ones would make messages useless.
	shortest = 4
	// shortestPart is the length from which a part of a word is hidden. A YAML library quotes seven letters.
	shortestPart = 6
	cut          = "..."
	// longestMessage is how many bytes a message may have; a longer one is cut before it is compared.
	longestMessage = 4_096
)

// Message is the text without the words, and without parts of them where it quotes a part or ends with one.
func Message(text string, words []string) string {
	text = shortened(text)
	words = worthHiding(words)
	if len(words) == 0 {
		return text
	}
	hidden := make(cover, len(text)+1)
	for _, reading := range readings(text) {
		reading.hideWords(words, hidden)
	}
	hideParts(text, words, hidden)
	return hidden.apply(text)
}

// shortened cuts a text to longestMessage; a cut text ends in an ellipsis.
func shortened(text string) string {
	if len(text) <= longestMessage {
		return text
	}
	end := longestMessage - len(cut)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + cut
}

// worthHiding are the words and the lines of them, each once.
func worthHiding(words []string) []string {
	all := map[string]bool{}
	for _, word := range words {
		all[word], all[strings.TrimSpace(word)] = true, true
		for line := range strings.Lines(word) {
			all[strings.TrimSpace(line)] = true
		}
	}
	maps.DeleteFunc(all, func(word string, _ bool) bool { return len(word) < shortest })
	return slices.Collect(maps.Keys(all))
}

// hideWords hides each occurrence of a word in a reading, and the beginning of a word before the cut.
func (r *reading) hideWords(words []string, hidden cover) {
	heads := map[string]bool{}
	for at := range len(r.text) - shortest + 1 {
		heads[r.text[at:at+shortest]] = true
	}
	index := suffixarray.New([]byte(r.text))
	var candidates []string
	for _, word := range words {
		if !heads[word[:shortest]] {
			continue
		}
		candidates = append(candidates, word)
		for _, start := range index.Lookup([]byte(word), -1) {
			hidden.add(r.starts[start], r.ends[start+len(word)-1])
		}
	}
	if body, isCut := strings.CutSuffix(r.text, cut); isCut {
		r.hideTail(body, candidates, hidden)
	}
}

// hideTail hides the longest end of the message with which a word begins.
func (r *reading) hideTail(body string, words []string, hidden cover) {
	slices.Sort(words)
	for start := range max(0, len(body)-shortest+1) {
		begun := body[start:]
		at, _ := slices.BinarySearch(words, begun)
		if at < len(words) && strings.HasPrefix(words[at], begun) {
			hidden.add(r.starts[start], r.ends[len(body)-1])
			return
		}
	}
}

// hideParts hides the text between two quotation marks if it is a part of a word. A mark may end one quotation and begin
// the next by mistake (an apostrophe), so the text between any two marks is compared.
func hideParts(text string, words []string, hidden cover) {
	joined, compared := strings.Join(words, "\x00"), map[string]bool{}
	for _, mark := range "`\"'" {
		start := 0
		for piece := range strings.SplitSeq(text, string(mark)) {
			end := start + len(piece)
			if len(piece) >= shortestPart {
				isPart, isCompared := compared[piece]
				if !isCompared {
					isPart = holds(joined, strings.TrimSuffix(piece, cut))
					compared[piece] = isPart
				}
				if isPart {
					hidden.add(start, end)
				}
			}
			start = end + 1
		}
	}
}

func holds(joined, part string) bool {
	return slices.ContainsFunc(readings(part), func(reading *reading) bool {
		return len(reading.text) >= shortestPart && strings.Contains(joined, strings.TrimSuffix(reading.text, `\`))
	})
}

// cover collects which letters of a text are hidden: how many hidden places begin and end at each of them.
type cover []int

func (c cover) add(start, end int) {
	c[start]++
	c[end]--
}

// apply is the text with a mask in the place of each run of hidden letters.
func (c cover) apply(text string) string {
	var shown strings.Builder
	depth := 0
	for at := range len(text) {
		before := depth
		depth += c[at]
		switch {
		case depth == 0:
			shown.WriteByte(text[at])
		case before == 0:
			shown.WriteString(mask)
		}
	}
	return shown.String()
}
