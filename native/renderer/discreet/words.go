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

// unstructured finds the words of a text that is neither YAML nor JSON.
var unstructured = regexp.MustCompile(`[^\s"'=]+`)

// decryptedFrom are the encrypted values of a file: most files have kinds and names in clear text, and hiding those as
// well would make a message useless.
func decryptedFrom(content, clear []byte) []string {
	before, err := objects.Value("", content)
	after, alsoErr := objects.Value("", clear)
	if _, isMapping := after.(map[string]any); err != nil || alsoErr != nil || !isMapping {
		return append(unstructured.FindAllString(string(clear), -1), strings.Split(string(clear), "\n")...)
	}
	return revealed(nil, before, after)
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
			text := fmt.Sprint(after)
			words = append(append(words, text, strings.TrimSpace(text)), strings.Split(text, "\n")...)
		}
	}
	return words
}
