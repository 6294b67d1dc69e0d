// The renderer turns files into Kubernetes objects: charts, templated kustomizations, substitution, decryption.
//
// It is a child process of Stellwerk: requests on stdin, answers on stdout (see the package wire).
package main

import (
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"runtime"
	_ "time/tzdata" // the filter of system calls refuses to open the files of the system

	"stellwerk/renderer/confine"
	"stellwerk/renderer/memory"
	"stellwerk/renderer/serve"
)

// threads is one for the request and one for the garbage collector and the watch.
const threads = 2

func main() {
	runtime.GOMAXPROCS(threads)
	// The libraries log warnings that may quote values.
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
