//go:build !linux

package memory

// GiveBackProgram does nothing here: how to do it is known for Linux only.
func GiveBackProgram() {}

// Bound does nothing here: the watch of a request is all that bounds it.
func Bound(uint64) {}

// Unbound does nothing here.
func Unbound() {}
