// Package objects reads rendered text into Kubernetes objects, as kubectl would.
package objects

// Object is one rendered object and where it was written.
type Object struct {
	Body   map[string]any
	Origin string // file, and the template's name where there is one
}
