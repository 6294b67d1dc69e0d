package functions

import (
	"errors"
	"fmt"
	"text/template"
)

// lookups ask the parent, which answers with the rights of whom we render for. The worker itself reaches no cluster.
//
// "target" is the cluster that objects go to, "local" the one that holds the Component; a kubeconfig names any other.
func lookups(env Environment) template.FuncMap {
	target, local := asker{env, "target"}, asker{env, "local"}
	other := asker{env, "kubeconfig"}
	return template.FuncMap{
		"lookup":                   target.get,
		"mustLookup":               target.mustGet,
		"lookupList":               target.list,
		"localLookup":              local.get,
		"mustLocalLookup":          local.mustGet,
		"localLookupList":          local.list,
		"lookupWithKubeConfig":     other.getWith,
		"mustLookupWithKubeConfig": other.mustGetWith,
		"lookupListWithKubeConfig": other.listWith,
	}
}

type asker struct {
	env   Environment
	where string
}

// get returns an empty map where the object does not exist; a kind that does not exist is an error nevertheless.
func (a asker) get(apiVersion, kind, namespace, name string) (map[string]any, error) {
	return a.getWith(apiVersion, kind, namespace, name, "")
}

func (a asker) getWith(apiVersion, kind, namespace, name, kubeconfig string) (map[string]any, error) {
	object, _, err := a.object(apiVersion, kind, namespace, name, kubeconfig)
	return object, err
}

func (a asker) mustGet(apiVersion, kind, namespace, name string) (map[string]any, error) {
	return a.mustGetWith(apiVersion, kind, namespace, name, "")
}

func (a asker) mustGetWith(apiVersion, kind, namespace, name, kubeconfig string) (map[string]any, error) {
	object, found, err := a.object(apiVersion, kind, namespace, name, kubeconfig)
	if err == nil && !found {
		return nil, fmt.Errorf("%s %s was not found", kind, where(namespace, name))
	}
	return object, err
}

func (a asker) object(apiVersion, kind, namespace, name, kubeconfig string) (map[string]any, bool, error) {
	question := a.question(apiVersion, kind, namespace, kubeconfig)
	question["name"] = name
	value, found, err := a.ask("lookup", question)
	if err != nil || !found {
		return map[string]any{}, false, err
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, false, fmt.Errorf("the answer for %s %s is no object", kind, where(namespace, name))
	}
	return object, true, nil
}

func (a asker) list(apiVersion, kind, namespace, labelSelector string) ([]any, error) {
	return a.listWith(apiVersion, kind, namespace, labelSelector, "")
}

func (a asker) listWith(apiVersion, kind, namespace, labelSelector, kubeconfig string) ([]any, error) {
	question := a.question(apiVersion, kind, namespace, kubeconfig)
	question["labelSelector"] = labelSelector
	value, found, err := a.ask("lookupList", question)
	if err != nil || !found {
		return []any{}, err
	}
	if whole, ok := value.(map[string]any); ok {
		value = whole["items"] // a List as the API server gives it
	}
	return asList(value)
}

func (a asker) question(apiVersion, kind, namespace, kubeconfig string) map[string]any {
	question := map[string]any{"apiVersion": apiVersion, "kind": kind, "namespace": namespace, "where": a.where}
	if a.where == "kubeconfig" {
		question["kubeconfig"] = kubeconfig
	}
	return question
}

func (a asker) ask(method string, question map[string]any) (any, bool, error) {
	if a.env.Uses != nil {
		a.env.Uses.Note("lookup")
	}
	if a.env.Ask == nil {
		return nil, false, errors.New("no cluster can be asked here")
	}
	answer, found, err := a.env.Ask.Ask(method, question)
	if err != nil || !found {
		return nil, false, err
	}
	value, err := Decode(answer)
	return value, true, err
}

func where(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}
