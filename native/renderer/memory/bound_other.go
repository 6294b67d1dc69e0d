//go:build !linux

package memory

// Bound does nothing here: the watch of a request is all that bounds it.
func Bound(uint64) {}

// Unbound does nothing here.
func Unbound() {}
