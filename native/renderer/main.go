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

	"stellwerk/renderer/confine"
	"stellwerk/renderer/memory"
	"stellwerk/renderer/serve"
)

// threads is one for the request and one beside it, for the collector and the guard.
const threads = 2

func main() {
	runtime.GOMAXPROCS(threads)
	// The libraries warn on their own account, and their warnings may quote values.
	log.SetOutput(io.Discard)
	slog.SetDefault(slog.New(slog.DiscardHandler))
	memory.Settle()
	if err := confine.Now(); err != nil {
		fmt.Fprintln(os.Stderr, "renderer: not confined:", err)
	}
	if err := serve.Loop(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "renderer:", err)
		os.Exit(1)
	}
}
