package kustomizations

import (
	"errors"
	"net/http"
	"path"
	"regexp"
	"strings"

	"sigs.k8s.io/kustomize/api/types"

	"stellwerk/renderer/wire"
)

// Kustomize fetches each address with git or over HTTP. Both are disabled: every entry that kustomize would clone is
// refused before the build, and HTTP has no transport in this process.
func init() { http.DefaultTransport = closed{} }

var errClosed = errors.New("remote files cannot be loaded here; put them into the artifact")

type closed struct{}

// RoundTrip refuses.
func (closed) RoundTrip(*http.Request) (*http.Response, error) { return nil, errClosed }

// remote is what kustomize reads as the address of a repository or file.
var remote = regexp.MustCompile(`(?i)^(?:git::)?(?:(?:ssh|https?|file)://|[a-z][a-z0-9-]*@|github\.com[/:])`)

// checkRemote follows a kustomization to all those it builds on, the way kustomize will.
func (s *stage) checkRemote(folder string, seen map[string]bool) error {
	file := s.kustomizationIn(folder)
	if seen[folder] || file == "" {
		return nil
	}
	seen[folder] = true
	content := s.files.files[file]
	var one types.Kustomization
	if one.Unmarshal(content) != nil {
		return nil // kustomize reports what is wrong
	}
	one.FixKustomization()
	for _, list := range [][]string{one.Resources, one.Components, one.Generators, one.Transformers, one.Validators} {
		for _, entry := range list {
			if s.isFile(folder, entry) {
				continue
			}
			if remote.MatchString(entry) {
				return isRemote(s.origin(file[1:]), entry, content)
			}
			if err := s.checkRemote(path.Join(folder, entry), seen); err != nil {
				return err
			}
		}
	}
	return nil
}

// isFile is true where an entry is a file of the artifact, also where its name looks like an address.
func (s *stage) isFile(folder, entry string) bool {
	_, there := s.files.files[path.Join("/", folder, entry)]
	return there && !strings.Contains(entry, "://")
}

func isRemote(file, entry string, content []byte) *wire.Error {
	return kustomizeFailed(file, lineWith(content, entry), file+" refers to "+withoutCredentials(entry)+
		", but remote resources cannot be loaded; put it into the artifact")
}

var credentials = regexp.MustCompile(`//[^/@\s]*@`)

// withoutCredentials drops the part of an address that may be a password.
func withoutCredentials(address string) string { return credentials.ReplaceAllString(address, "//") }
