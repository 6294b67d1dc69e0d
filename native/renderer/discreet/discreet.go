// Package discreet takes out of messages what must not be in them.
//
// Libraries quote what they fail at: whole, escaped as Go, JSON or YAML would have it, the first letters, or from the
// place on at which they stumbled. A message is also cut where it gets too long. So a word is looked for in each of these
// forms. The parent does the same for the values that it knows to come from Secrets (`masked` in render/values.py).
package discreet

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	mask = "***"
	// shortest is the length from which a word is worth hiding; shorter ones hide nothing but the message.
	shortest = 4
	// shortestPart is that of a part of a word. A YAML library quotes seven letters.
	shortestPart = 6
	cut          = "..."
)

var (
	quoted = []*regexp.Regexp{
		regexp.MustCompile("`[^`\n]{6,}`"), regexp.MustCompile(`"[^"\n]{6,}"`), regexp.MustCompile(`'[^'\n]{6,}'`),
	}
	plain = regexp.MustCompile(`^[\w .,:;/@=+~%-]*$`)
)

// Message is the text without the words, and without parts of them where it quotes or ends with one.
func Message(text string, words []string) string {
	words = worthHiding(words)
	for _, word := range words {
		for _, spelling := range spellings(word) {
			text = strings.ReplaceAll(text, spelling, mask)
		}
	}
	for _, one := range quoted {
		text = withoutParts(text, one, words)
	}
	return withoutTail(text, words)
}

// worthHiding are the words and the lines of them, each once, the longest first.
func worthHiding(words []string) []string {
	var all []string
	for _, word := range words {
		all = append(all, word, strings.TrimSpace(word))
		for line := range strings.Lines(word) {
			all = append(all, strings.TrimSpace(line))
		}
	}
	all = slices.DeleteFunc(all, func(word string) bool { return len(word) < shortest })
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return slices.Compact(all)
}

// spellings are the word itself and how messages may write it.
func spellings(word string) []string {
	if plain.MatchString(word) {
		return []string{word}
	}
	inGo := strconv.Quote(word)
	all := []string{word, inGo[1 : len(inGo)-1], strings.ReplaceAll(word, "'", "''"), strings.ReplaceAll(word, "'", `\'`)}
	if inJSON, err := json.Marshal(word); err == nil {
		all = append(all, string(inJSON[1:len(inJSON)-1]))
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	return all
}

// withoutParts hides what stands between two marks if it is a part of a word. A mark may end one quotation and begin the
// next by mistake (an apostrophe), so the search goes on at the second mark and not behind it.
func withoutParts(text string, between *regexp.Regexp, words []string) string {
	var kept strings.Builder
	for {
		found := between.FindStringIndex(text)
		if found == nil {
			return kept.String() + text
		}
		start, end := found[0]+1, found[1]-1
		part := text[start:end]
		if isPart(strings.TrimSuffix(part, cut), words) {
			part = mask
		}
		kept.WriteString(text[:start] + part)
		text = text[end:]
	}
}

func isPart(part string, words []string) bool {
	return len(part) >= shortestPart && slices.ContainsFunc(words, func(word string) bool {
		return slices.ContainsFunc(spellings(word), func(one string) bool { return strings.Contains(one, part) })
	})
}

// withoutTail hides a word of which the message was cut.
func withoutTail(text string, words []string) string {
	body, isCut := strings.CutSuffix(text, cut)
	if !isCut {
		return text
	}
	for _, word := range words {
		for at := max(0, len(body)-len(word)); at <= len(body)-shortest; at++ {
			if strings.HasPrefix(word, body[at:]) {
				body = body[:at] + mask
				break
			}
		}
	}
	return body + cut
}
