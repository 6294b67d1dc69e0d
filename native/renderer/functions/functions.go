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
	"maps"
	"sync"
	"text/template"

	"github.com/Masterminds/sprig/v3"

	"stellwerk/renderer/host"
)

// Environment is what functions may use beyond their arguments.
type Environment struct {
	Ask  host.Asker // answers lookups; nil: they fail
	Uses host.Uses  // records that a lookup was made; may be nil
}

// Map returns the functions that charts and kustomizations share, for one rendering.
func Map(env Environment) template.FuncMap {
	all := maps.Clone(base())
	maps.Copy(all, lookups(env))
	return all
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
