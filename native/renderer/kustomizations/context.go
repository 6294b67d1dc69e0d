package kustomizations

import (
	"encoding/json"
	"strings"
	"sync"
	"text/template"

	"k8s.io/apimachinery/pkg/version"

	"stellwerk/renderer/functions"
	"stellwerk/renderer/wire"
)

// context has the functions for properties of the rendering. Each call is recorded, so that a result without any can be
// reused for another Component with the same files and values.
type context struct {
	request *wire.Request
	uses    wire.Uses
	files   *folder
}

func (c context) functions() template.FuncMap {
	component := sync.OnceValues(c.component) // templates ask for it field by field
	return template.FuncMap{
		"namespace":         noted(c.uses, "namespace", c.request.Release.Namespace),
		"name":              noted(c.uses, "name", c.request.Release.Name),
		"component":         component,
		"componentDigest":   noted(c.uses, "componentDigest", c.request.ComponentDigest),
		"componentRevision": noted(c.uses, "revision", int64(c.request.Release.Revision)),
		"kubernetesVersion": c.kubernetesVersion,
		"apiResources":      c.apiResources,
		"listFiles":         c.files.list,
		"existsFile":        c.files.exists,
		"readFile":          c.files.read,
	}
}

// noted is a function that returns a part of the request, and records that.
func noted[T any](uses wire.Uses, part string, value T) func() T {
	return func() T {
		uses.Note(part)
		return value
	}
}

func (c context) component() (fields, error) {
	c.uses.Note("component")
	var component map[string]any
	err := wire.Decode(c.request.Component, &component)
	functions.Exact(component)
	return named(component), err
}

// kubernetesVersion prints as v1.36.3 and has the fields of /version under their Go names.
func (c context) kubernetesVersion() (version.Info, error) {
	c.uses.Note("cluster")
	var info version.Info
	text, err := json.Marshal(c.request.Cluster.Version)
	if err != nil {
		return info, err
	}
	err = json.Unmarshal(text, &info)
	return info, err
}

func (c context) apiResources() ([]map[string]any, error) {
	c.uses.Note("cluster")
	var resources []map[string]any
	err := wire.Decode(c.request.Cluster.APIResources, &resources)
	return resources, err
}

// fields is an object whose fields have two names: component.Status.LastAttemptedRevision, as in templates of the
// original, and component.status.lastAttemptedRevision, as in YAML. As JSON it has the latter only.
type fields map[string]any

// original is the key of the object as received; no template can use this key.
const original = "\x00"

// MarshalJSON makes toYaml and toJson print the object as kubectl does.
func (f fields) MarshalJSON() ([]byte, error) {
	return json.Marshal(f[original])
}

// named adds the Go names to a Component. Absent fields of text print as nothing.
func named(component map[string]any) fields {
	if component == nil {
		component = map[string]any{}
	}
	result := twoNames(component)
	for part, absent := range absentFields {
		inner, isMap := result[part].(fields)
		if !isMap {
			inner = fields{original: map[string]any{}}
		}
		for _, name := range strings.Fields(absent.texts) {
			addMissing(inner, name, "")
		}
		for name, zero := range absent.others() {
			addMissing(inner, name, zero)
		}
		result[part], result[goName(part)] = inner, inner
	}
	promote(result)
	return result
}

// promote adds component.Name and similar fields: in Go the metadata is embedded.
func promote(component fields) {
	metadata := component["metadata"].(fields)
	component["ObjectMeta"] = metadata
	for name, value := range metadata {
		if strings.ToUpper(name[:1]) == name[:1] && name != original {
			component[name] = value
		}
	}
}

// absentFields are the fields that have an empty value in Go. Maps and lists are created for each rendering, because a template may
// change a map that it receives.
var absentFields = map[string]struct {
	texts  string
	others func() map[string]any
}{
	"metadata": {"name namespace uid resourceVersion", func() map[string]any {
		return map[string]any{
			"labels": map[string]any{}, "annotations": map[string]any{}, "finalizers": []any{}, "ownerReferences": []any{},
		}
	}},
	"spec": {"namespace name serviceAccountName requeueInterval retryInterval timeout reapplyInterval adoptionPolicy " +
		"updatePolicy deletePolicy missingNamespacesPolicy digest revision path", func() map[string]any {
		return map[string]any{
			"suspend": false, "sticky": false, "valuesFrom": []any{}, "dependencies": []any{}, "additionalManagedTypes": []any{},
		}
	}},
	"status": {"processingDigest lastProcessingDigest lastAttemptedDigest lastAttemptedRevision lastAppliedDigest " +
		"lastAppliedRevision state", func() map[string]any {
		return map[string]any{
			"observedGeneration": int64(0), "appliedGeneration": int64(0), "revision": int64(0),
			"conditions": []any{}, "inventory": []any{},
		}
	}},
}

func addMissing(target fields, name string, value any) {
	if _, there := target[name]; there {
		return
	}
	target[name] = value
	for _, alias := range goNames(name) {
		target[alias] = value
	}
}

// free are fields whose keys users choose; they have no Go names.
var free = map[string]bool{"labels": true, "annotations": true, "values": true, "substitute": true}

func twoNames(object map[string]any) fields {
	result := make(fields, 2*len(object)+1)
	for name, value := range object {
		if !free[name] {
			value = withNames(value)
		}
		result[name] = value
		for _, alias := range goNames(name) {
			result[alias] = value
		}
	}
	result[original] = object
	return result
}

func withNames(value any) any {
	switch value := value.(type) {
	case map[string]any:
		return twoNames(value)
	case []any:
		items := make([]any, len(value))
		for index, item := range value {
			items[index] = withNames(item)
		}
		return items
	default:
		return value
	}
}

// initialisms are written in capitals in Go; templates use both forms.
var initialisms = map[string]string{"uid": "UID", "url": "URL", "apiVersion": "APIVersion"}

func goNames(name string) []string {
	if name == "" {
		return nil
	}
	if capitals, known := initialisms[name]; known {
		return []string{goName(name), capitals}
	}
	return []string{goName(name)}
}

func goName(name string) string { return strings.ToUpper(name[:1]) + name[1:] }
