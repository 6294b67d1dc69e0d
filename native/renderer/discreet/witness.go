package discreet

import (
	"encoding/base64"
	"encoding/json"

	"stellwerk/renderer/host"
)

// Witness passes questions on and remembers what Secrets answered, so that no message repeats it.
type Witness struct {
	host.Asker
	heard []json.RawMessage
}

// Ask asks.
func (w *Witness) Ask(method string, args map[string]any) (json.RawMessage, bool, error) {
	answer, found, err := w.Asker.Ask(method, args)
	if err == nil && found && args["kind"] == "Secret" {
		w.heard = append(w.heard, answer)
	}
	return answer, found, err
}

// Words are the texts of what was heard, as they are and decoded. They are only asked for where something failed.
func (w *Witness) Words() []string {
	var words []string
	for _, answer := range w.heard {
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
