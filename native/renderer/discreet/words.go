package discreet

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"stellwerk/renderer/objects"
	"stellwerk/renderer/wire"
)

// Witness passes lookups on and records the Secrets among the answers, so that no message repeats them.
type Witness struct {
	wire.Asker
	secrets []json.RawMessage
}

// Ask asks the parent.
func (w *Witness) Ask(method string, args map[string]any) (json.RawMessage, bool, error) {
	answer, found, err := w.Asker.Ask(method, args)
	if err == nil && found && args["kind"] == "Secret" {
		w.secrets = append(w.secrets, answer)
	}
	return answer, found, err
}

// Words are the texts of the Secrets, encoded and decoded.
func (w *Witness) Words() []string {
	var words []string
	for _, answer := range w.secrets {
		var value any
		if json.Unmarshal(answer, &value) == nil {
			words = texts(words, value)
		}
	}
	return words
}

func texts(words []string, value any) []string {
	switch value := value.(type) {
	case map[string]any:
		for key, item := range value {
			if key != "metadata" && key != "apiVersion" && key != "kind" && key != "type" {
				words = texts(words, item)
			}
		}
	case []any:
		for _, item := range value {
			words = texts(words, item)
		}
	case string:
		words = append(words, value)
		if clear, err := base64.StdEncoding.DecodeString(value); err == nil {
			words = append(words, string(clear))
		}
	}
	return words
}

// Decrypted are the values that were encrypted in the files, those in packed charts too.
func Decrypted(opened map[string]wire.Opened) []string {
	var words []string
	for _, file := range opened {
		words = append(words, decryptedFrom(file.Encrypted, file.Clear)...)
	}
	return words
}

// decryptedFrom are the encrypted values of a file: most files have kinds and names in clear text, and hiding those as
// well would make a message useless. Where the values of both texts cannot be compared, all of the file is hidden.
func decryptedFrom(content, clear []byte) []string {
	before, after := mappings(content), mappings(clear)
	if len(before) == 0 || len(before) != len(after) || isOneText(before) {
		return everything(clear)
	}
	var words []string
	for index := range after {
		words = revealed(words, before[index], after[index])
	}
	return words
}

// mappings are the documents of a text; none where one of them is no mapping, or the text cannot be read.
func mappings(text []byte) []map[string]any {
	documents, err := objects.Documents("", text)
	if err != nil {
		return nil
	}
	found := make([]map[string]any, 0, len(documents))
	for _, document := range documents {
		mapping, isMapping := document.Value.(map[string]any)
		if !isMapping {
			return nil
		}
		found = append(found, mapping)
	}
	return found
}

// isOneText is whether SOPS encrypted a file as one text, whatever its format is: under the key data, next to its own
// metadata. Such a file is decrypted to that text, which may be a mapping by itself.
func isOneText(encrypted []map[string]any) bool {
	_, isText := encrypted[0]["data"].(string)
	_, hasMetadata := encrypted[0]["sops"]
	return len(encrypted) == 1 && len(encrypted[0]) == 2 && isText && hasMetadata
}

// unstructured finds the words of a text without regard to its format; unpunctuated also splits them at the punctuation of
// most formats, which a value may contain as well.
var (
	unstructured = regexp.MustCompile(`[^\s"'=]+`)
	unpunctuated = regexp.MustCompile("[^\\s\"'=`{}\\[\\]()<>,;:]+")
)

// everything are the words and the lines of a text, and where it is YAML or JSON also its values: those may be escaped.
func everything(text []byte) []string {
	words := append(unstructured.FindAllString(string(text), -1), unpunctuated.FindAllString(string(text), -1)...)
	words = append(words, strings.Split(string(text), "\n")...)
	documents, _ := objects.Documents("", text)
	for _, document := range documents {
		words = values(words, document.Value)
	}
	return words
}

func values(words []string, value any) []string {
	switch value := value.(type) {
	case map[string]any:
		for _, inner := range value {
			words = values(words, inner)
		}
	case []any:
		for _, inner := range value {
			words = values(words, inner)
		}
	case nil:
	default:
		words = shownAs(words, value)
	}
	return words
}

func revealed(words []string, before, after any) []string {
	switch after := after.(type) {
	case map[string]any:
		encrypted, _ := before.(map[string]any)
		for key, inner := range after {
			words = revealed(words, encrypted[key], inner)
		}
	case []any:
		encrypted, _ := before.([]any)
		for index, inner := range after {
			if index < len(encrypted) {
				words = revealed(words, encrypted[index], inner)
			}
		}
	default:
		if cipher, isText := before.(string); isText && strings.HasPrefix(cipher, "ENC[") {
			words = shownAs(words, after)
		}
	}
	return words
}

// shownAs appends a value as messages quote it: whole, trimmed, or one of its lines.
func shownAs(words []string, value any) []string {
	text := fmt.Sprint(value)
	return append(append(words, text, strings.TrimSpace(text)), strings.Split(text, "\n")...)
}
