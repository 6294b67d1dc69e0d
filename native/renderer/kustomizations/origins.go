package kustomizations

import (
	"bytes"
	"path"
	"strings"

	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// origins finds the file in which an object was written.
//
// Kustomize can record that itself, but then records every transformation as well, which doubles the time of a build. So
// this code searches the files in the order in which kustomize read them, for the first object of that kind and name;
// patches are read later than the patched objects. A changed name contains the original one. An object that no file
// matches has no origin.
type origins struct {
	stage  *stage
	base   string
	byKind map[string][]*written
}

// written is an object as a file has it.
type written struct {
	name string
	file string // in the artifact
	used bool
}

const originKey = "config.kubernetes.io/origin"

func (s *stage) findOrigins(base string) *origins {
	found := &origins{stage: s, base: base, byKind: map[string][]*written{}}
	for _, file := range s.files.read {
		if isYAML(file) && !isKustomization(file) {
			found.index(file)
		}
	}
	return found
}

// index reads the lines of a file, without parsing it once more.
func (o *origins) index(file string) {
	kind, name, inMetadata := "", "", false
	finish := func() {
		if kind != "" && name != "" {
			o.byKind[kind] = append(o.byKind[kind], &written{name: name, file: o.stage.origin(file[1:])})
		}
		kind, name, inMetadata = "", "", false
	}
	for line := range bytes.Lines(o.stage.files.files[file]) {
		key, value, isEntry := strings.Cut(strings.TrimRight(string(line), " \r\n"), ":")
		indent := len(key) - len(strings.TrimLeft(key, " "))
		switch {
		case strings.HasPrefix(key, "---"):
			finish()
		case isEntry && indent == 0 && key != "" && key[0] != '#':
			inMetadata = key == "metadata"
			if key == "kind" {
				kind = plain(value)
			}
			if inMetadata {
				name = inFlow(value)
			}
		case inMetadata && isEntry && strings.TrimSpace(key) == "name" && indent <= 4 && name == "":
			name = plain(value)
		}
	}
	finish()
}

// plain is a scalar without quotes and comment.
func plain(text string) string {
	text, _, _ = strings.Cut(text, " #")
	return strings.Trim(strings.TrimSpace(text), `"'`)
}

// inFlow finds the name in {name: a, namespace: b}.
func inFlow(text string) string {
	for _, entry := range strings.Split(strings.Trim(strings.TrimSpace(text), "{}"), ",") {
		if key, value, isEntry := strings.Cut(entry, ":"); isEntry && plain(key) == "name" {
			return plain(value)
		}
	}
	return ""
}

// of returns the file of an object, and does not return it for another object.
func (o *origins) of(one *resource.Resource) string {
	if note := one.GetAnnotations()[originKey]; note != "" {
		return o.noted(note)
	}
	kind, name := one.GetKind(), one.GetName()
	for _, fits := range []func(string) bool{
		func(original string) bool { return original == name },
		func(original string) bool { return strings.Contains(name, original) },
	} {
		for _, candidate := range o.byKind[kind] {
			if !candidate.used && fits(candidate.name) {
				candidate.used = true
				return candidate.file
			}
		}
	}
	if kind == "ConfigMap" || kind == "Secret" {
		return o.stage.origin(strings.TrimPrefix(o.stage.kustomizationIn(o.base), "/"))
	}
	return ""
}

// noted reads the origin that kustomize recorded at the request of the kustomization.
func (o *origins) noted(text string) string {
	var note struct {
		Path         string `yaml:"path"`
		ConfiguredIn string `yaml:"configuredIn"`
	}
	if yaml.Unmarshal([]byte(text), &note) != nil || note.Path+note.ConfiguredIn == "" {
		return ""
	}
	return o.stage.origin(strings.TrimPrefix(path.Join("/", o.base, note.Path, note.ConfiguredIn), "/"))
}
