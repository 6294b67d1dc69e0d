// Package memory keeps a worker small: it lives as long as the operator does, and there are two of them.
//
// The libraries bring the clients of every cloud along, 60 MB of program that starting walks through and that rendering
// never sees again. Given back, they are 35 MB less in each worker.
package memory

import (
	"runtime/debug"
	"runtime/metrics"
)

const (
	// collectAt is the growth in percent at which garbage is collected: the price of 10 MB is paid in speed.
	collectAt = 100
	// soft is where collecting turns eager. It is no bound: a large request may take more (see serve's budget).
	soft = 96 << 20
	// plenty is from where memory is given back between two requests, at a price of some milliseconds.
	plenty = 64 << 20
)

// Settle chooses how the collector works and gives back what starting has used.
func Settle() {
	debug.SetGCPercent(collectAt)
	debug.SetMemoryLimit(soft)
	debug.FreeOSMemory()
	GiveBackProgram()
}

// Trim gives back what a large request has left behind.
func Trim() {
	if Held() > plenty {
		debug.FreeOSMemory()
	}
}

// Held is what the Go runtime holds from the system, in bytes.
func Held() uint64 { return mapped() - read("/memory/classes/heap/released:bytes") }

// mapped is what it has mapped, with what it has given back but may use again.
func mapped() uint64 { return read("/memory/classes/total:bytes") }

func read(name string) uint64 {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
