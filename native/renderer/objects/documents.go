package objects

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"stellwerk/renderer/wire"
)

// Document is one YAML document or JSON value of a text that is not empty.
//
// Value is made of map[string]any, []any, string, bool, int64, float64 and nil, as in unstructured objects.
type Document struct {
	Value any
	Line  int // where it begins, from 1
	// Quoted are the texts that were written in quotes and contain a variable.
	Quoted Quotes
}

// Repeat is a key that appears more than once in one mapping; the last one counts.
type Repeat struct {
	File string
	Line int // of the later one
	Key  string
}

func (r Repeat) String() string {
	return fmt.Sprintf("%s: line %d: the key %s appears twice in one mapping; the last one counts", r.File, r.Line, r.Key)
}

// Reader reads texts of one file.
type Reader struct {
	File string
	Line int // of the text's beginning in the file, from 1
	// Repeats, if set, takes the keys that appear twice, which are then read as Helm reads them; otherwise they are
	// refused.
	Repeats *[]Repeat
}

// Documents reads all documents of a text. The errors are those of Parse.
func Documents(file string, text []byte) ([]Document, error) {
	return Reader{File: file, Line: 1}.Documents(text)
}

// Documents reads all documents of a text. The errors are those of Parse.
func (r Reader) Documents(text []byte) ([]Document, error) {
	file := r.File
	if len(text) > MaxText {
		return nil, exceeded(file, 0, "is larger than %d MiB", MaxText>>20)
	}
	if !utf8.Valid(text) {
		return nil, invalid(file, lineOfInvalidText(text)+r.Line-1, "is not UTF-8 text")
	}
	if found, isJSON := jsonDocuments(text); isJSON {
		for index := range found {
			found[index].Line += r.Line - 1
		}
		return found, checkAll(file, found)
	}
	var found []Document
	for _, piece := range split(text) {
		piece.line += r.Line - 1
		value, err := r.parse(piece)
		if err != nil {
			return nil, err
		}
		if value != nil {
			found = append(found, Document{Value: value, Line: piece.firstLine(), Quoted: quotesIn(piece.text)})
		}
	}
	return found, checkAll(file, found)
}

// Value reads the first document of a text, or nil where there is none.
func Value(file string, text []byte) (any, error) {
	documents, err := Documents(file, text)
	if err != nil || len(documents) == 0 {
		return nil, err
	}
	return documents[0].Value, nil
}

// piece is one document of a text.
type piece struct {
	text []byte
	line int // of its first byte, from 1
}

// firstLine is the line of the first character that is neither blank nor comment.
func (p piece) firstLine() int {
	line := p.line
	for _, text := range bytes.Split(p.text, []byte("\n")) {
		content := bytes.TrimSpace(text)
		if len(content) > 0 && content[0] != '#' && !bytes.Equal(content, []byte("---")) {
			return line
		}
		line++
	}
	return p.line
}

// split cuts a text before each line that begins a document and after each that ends one.
//
// The library reads only the first document of what it is given, so a marker overlooked here would be a
// manifest lost without an error. Inside of a document no line can begin with a marker, not even in a block of text.
func split(text []byte) []piece {
	var pieces []piece
	start, startLine, line := 0, 1, 1
	cut := func(end, next int) {
		if content := text[start:end]; len(bytes.TrimSpace(content)) > 0 {
			pieces = append(pieces, piece{text: content, line: startLine})
		}
		start, startLine = end, next
	}
	directives := false
	for offset := 0; offset < len(text); line++ {
		end := offset + lineLength(text[offset:])
		switch current := text[offset:end]; {
		case isMarker(current, "---"):
			if !directives {
				cut(offset, line)
			}
			directives = false
		case isMarker(current, "..."):
			cut(offset, line+1)
			start = end
		case current[0] == '%' && len(bytes.TrimSpace(text[start:offset])) == 0:
			directives = true
		}
		offset = end
	}
	cut(len(text), line)
	return pieces
}

func lineLength(text []byte) int {
	if end := bytes.IndexByte(text, '\n'); end >= 0 {
		return end + 1
	}
	return len(text)
}

func isMarker(line []byte, marker string) bool {
	if !bytes.HasPrefix(line, []byte(marker)) {
		return false
	}
	return len(line) == len(marker) || strings.ContainsRune(" \t\r\n", rune(line[len(marker)]))
}

func (r Reader) parse(piece piece) (any, error) {
	file := r.File
	if err := CheckUnfolding(piece.text); err != nil {
		return nil, exceeded(file, piece.firstLine(), "%v", err)
	}
	document, err := yaml.YAMLToJSONStrict(piece.text)
	if err != nil && r.takesRepeats(piece, err) {
		document, err = yaml.YAMLToJSON(piece.text)
	}
	if err != nil {
		return nil, notYAML(file, piece, err)
	}
	var value any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(document, &value); err != nil {
		return nil, invalid(file, piece.firstLine(), "holds values that JSON lacks")
	}
	return value, nil
}

var repeated = regexp.MustCompile(`^line (\d+): key (.+) already set in map$`)

// takesRepeats records the keys that appear twice, and is true where nothing else is wrong.
func (r Reader) takesRepeats(piece piece, err error) bool {
	if r.Repeats == nil {
		return false
	}
	var found []Repeat
	for line := range strings.SplitSeq(err.Error(), "\n") {
		line = strings.TrimSpace(line)
		if strings.HasSuffix(line, "unmarshal errors:") {
			continue
		}
		match := repeated.FindStringSubmatch(line)
		if match == nil {
			return false
		}
		number, _ := strconv.Atoi(match[1])
		found = append(found, Repeat{File: r.File, Line: piece.line + number - 1, Key: match[2]})
	}
	*r.Repeats = append(*r.Repeats, found...)
	return len(found) > 0
}

// jsonDocuments reads a text of JSON values one after the other. It returns false for other text: YAML may
// also begin with a brace, and its reader has the better messages.
func jsonDocuments(text []byte) (found []Document, isJSON bool) {
	rest := bytes.TrimLeft(text, " \t\r\n")
	if len(rest) == 0 || rest[0] != '{' {
		return nil, false
	}
	var value any
	strict, err := kjson.UnmarshalStrict(rest, &value, kjson.DisallowDuplicateFields)
	if err != nil || len(strict) > 0 {
		return nil, false
	}
	return []Document{{Value: value, Line: 1 + bytes.Count(text[:len(text)-len(rest)], []byte("\n"))}}, true
}

var (
	lineOfError = regexp.MustCompile(`line (\d+): ?`)
	anchorName  = regexp.MustCompile(`unknown anchor '.*' referenced`)
	tagProblem  = regexp.MustCompile("cannot (unmarshal|decode) .*")
)

// notYAML reports the place and the reason of an error of the library, without the text that it may quote.
func notYAML(file string, piece piece, err error) *wire.Error {
	why := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "), "yaml: ")
	why = strings.TrimSpace(strings.TrimPrefix(why, "unmarshal errors:"))
	why, _, _ = strings.Cut(why, "\n")
	line := piece.firstLine()
	if place := lineOfError.FindStringSubmatch(why); place != nil {
		number, _ := strconv.Atoi(place[1])
		line = piece.line + number - 1
		why = lineOfError.ReplaceAllString(why, "")
	}
	why = anchorName.ReplaceAllString(why, "an alias names nothing (text that begins with * must be quoted)")
	why = tagProblem.ReplaceAllString(why, "a value does not fit its tag")
	why = strings.ReplaceAll(why, "already set in map", "appears twice")
	return &wire.Error{
		Kind: wire.InvalidManifest, Message: fmt.Sprintf("%s is not YAML: line %d: %s", file, line, why),
		File: file, Line: line,
	}
}

func lineOfInvalidText(text []byte) int {
	number := 1
	for line := range bytes.Lines(text) {
		if !utf8.Valid(line) {
			break
		}
		number++
	}
	return number
}
