// The renderer turns files into Kubernetes objects: charts, templated kustomizations, substitution, decryption.
//
// It is a child of Stellwerk and speaks with nobody else: requests on stdin, answers on stdout (see the package wire).
package main

import (
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"

	"stellwerk/renderer/confine"
	"stellwerk/renderer/serve"
)

const (
	// collectAt and softMemory keep a worker small between requests: it lives as long as the operator, and there are two.
	collectAt  = 50
	softMemory = 48 << 20
	// threads is one for the request and one beside it, for the collector and the guard.
	threads = 2
)

func main() {
	runtime.GOMAXPROCS(threads)
	debug.SetGCPercent(collectAt)
	debug.SetMemoryLimit(softMemory)
	// The libraries warn on their own account, and their warnings may quote values.
	log.SetOutput(io.Discard)
	slog.SetDefault(slog.New(slog.DiscardHandler))
	if err := confine.Now(); err != nil {
		fmt.Fprintln(os.Stderr, "renderer: not confined:", err)
	}
	if err := serve.Loop(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "renderer:", err)
		os.Exit(1)
	}
}
