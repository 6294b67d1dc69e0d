package kustomizations

import (
	"encoding/json"
	"sync"
	"text/template"

	"k8s.io/apimachinery/pkg/version"

	"stellwerk/renderer/functions"
	"stellwerk/renderer/host"
	"stellwerk/renderer/wire"
)

// context is what templates may ask about the rendering. Each answer is noted, so that a result which asked for nothing
// can be given to another Component with the same files and values.
type context struct {
	request *wire.Request
	uses    host.Uses
	files   *folder
}

func (c context) functions() template.FuncMap {
	component := sync.OnceValues(c.component) // templates ask for it field by field
	return template.FuncMap{
		"namespace":         c.namespace,
		"name":              c.name,
		"component":         component,
		"componentDigest":   c.componentDigest,
		"componentRevision": c.componentRevision,
		"kubernetesVersion": c.kubernetesVersion,
		"apiResources":      c.apiResources,
		"listFiles":         c.files.list,
		"existsFile":        c.files.exists,
		"readFile":          c.files.read,
	}
}

func (c context) namespace() string {
	c.uses.Note("namespace")
	return c.request.Release.Namespace
}

func (c context) name() string {
	c.uses.Note("name")
	return c.request.Release.Name
}

func (c context) component() (fields, error) {
	c.uses.Note("component")
	var component map[string]any
	err := c.request.Component.Decode(&component)
	functions.Exact(component)
	return named(component), err
}

func (c context) componentDigest() string {
	c.uses.Note("componentDigest")
	return c.request.ComponentDigest
}

func (c context) componentRevision() int64 {
	c.uses.Note("revision")
	return int64(c.request.Release.Revision)
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
	err := c.request.Cluster.APIResources.Decode(&resources)
	return resources, err
}
