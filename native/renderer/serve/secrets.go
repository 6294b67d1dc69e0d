package serve

import (
	"fmt"
	"regexp"
	"strings"

	"stellwerk/renderer/discreet"
	"stellwerk/renderer/objects"
	"stellwerk/renderer/wire"
)

// withoutSecrets is an error in which no word of a decrypted file appears, and none of a Secret that a template read.
//
// Libraries quote what they fail at. The parent knows which values came from Secrets and hides them; what files were
// decrypted to is known here alone.
func withoutSecrets(failure *wire.Error, req *wire.Request, witness *discreet.Witness) *wire.Error {
	clean := *failure
	clean.Message = discreet.Message(failure.Message, append(decryptedWords(req), witness.Words()...))
	return &clean
}

// decryptedWords are the texts that decryption brought to light, those in packed charts too.
func decryptedWords(req *wire.Request) []string {
	var words []string
	for _, file := range req.Decryption.Opened {
		words = append(words, decryptedFrom(file.Encrypted, file.Clear)...)
	}
	return words
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
