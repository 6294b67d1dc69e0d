//go:build linux

package memory

import "golang.org/x/sys/unix"

// slack is what the process has writable beside the memory of the Go runtime.
const slack = 48 << 20

// Bound lets the process grow by so many bytes from now on: the kernel refuses more, and the Go runtime then ends the
// process. A look at the clock every few milliseconds is too late for one that takes a gigabyte at once.
func Bound(room uint64) {
	limit(max(mapped(), Held()+room) + slack)
}

// Unbound takes the bound away, up to the one that the parent has set.
func Unbound() { limit(unix.RLIM_INFINITY) }

func limit(bytes uint64) {
	var known unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_DATA, &known) == nil {
		known.Cur = min(bytes, known.Max)
		_ = unix.Setrlimit(unix.RLIMIT_DATA, &known)
	}
}
