package functions

import (
	"errors"
	"fmt"
	"text/template"
)

// lookups ask the parent, which answers with the rights of the object that it renders for. The worker itself has no
// access to a cluster.
//
// "target" is the cluster of the rendered objects, "local" the one that has the Component; a kubeconfig names any other.
func lookups(env Environment) template.FuncMap {
	target, local, other := asker{env, "target"}, asker{env, "local"}, asker{env, "kubeconfig"}
	return template.FuncMap{
		"lookup":                   withoutKubeconfig(target.get),
		"mustLookup":               withoutKubeconfig(target.mustGet),
		"lookupList":               withoutKubeconfig(target.list),
		"localLookup":              withoutKubeconfig(local.get),
		"mustLocalLookup":          withoutKubeconfig(local.mustGet),
		"localLookupList":          withoutKubeconfig(local.list),
		"lookupWithKubeConfig":     other.get,
		"mustLookupWithKubeConfig": other.mustGet,
		"lookupListWithKubeConfig": other.list,
	}
}

// withoutKubeconfig is a lookup in a cluster that needs no kubeconfig. The last argument is a name or a label selector.
func withoutKubeconfig[T any](
	lookup func(apiVersion, kind, namespace, last, kubeconfig string) (T, error),
) func(apiVersion, kind, namespace, last string) (T, error) {
	return func(apiVersion, kind, namespace, last string) (T, error) {
		return lookup(apiVersion, kind, namespace, last, "")
	}
}

type asker struct {
	env   Environment
	where string
}

// get returns an empty map where the object does not exist; a kind that does not exist is an error nevertheless.
func (a asker) get(apiVersion, kind, namespace, name, kubeconfig string) (map[string]any, error) {
	value, found, err := a.ask("lookup", apiVersion, kind, namespace, kubeconfig, "name", name)
	if err != nil || !found {
		return map[string]any{}, err
	}
	object, isObject := value.(map[string]any)
	if !isObject {
		return nil, fmt.Errorf("the answer for %s %s is no object", kind, where(namespace, name))
	}
	return object, nil
}

func (a asker) mustGet(apiVersion, kind, namespace, name, kubeconfig string) (map[string]any, error) {
	object, err := a.get(apiVersion, kind, namespace, name, kubeconfig)
	if err == nil && len(object) == 0 {
		return nil, fmt.Errorf("%s %s was not found", kind, where(namespace, name))
	}
	return object, err
}

func (a asker) list(apiVersion, kind, namespace, labelSelector, kubeconfig string) ([]any, error) {
	value, found, err := a.ask("lookupList", apiVersion, kind, namespace, kubeconfig, "labelSelector", labelSelector)
	if err != nil || !found {
		return []any{}, err
	}
	if list, isList := value.(map[string]any); isList {
		value = list["items"] // a List of the API server
	}
	return asList(value)
}

func (a asker) ask(method, apiVersion, kind, namespace, kubeconfig, key, last string) (any, bool, error) {
	if a.env.Uses != nil {
		a.env.Uses.Note("lookup")
	}
	if a.env.Ask == nil {
		return nil, false, errors.New("no cluster can be asked here")
	}
	question := map[string]any{"apiVersion": apiVersion, "kind": kind, "namespace": namespace, "where": a.where, key: last}
	if a.where == "kubeconfig" {
		question["kubeconfig"] = kubeconfig
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
