// Package functions is what templates of charts and kustomizations may call.
//
// It is sprig's text functions and our own on top. Three of sprig's are missing on purpose: env and expandenv read the
// environment of the operator, getHostByName reaches the network. Whoever owns the template set adds include and tpl
// with Bind, since both need the set.
//
// Every function that can make much out of little (repeat, until, genPrivateKey and their like) is bounded with an error
// that names it. The bounds are far beyond any honest template; the process that renders has a budget of its own for
// what slips through.
package functions

import (
	"maps"
	"sync"
	"text/template"

	"github.com/Masterminds/sprig/v3"

	"stellwerk/renderer/host"
)

// Environment is what functions may touch beyond their arguments.
type Environment struct {
	Ask  host.Asker // answers lookups; nil: they fail
	Uses host.Uses  // notes that a lookup was made; nil: nobody wants to know
}

// Map returns the functions that charts and kustomizations share, bound to one rendering.
func Map(env Environment) template.FuncMap {
	all := maps.Clone(base())
	rationed(all)
	maps.Copy(all, lookups(env))
	return all
}

// base has the functions without a state; making sprig's map anew costs more than copying it.
var base = sync.OnceValue(func() template.FuncMap {
	all := sprig.TxtFuncMap()
	for _, name := range []string{"env", "expandenv", "getHostByName"} {
		delete(all, name)
	}
	maps.Copy(all, formats())
	maps.Copy(all, numbers())
	all["required"] = required
	bound(all)
	return all
})
