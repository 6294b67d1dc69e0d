package charts

import (
	"encoding/json"
	"errors"
	"fmt"
	"text/template"

	"sigs.k8s.io/yaml"

	"stellwerk/renderer/functions"
	"stellwerk/renderer/host"
	"stellwerk/renderer/objects"
	"stellwerk/renderer/wire"
)

// helmsOwn are the functions that Helm defines itself. Ours of the same name are stricter, so a chart gets Helm's.
var helmsOwn = []string{
	"include", "tpl", "required", "fail",
	"toYaml", "mustToYaml", "toYamlPretty", "fromYaml", "fromYamlArray",
	"toJson", "mustToJson", "fromJson", "fromJsonArray",
	"toToml", "mustToToml", "fromToml",
}

// functionsFor are the functions that Helm's engine gets in addition to its own: those that it lacks, those of sprig
// within bounds, and lookups that ask the parent.
func functionsFor(ask *asker, uses host.Uses) template.FuncMap {
	all := functions.Map(functions.Environment{Ask: ask, Uses: uses})
	for _, name := range helmsOwn {
		delete(all, name)
	}
	all["fromYaml"], all["fromYamlArray"] = fromYAML, fromYAMLArray
	all["lookup"] = func(apiVersion, kind, namespace, name string) (map[string]any, error) {
		uses.Note("lookup")
		return ask.lookup(apiVersion, kind, namespace, name)
	}
	// Helm's engine would define it. A template is not to find out which names exist where we run.
	all["getHostByName"] = func(string) (string, error) {
		return "", errors.New(`function "getHostByName" not defined: templates have no network`)
	}
	return all
}

// fromYAML is Helm's, which returns an error as a value, for text that does not unfold to more than it may.
func fromYAML(text string) map[string]any {
	value := map[string]any{}
	if err := unfoldable(text, &value); err != nil {
		value["Error"] = err.Error()
	}
	return value
}

// fromYAMLArray is Helm's for a list.
func fromYAMLArray(text string) []any {
	list := []any{}
	if err := unfoldable(text, &list); err != nil {
		list = []any{err.Error()}
	}
	return list
}

func unfoldable(text string, value any) error {
	if len(text) > objects.MaxText {
		return fmt.Errorf("the text is larger than %d MiB", objects.MaxText>>20)
	}
	if err := objects.CheckUnfolding([]byte(text)); err != nil {
		return fmt.Errorf("the text %w", err)
	}
	return yaml.Unmarshal([]byte(text), value)
}

// asker passes questions on and remembers the first failure: Helm's engine makes text of errors.
type asker struct {
	host.Asker
	failure error
}

// Ask asks, and remembers a failure.
func (a *asker) Ask(method string, args map[string]any) (json.RawMessage, bool, error) {
	if a.Asker == nil {
		return nil, false, errors.New("no cluster can be asked here")
	}
	value, found, err := a.Asker.Ask(method, args)
	if err != nil && a.failure == nil {
		a.failure = err
	}
	return value, found, err
}

// lookup is Helm's: an empty result for what does not exist, kinds included, and a list where no name is given.
func (a *asker) lookup(apiVersion, kind, namespace, name string) (map[string]any, error) {
	method, args := "lookup", map[string]any{
		"apiVersion": apiVersion, "kind": kind, "namespace": namespace, "where": "target", "name": name,
	}
	if name == "" {
		method = "lookupList"
		delete(args, "name")
		args["labelSelector"] = ""
	}
	value, found, err := a.Ask(method, args)
	var noKind *host.NoSuchKind
	if errors.As(err, &noKind) {
		a.failure = nil
		return map[string]any{}, nil
	}
	if err != nil || !found {
		return map[string]any{}, err
	}
	return answer(value, apiVersion, kind)
}

// answer reads an object, or a list: the API server's own, or just its items.
func answer(value json.RawMessage, apiVersion, kind string) (map[string]any, error) {
	var decoded any
	if err := wire.Unmarshal(value, &decoded); err != nil {
		return nil, fmt.Errorf("the answer for %s is no JSON: %w", kind, err)
	}
	switch decoded := decoded.(type) {
	case map[string]any:
		return decoded, nil
	case []any:
		return map[string]any{"apiVersion": apiVersion, "kind": kind + "List", "items": decoded}, nil
	default:
		return nil, fmt.Errorf("the answer for %s is no object", kind)
	}
}
