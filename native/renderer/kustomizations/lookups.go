package kustomizations

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"

	"stellwerk/renderer/functions"
	"stellwerk/renderer/host"
	"stellwerk/renderer/wire"
)

// witness passes questions on and remembers what Secrets answered, so that no message repeats it.
type witness struct {
	host.Asker
	heard []string
}

// Ask asks.
func (w *witness) Ask(method string, args map[string]any) (json.RawMessage, bool, error) {
	if w.Asker == nil {
		return nil, false, errors.New("no cluster can be asked here")
	}
	answer, found, err := w.Asker.Ask(method, args)
	if err == nil && found && args["kind"] == "Secret" {
		if value, err := functions.Decode(answer); err == nil {
			w.listen(value)
		}
	}
	return answer, found, err
}

// shortest is the length from which a text is worth hiding.
const shortest = 4

func (w *witness) listen(value any) {
	switch value := value.(type) {
	case map[string]any:
		for key, item := range value {
			if key != "metadata" && key != "apiVersion" && key != "kind" && key != "type" {
				w.listen(item)
			}
		}
	case []any:
		for _, item := range value {
			w.listen(item)
		}
	case string:
		w.remember(value)
		if clear, err := base64.StdEncoding.DecodeString(value); err == nil {
			w.remember(string(clear))
		}
	}
}

func (w *witness) remember(text string) {
	for _, word := range append(strings.Split(text, "\n"), text) {
		if len(word) >= shortest {
			w.heard = append(w.heard, word)
		}
	}
}

// discreet takes what was heard out of a message.
func (w *witness) discreet(err error) error {
	var known *wire.Error
	if !errors.As(err, &known) || len(w.heard) == 0 {
		return err
	}
	clean := *known
	for _, word := range w.heard {
		clean.Message = strings.ReplaceAll(clean.Message, word, "***")
	}
	return &clean
}
