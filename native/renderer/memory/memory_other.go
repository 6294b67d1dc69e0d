//go:build !linux

package memory

// GiveBackProgram does nothing here: it is implemented for Linux only.
func GiveBackProgram() {}

// Bound does nothing here: only the watch of a request bounds it.
func Bound(uint64) {}

// Unbound does nothing here.
func Unbound() {}
