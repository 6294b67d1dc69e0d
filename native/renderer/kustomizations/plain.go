package kustomizations

import (
	"bytes"
	"path"
	"reflect"

	"sigs.k8s.io/kustomize/api/provider"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"

	"stellwerk/renderer/nodes"
	"stellwerk/renderer/objects"
)

// A kustomization that only lists resources needs no build: its result is the content of the files, one after the other.
//
// This matters for large ones. Kustomize compares every object with every other one, several times; five thousand objects
// take it most of a minute, and this code less than a second. Kustomize's own reader reads the files, and kustomize builds
// whatever is not that plain (also a mistake), so that there is one meaning and one error message. References between
// objects stay as they are: a build only changes those to objects that it renamed.

// listing collects the resources of a plain kustomization.
type listing struct {
	stage   *stage
	factory *resource.Factory
	open    []string // folders that build on each other
	found   []listed
	ids     map[string]bool
}

type listed struct {
	object *resource.Resource
	file   string
}

// plain returns the objects, or false where a build is needed.
func (s *stage) plain(base string) ([]objects.Object, bool) {
	all := &listing{stage: s, factory: provider.NewDefaultDepProvider().GetResourceFactory(), ids: map[string]bool{}}
	if !all.folder("/" + base) {
		return nil, false
	}
	found := make([]objects.Object, 0, len(all.found))
	for _, one := range all.found {
		body, err := nodes.Object(one.object.YNode())
		if err != nil {
			return nil, false
		}
		found = append(found, objects.Object{
			Body: body, Origin: s.origin(one.file[1:]), Quoted: objects.QuotesIn(one.object.YNode()),
		})
	}
	return found, true
}

func (l *listing) folder(folder string) bool {
	for _, other := range l.open {
		if within(folder, other) {
			return false
		}
	}
	resources, isPlain := l.stage.resourcesOf(folder)
	if !isPlain {
		return false
	}
	l.open = append(l.open, folder)
	defer func() { l.open = l.open[:len(l.open)-1] }()
	for _, entry := range resources {
		if path.IsAbs(entry) || remote.MatchString(entry) || !l.entry(path.Join(folder, entry)) {
			return false
		}
	}
	return true
}

func (l *listing) entry(name string) bool {
	if content, isFile := l.stage.files.files[name]; isFile {
		return l.file(name, content)
	}
	return l.stage.files.IsDir(name) && l.folder(name)
}

// special is part of each annotation of an object that kustomize reads.
var special = []byte("config.kubernetes.io/")

func (l *listing) file(name string, content []byte) bool {
	if bytes.Contains(content, special) {
		return false
	}
	found, err := l.factory.SliceFromBytes(content)
	if err != nil {
		return false
	}
	for _, one := range found {
		id := one.CurId()
		key := id.EffectiveNamespace() + " " + id.Gvk.String() + " " + id.Name
		if l.ids[key] {
			return false
		}
		l.ids[key] = true
		l.found = append(l.found, listed{one, name})
	}
	return true
}

// resourcesOf reads the resources of a kustomization; false where it has other fields as well.
func (s *stage) resourcesOf(folder string) ([]string, bool) {
	var one types.Kustomization
	files := s.kustomizationsIn(folder)
	if len(files) != 1 || one.Unmarshal(s.files.files[files[0]]) != nil {
		return nil, false
	}
	one.FixKustomization()
	if len(one.EnforceFields()) > 0 || one.Kind != types.KustomizationKind || len(one.Resources) == 0 {
		return nil, false
	}
	resources := one.Resources
	one.Resources, one.TypeMeta, one.MetaData = nil, types.TypeMeta{}, nil
	return resources, reflect.DeepEqual(one, types.Kustomization{})
}
