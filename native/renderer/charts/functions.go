package charts

import (
	"encoding/json"
	"errors"
	"fmt"
	"text/template"

	kjson "sigs.k8s.io/json"

	"stellwerk/renderer/functions"
	"stellwerk/renderer/wire"
)

// helmsOwn are the functions that Helm defines itself. Ours of the same name are stricter, so a chart has Helm's.
var helmsOwn = []string{
	"include", "tpl", "required", "fail",
	"toYaml", "mustToYaml", "toYamlPretty", "fromYaml", "fromYamlArray",
	"toJson", "mustToJson", "fromJson", "fromJsonArray",
	"toToml", "mustToToml", "fromToml",
}

// functionsFor are the functions that Helm's engine has in addition to its own, and lookups that ask the parent.
func functionsFor(ask *asker, uses wire.Uses) template.FuncMap {
	all := functions.Map(functions.Environment{Ask: ask, Uses: uses})
	for _, name := range helmsOwn {
		delete(all, name)
	}
	all["lookup"] = func(apiVersion, kind, namespace, name string) (map[string]any, error) {
		uses.Note("lookup")
		return ask.lookup(apiVersion, kind, namespace, name)
	}
	// Helm's engine defines it. A template must not resolve names of the network of the operator.
	all["getHostByName"] = func(string) (string, error) {
		return "", errors.New(`function "getHostByName" not defined: templates have no network`)
	}
	return all
}

// asker records the first failure of a lookup, because Helm's engine turns errors into text.
type asker struct {
	wire.Asker
	failure error
}

// Ask asks the parent, and records a failure.
func (a *asker) Ask(method string, args map[string]any) (json.RawMessage, bool, error) {
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
	var noKind *wire.NoSuchKind
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
	if err := kjson.UnmarshalCaseSensitivePreserveInts(value, &decoded); err != nil {
		return nil, fmt.Errorf("the answer for %s is no JSON: %w", kind, err)
	}
	if items, isList := decoded.([]any); isList {
		return map[string]any{"apiVersion": apiVersion, "kind": kind + "List", "items": items}, nil
	}
	object, isObject := decoded.(map[string]any)
	if !isObject {
		return nil, fmt.Errorf("the answer for %s is no object", kind)
	}
	return object, nil
}
