package kustomizations

import (
	"bytes"
	"maps"
	"path"
	"slices"
	"strings"
	"text/template"

	"stellwerk/renderer/functions"
)

// rendered is a file after its template ran.
type rendered struct {
	name    string // relative to the kustomization, without the suffix of templates
	source  string // the file it came from
	content []byte
}

// evaluate runs the templates of a kustomization and puts all its files onto the stage.
func (s *rendering) evaluate(one *kustomization) error {
	templates, verbatim := one.sort()
	if len(templates) > 0 {
		made, err := s.run(one, templates)
		if err != nil {
			return err
		}
		verbatim = append(verbatim, made...)
	}
	return s.stage.add(one, verbatim)
}

// sort separates templates from files that are passed on as they are. A file without a delimiter is its own result, so
// most artifacts need no template engine.
func (k *kustomization) sort() (templates []string, verbatim []rendered) {
	left, hasDefinitions := []byte(k.config.left), false
	for _, name := range slices.Sorted(maps.Keys(k.own)) {
		switch base := path.Base(name); {
		case base == configName || base == ignoreName || k.ignore.matches(name):
		case !strings.HasSuffix(name, k.config.suffix):
			verbatim = append(verbatim, rendered{name, name, k.own[name]})
		default:
			templates = append(templates, name)
			hasDefinitions = hasDefinitions || bytes.Contains(k.own[name], left)
		}
	}
	if !hasDefinitions {
		for _, name := range templates {
			verbatim = append(verbatim, rendered{strings.TrimSuffix(name, k.config.suffix), name, k.own[name]})
		}
		templates = nil
	}
	return templates, verbatim
}

// run parses all templates into one set, so that each can include the definitions of the others, and executes them in order.
func (s *rendering) run(one *kustomization, names []string) ([]rendered, error) {
	set := template.New("").Option("missingkey=zero").Delims(one.config.left, one.config.right)
	funcs := functions.Map(functions.Environment{Ask: s.ask, Uses: s.uses})
	maps.Copy(funcs, context{request: s.request, uses: s.uses, files: one.folder}.functions())
	maps.Copy(funcs, tolerant())
	functions.Bind(set, funcs)
	for _, name := range names {
		if _, err := set.New(name).Parse(string(one.own[name])); err != nil {
			return nil, templateFailed(one, name, err)
		}
	}
	values := s.values(one.config.values)
	made := make([]rendered, 0, len(names))
	for _, name := range names {
		text, err := functions.Execute(set.Lookup(name), values)
		if err != nil {
			return nil, templateFailed(one, name, err)
		}
		made = append(made, rendered{strings.TrimSuffix(name, one.config.suffix), name, []byte(text)})
	}
	return made, nil
}

// values merges the values of the request into the defaults of the configuration. Each kustomization has its own copy,
// because templates may change it.
func (s *rendering) values(defaults map[string]any) map[string]any {
	return overlay(overlay(map[string]any{}, defaults), s.request.Values)
}

func overlay(target, upper map[string]any) map[string]any {
	for key, value := range upper {
		inner, isMap := value.(map[string]any)
		below, wasMap := target[key].(map[string]any)
		switch {
		case isMap && wasMap:
			target[key] = overlay(below, inner)
		case isMap:
			target[key] = overlay(map[string]any{}, inner)
		default:
			target[key] = exactCopy(value)
		}
	}
	return target
}

func exactCopy(value any) any {
	switch value := value.(type) {
	case map[string]any:
		return overlay(map[string]any{}, value)
	case []any:
		items := make([]any, len(value))
		for index, item := range value {
			items[index] = exactCopy(item)
		}
		return items
	default:
		return functions.Exact(value)
	}
}
