// Package functions has the functions that templates of charts and kustomizations may call.
//
// They are sprig's text functions and our own. Three of sprig's are removed: env and expandenv read the environment of
// the operator, getHostByName uses the network. The owner of a set of templates adds include and tpl with Bind, because
// both need the set.
//
// No function has a bound of its own. A call such as `repeat 1000000000 "x"` is stopped by the bounds of the process on
// time and memory, like any loop of a template.
package functions

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"text/template"

	"github.com/Masterminds/sprig/v3"

	"stellwerk/renderer/wire"
)

// Environment is what functions may use beyond their arguments.
type Environment struct {
	Ask  wire.Asker // answers lookups; nil: they fail
	Uses wire.Uses  // records lookups, and calls of what does not always make the same; may be nil
}

// Map returns the functions that charts and kustomizations share, for one rendering.
func Map(env Environment) template.FuncMap {
	all := maps.Clone(base())
	maps.Copy(all, lookups(env))
	for _, name := range Changing() {
		if function, there := all[name]; there && env.Uses != nil {
			all[name] = noting(env.Uses, name, function)
		}
	}
	return all
}

// Changing are the names of sprig's functions whose result depends on more than their arguments: the clock, chance, the
// environment, the network. derivePassword, decryptAES and buildCustomCert are among them because they work on secrets.
var Changing = sync.OnceValue(func() []string {
	names := []string{
		"bcrypt", "htpasswd", "derivePassword", "encryptAES", "decryptAES", "randInt", "shuffle", "ago",
		"genPrivateKey", "genCA", "genCAWithKey", "genSelfSignedCert", "genSelfSignedCertWithKey",
		"genSignedCert", "genSignedCertWithKey", "buildCustomCert",
	}
	hermetic := sprig.HermeticTxtFuncMap()
	for name := range sprig.TxtFuncMap() {
		if _, same := hermetic[name]; !same {
			names = append(names, name)
		}
	}
	return names
})

// readingTheClock are those of Changing whose result depends on the current time. The functions that make certificates
// are not among them: a certificate stays as it is until a template that compares its end with the clock wants another.
var readingTheClock = []string{"now", "ago", "date", "date_in_zone", "dateInZone", "htmlDate", "htmlDateInZone"}

// noting is a function that records its calls: what it made is a value of one Component, and no other may get it.
func noting(uses wire.Uses, name string, function any) any {
	value := reflect.ValueOf(function)
	call := value.Call
	if value.Type().IsVariadic() {
		call = value.CallSlice
	}
	return reflect.MakeFunc(value.Type(), func(args []reflect.Value) []reflect.Value {
		uses.Note("chance")
		if slices.Contains(readingTheClock, name) {
			uses.Note("clock")
		}
		return call(args)
	}).Interface()
}

// base has the functions without a state; creating sprig's map again costs more than copying it.
var base = sync.OnceValue(func() template.FuncMap {
	all := sprig.TxtFuncMap()
	for _, name := range []string{"env", "expandenv", "getHostByName"} {
		delete(all, name)
	}
	maps.Copy(all, formats())
	maps.Copy(all, numbers())
	all["required"] = required
	return all
})

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

// errDepth means that templates include each other without an end.
var errDepth = &wire.Error{
	Kind: wire.LimitExceeded, Message: fmt.Sprintf("templates are nested more than %d deep: one calls itself without an end", deepest),
}

func (d *depth) run(body func() (string, error)) (string, error) {
	if d.now >= deepest {
		return "", errDepth
	}
	d.now++
	defer func() { d.now-- }()
	text, err := body()
	if errors.Is(err, errDepth) {
		return "", errDepth // without the thousand places that called it
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
