package functions

import (
	"errors"
	"fmt"
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
	depth := &depth{}
	funcs["include"] = func(name string, data any) (string, error) {
		return depth.run(func() (string, error) { return execute(set.Lookup(name), name, data) })
	}
	funcs["tpl"] = func(text string, data any) (string, error) {
		return depth.run(func() (string, error) { return evaluate(set, text, data) })
	}
	set.Funcs(funcs)
}

type depth struct{ now int }

func (d *depth) run(body func() (string, error)) (string, error) {
	if d.now >= deepest {
		return "", fmt.Errorf("include and tpl are nested more than %d deep: a template calls itself without an end", deepest)
	}
	d.now++
	defer func() { d.now-- }()
	return body()
}

// evaluate parses into a copy of the set: what the text defines is gone afterwards.
func evaluate(set *template.Template, text string, data any) (string, error) {
	if err := checkText("tpl", text); err != nil {
		return "", err
	}
	copied, err := set.Clone()
	if err != nil {
		return "", err
	}
	parsed, err := copied.New("tpl").Parse(text)
	if err != nil {
		return "", err
	}
	return execute(parsed, "tpl", data)
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
