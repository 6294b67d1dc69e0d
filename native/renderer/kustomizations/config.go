package kustomizations

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"stellwerk/renderer/objects"
	"stellwerk/renderer/wire"
)

const (
	configName = ".component-config.yaml"
	ignoreName = ".component-ignore"
)

// config is the content of .component-config.yaml. Its keys may be written in any case.
type config struct {
	suffix                 string // of templates; empty: every file is one
	left, right            string // delimiters
	includedFiles          []string
	includedKustomizations []string
	values                 map[string]any
}

// keysOfConfig are the keys as messages write them; keys are compared without regard to case.
var keysOfConfig = []string{
	"templateSuffix", "leftTemplateDelimiter", "rightTemplateDelimiter", "includedFiles", "includedKustomizations", "values",
}

// readConfig refuses unknown keys, so that the author learns of a misspelt one.
func readConfig(file string, text []byte) (config, error) {
	result := config{left: "{{", right: "}}"}
	value, err := objects.Value(file, text)
	if err != nil {
		return result, wire.AsKind(err, wire.InvalidManifest, wire.InvalidConfig)
	}
	if value == nil {
		return result, nil
	}
	settings, isMapping := value.(map[string]any)
	if !isMapping {
		return result, invalidConfig(file, place{1, 1}, "is no mapping of settings")
	}
	places := placesOfKeys(text)
	seen := map[string]bool{}
	for _, key := range inOrder(settings, places) {
		at := places[key]
		canonical := canonicalKey(key)
		if canonical == "" {
			return result, invalidConfig(file, at, "has the unknown key %q; known are %s", key, strings.Join(keysOfConfig, ", "))
		}
		if seen[canonical] {
			return result, invalidConfig(file, at, "has %s twice, in different case", canonical)
		}
		seen[canonical] = true
		if problem := result.set(canonical, settings[key]); problem != "" {
			return result, invalidConfig(file, at, "%s", problem)
		}
	}
	return result, nil
}

func canonicalKey(key string) string {
	for _, known := range keysOfConfig {
		if strings.EqualFold(key, known) {
			return known
		}
	}
	return ""
}

// set sets one setting and returns what is wrong with it.
func (c *config) set(key string, value any) string {
	if value == nil {
		return ""
	}
	valid, expected := false, "text"
	switch key {
	case "templateSuffix":
		c.suffix, valid = value.(string)
	case "leftTemplateDelimiter":
		valid = setText(&c.left, value)
	case "rightTemplateDelimiter":
		valid = setText(&c.right, value)
	case "includedFiles":
		c.includedFiles, valid = textList(value)
		expected = "a list of relative paths"
	case "includedKustomizations":
		c.includedKustomizations, valid = textList(value)
		expected = "a list of relative paths"
	case "values":
		c.values, valid = value.(map[string]any)
		expected = "a mapping"
	}
	if !valid {
		return key + " must be " + expected
	}
	return ""
}

// setText keeps the default where the setting is empty.
func setText(target *string, value any) bool {
	text, isText := value.(string)
	if isText && text != "" {
		*target = text
	}
	return isText
}

func textList(value any) ([]string, bool) {
	items, isList := value.([]any)
	var texts []string
	for _, item := range items {
		text, isText := item.(string)
		if !isText || text == "" {
			return nil, false
		}
		texts = append(texts, text)
	}
	return texts, isList
}

// place is a position in a file, from 1.
type place struct{ line, column int }

// placesOfKeys finds where each key of the outermost mapping is written.
func placesOfKeys(text []byte) map[string]place {
	places := map[string]place{}
	var document yaml.Node
	if yaml.Unmarshal(text, &document) != nil || len(document.Content) == 0 {
		return places
	}
	top := document.Content[0]
	for index := 0; index+1 < len(top.Content); index += 2 {
		key := top.Content[index]
		places[key.Value] = place{key.Line, key.Column}
	}
	return places
}

// outside resolves an included path. It must be in the artifact, and not below the kustomization that includes it.
func outside(base, included, setting, file string) (string, error) {
	if path.IsAbs(included) {
		return "", invalidConfig(file, place{}, "has the absolute path %q in %s; write it relative to the kustomization",
			included, setting)
	}
	resolved := path.Join("/", base, included)[1:]
	if escapes(base, included) {
		return "", invalidConfig(file, place{}, "has the path %q in %s, which leaves the artifact", included, setting)
	}
	if within(base, resolved) {
		return "", invalidConfig(file, place{}, "has the path %q in %s, which lies inside of the kustomization and is there anyway",
			included, setting)
	}
	return resolved, nil
}

func escapes(base, included string) bool {
	joined := path.Join(base, included)
	return joined == ".." || strings.HasPrefix(joined, "../")
}

func invalidConfig(file string, at place, format string, args ...any) *wire.Error {
	return &wire.Error{
		Kind: wire.InvalidConfig, Message: file + " " + fmt.Sprintf(format, args...), File: file, Line: at.line, Column: at.column,
	}
}

// inOrder returns the keys in the order of the file, so that the first mistake is reported.
func inOrder(settings map[string]any, places map[string]place) []string {
	return slices.SortedFunc(maps.Keys(settings), func(a, b string) int {
		return cmp.Or(places[a].line-places[b].line, places[a].column-places[b].column, strings.Compare(a, b))
	})
}
