// Package memory keeps a worker small: it lives as long as the operator does, and there are two of them.
//
// The libraries bring the clients of every cloud along, 60 MB of program that starting walks through and that rendering
// never sees again. Given back, they are 35 MB less in each worker.
package memory

import "runtime/debug"

const (
	// collectAt is the growth in percent at which garbage is collected: the price of 10 MB is paid in speed.
	collectAt = 100
	// soft is where collecting turns eager. It is no bound: a large request may take more (see serve's budget).
	soft = 96 << 20
)

// Settle chooses how the collector works and gives back what starting has used.
func Settle() {
	debug.SetGCPercent(collectAt)
	debug.SetMemoryLimit(soft)
	debug.FreeOSMemory()
	GiveBackProgram()
}
