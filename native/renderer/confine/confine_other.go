//go:build !linux || !(amd64 || arm64)

package confine

import "errors"

func refuseSystemCalls() error {
	return errors.New("system calls can be refused on Linux (amd64, arm64) only")
}
