//go:build tools

// Package tools has the programs that this module is for: a registry, and a client that pushes and pulls images.
package tools

import (
	_ "github.com/distribution/distribution/v3/cmd/registry"
	_ "github.com/google/go-containerregistry/cmd/crane"
)
