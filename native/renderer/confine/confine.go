// Package confine takes from the worker what it does not need: its environment, files, the network, other programs.
//
// Nothing that a template may call reaches for them. This is for the day when a library does so nevertheless.
package confine

import "os"

// Now confines the process for the rest of its life. An error means that the kernel does not offer it; the environment
// is gone in any case.
func Now() error {
	os.Clearenv()
	return refuseSystemCalls()
}
