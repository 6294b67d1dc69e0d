// Package memory keeps a worker small: it lives as long as the operator does, and there are two of them.
//
// The libraries include the clients of every cloud, 60 MB of program that the start reads and that rendering never uses.
// Without their pages, each worker has 35 MB less.
package memory

import (
	"runtime/debug"
	"runtime/metrics"
)

const (
	// collectAt is the growth in percent at which garbage is collected; a lower one saves 10 MB and costs time.
	collectAt = 100
	// soft is the memory from which garbage is collected more often. It is no bound: a request may take more.
	soft = 96 << 20
	// plenty is the memory from which it is given back between two requests, which takes some milliseconds.
	plenty = 64 << 20
)

// Settle configures the garbage collector and gives back the memory of the start.
func Settle() {
	debug.SetGCPercent(collectAt)
	debug.SetMemoryLimit(soft)
	debug.FreeOSMemory()
	GiveBackProgram()
}

// Trim gives back the memory of a large request.
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
