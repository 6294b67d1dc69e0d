package serve

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"stellwerk/renderer/decrypt"
	"stellwerk/renderer/objects"
	"stellwerk/renderer/wire"
)

// shortest is the length from which a decrypted word is worth hiding; shorter ones hide nothing but the message.
const shortest = 4

// withoutSecrets is an error in which no word of a decrypted file appears.
//
// Libraries quote what they fail at. The parent knows which values came from Secrets and hides them; what files were
// decrypted to is known here alone. They are decrypted once more for it, which only an error costs.
func withoutSecrets(failure *wire.Error, req *wire.Request) *wire.Error {
	hidden := decryptedWords(req)
	if len(hidden) == 0 {
		return failure
	}
	clean := *failure
	for _, word := range hidden {
		clean.Message = strings.ReplaceAll(clean.Message, word, "***")
	}
	return &clean
}

// decryptedWords are the texts that decryption brought to light, longest first.
func decryptedWords(req *wire.Request) []string {
	if len(req.Decryption.Keys) == 0 {
		return nil
	}
	keys, err := decrypt.New(req.Decryption.Keys)
	if err != nil {
		return nil
	}
	var words []string
	for name, content := range req.Files {
		clear, err := keys.File(name, content)
		if err == nil && !bytes.Equal(clear, content) {
			words = append(words, decryptedFrom(content, clear)...)
		}
	}
	words = slices.DeleteFunc(words, func(word string) bool { return len(word) < shortest })
	slices.SortFunc(words, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return slices.Compact(words)
}

// unstructured are the words of a text that is neither YAML nor JSON.
var unstructured = regexp.MustCompile(`[^\s"'=]+`)

// decryptedFrom are the values that were encrypted: most files keep kinds and names in the open, and hiding those too
// would leave a message without a meaning.
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
