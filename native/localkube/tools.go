//go:build tools

// Package main, as `go mod tidy` sees it, also needs the pod runner, which is built from this module by its own path.
package main

import _ "sigs.k8s.io/kwok/cmd/kwok"
