package functions

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"text/template"
)

// deepest is how many calls of include and tpl may be nested; Helm allows as many of one name.
const deepest = 1000

// noValue is what text/template prints for a missing value.
const noValue = "<no value>"

// Bind adds the functions to the set, and include and tpl, which run templates of this set. Both share one limit of
// depth, because each may call the other.
func Bind(set *template.Template, funcs template.FuncMap) {
	maps.Copy(funcs, runners(set, &depth{}))
	set.Funcs(funcs)
}

func runners(set *template.Template, depth *depth) template.FuncMap {
	return template.FuncMap{
		"include": func(name string, data any) (string, error) {
			included := set.Lookup(name)
			if included == nil {
				return "", fmt.Errorf("there is no template %q", name)
			}
			return depth.run(func() (string, error) { return Execute(included, data) })
		},
		"tpl": func(text string, data any) (string, error) {
			return depth.run(func() (string, error) { return evaluate(set, depth, text, data) })
		},
	}
}

type depth struct{ now int }

// ErrDepth means that templates include each other without an end.
var ErrDepth = fmt.Errorf("templates are nested more than %d deep: one calls itself without an end", deepest)

func (d *depth) run(body func() (string, error)) (string, error) {
	if d.now >= deepest {
		return "", ErrDepth
	}
	d.now++
	defer func() { d.now-- }()
	text, err := body()
	if errors.Is(err, ErrDepth) {
		return "", ErrDepth // without the thousand places that called it
	}
	return text, err
}

// unnamed is what messages call the text given to tpl.
const unnamed = "(tpl)"

// evaluate parses into a copy of the set: the text sees every template of the set, and its own definitions end with it.
func evaluate(set *template.Template, depth *depth, text string, data any) (string, error) {
	copied, err := set.Clone()
	if err != nil {
		return "", err
	}
	copied.Funcs(runners(copied, depth))
	parsed, err := copied.New(unnamed).Parse(text)
	if err != nil {
		return "", err
	}
	return Execute(parsed, data)
}

// Execute runs a template. A missing value prints as nothing.
func Execute(parsed *template.Template, data any) (string, error) {
	var text strings.Builder
	if err := parsed.Execute(&text, data); err != nil {
		return "", err
	}
	return strings.ReplaceAll(text.String(), noValue, ""), nil
}
