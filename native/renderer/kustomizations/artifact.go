package kustomizations

import (
	"maps"
	"slices"
	"strings"

	"stellwerk/renderer/decrypt"
)

// artifact is all files, decrypted when they are first read.
type artifact struct {
	files map[string][]byte
	keys  *decrypt.Decryptor
}

// at returns a file, or all files of a folder, by their paths in the artifact.
func (a *artifact) at(place string) (map[string][]byte, error) {
	found := map[string][]byte{}
	for _, file := range slices.Sorted(maps.Keys(a.files)) {
		if !within(place, file) {
			continue
		}
		content, err := a.keys.File(file, a.files[file])
		if err != nil {
			return nil, err
		}
		found[file] = content
	}
	return found, nil
}

// below returns the files of a folder by their paths relative to it.
func (a *artifact) below(base string) (map[string][]byte, error) {
	found, err := a.at(base)
	if err != nil || base == "" {
		return found, err
	}
	renamed := make(map[string][]byte, len(found))
	for file, content := range found {
		renamed[strings.TrimPrefix(file, base+"/")] = content
	}
	return renamed, nil
}

func (a *artifact) isFile(name string) bool {
	_, there := a.files[name]
	return there
}

// has tells whether there is such a file or folder.
func (a *artifact) has(name string) bool {
	for file := range a.files {
		if within(name, file) {
			return true
		}
	}
	return false
}
