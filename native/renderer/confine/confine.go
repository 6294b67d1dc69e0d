// Package confine removes the worker's access to its environment, files, the network and other programs.
//
// No function of a template uses them. The confinement is for a library that tries to.
package confine

import "os"

// Now confines the process for the rest of its life. An error means that the kernel does not offer it; the environment
// is gone in any case.
func Now() error {
	os.Clearenv()
	return refuseSystemCalls()
}
