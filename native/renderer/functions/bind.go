package functions

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"text/template"
)

// deepest is how many include and tpl may be running inside each other; Helm allows as many of one name.
const deepest = 1000

// NoValue is what text/template prints for what is not there.
const NoValue = "<no value>"

// Bind adds include and tpl, which run templates of this set. Both share one limit of depth, since each may call the
// other.
func Bind(set *template.Template, funcs template.FuncMap) {
	maps.Copy(funcs, runners(set, &depth{}))
	set.Funcs(funcs)
}

func runners(set *template.Template, depth *depth) template.FuncMap {
	return template.FuncMap{
		"include": func(name string, data any) (string, error) {
			return depth.run(func() (string, error) { return execute(set.Lookup(name), name, data) })
		},
		"tpl": func(text string, data any) (string, error) {
			return depth.run(func() (string, error) { return evaluate(set, depth, text, data) })
		},
	}
}

type depth struct{ now int }

// ErrDepth says that templates call each other without an end.
var ErrDepth = fmt.Errorf("templates are nested more than %d deep: one calls itself without an end", deepest)

func (d *depth) run(body func() (string, error)) (string, error) {
	if d.now >= deepest {
		return "", ErrDepth
	}
	d.now++
	defer func() { d.now-- }()
	text, err := body()
	if errors.Is(err, ErrDepth) {
		return "", ErrDepth // and not a thousand places around it
	}
	return text, err
}

// unnamed is what messages call the text given to tpl.
const unnamed = "(tpl)"

// evaluate parses into a copy of the set: what the text defines is seen by what it includes, and gone afterwards.
func evaluate(set *template.Template, depth *depth, text string, data any) (string, error) {
	if err := checkText("tpl", text); err != nil {
		return "", err
	}
	copied, err := set.Clone()
	if err != nil {
		return "", err
	}
	copied.Funcs(runners(copied, depth))
	parsed, err := copied.New(unnamed).Parse(text)
	if err != nil {
		return "", err
	}
	if strings.Contains(text, "define") || strings.Contains(text, "block") {
		Limit(copied)
	}
	return execute(parsed, unnamed, data)
}

func execute(one *template.Template, name string, data any) (string, error) {
	if one == nil {
		return "", fmt.Errorf("there is no template %q", name)
	}
	var text Output
	if err := one.Execute(&text, data); err != nil {
		return "", err
	}
	return text.String(), nil
}

// Output collects what a template writes and stops it beyond the limit.
type Output struct {
	text strings.Builder
}

// ErrOutput says that a template writes without an end.
var ErrOutput = errors.New("the output of a template is larger than 32 MiB")

const largestOutput = 32 << 20

func (o *Output) Write(part []byte) (int, error) {
	if o.text.Len()+len(part) > largestOutput {
		return 0, ErrOutput
	}
	return o.text.Write(part)
}

// String returns the text. What was not there prints as nothing.
func (o *Output) String() string {
	return strings.ReplaceAll(o.text.String(), NoValue, "")
}
