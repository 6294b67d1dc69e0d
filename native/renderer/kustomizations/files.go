package kustomizations

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/gobwas/glob"
)

// folder is what templates of one kustomization can read: all files below its path, ignored ones too, and the included
// ones under the names that the configuration gave them.
type folder struct {
	base    string            // in the artifact, empty for its root
	content map[string][]byte // by path relative to base, which may begin with ..
}

// list returns the paths that fit, sorted. A star does not pass a slash, two stars do.
func (f *folder) list(pattern string) ([]string, error) {
	matcher, err := glob.Compile(pattern, '/')
	if err != nil {
		return nil, fmt.Errorf("the pattern %q is malformed: %w", pattern, err)
	}
	found := []string{}
	for _, name := range slices.Sorted(maps.Keys(f.content)) {
		if matcher.Match(name) {
			found = append(found, name)
		}
	}
	return found, nil
}

func (f *folder) exists(name string) bool {
	_, there := f.content[path.Clean(name)]
	return there
}

func (f *folder) read(name string) ([]byte, error) {
	content, there := f.content[path.Clean(name)]
	if !there {
		return nil, fmt.Errorf("there is no file %q below the path of the kustomization; "+
			"files outside of it must be in includedFiles", name)
	}
	return content, nil
}

// relative returns the name of a file as seen from a folder: ../common/x.yaml.
func relative(base, file string) string {
	ups := ""
	for base != "" && !within(base, file) {
		base, ups = parent(base), ups+"../"
	}
	return ups + strings.TrimPrefix(strings.TrimPrefix(file, base), "/")
}

// within tells whether a path is a folder or lies below it. The empty folder is the artifact.
func within(folder, file string) bool {
	return folder == "" || file == folder || strings.HasPrefix(file, folder+"/")
}

func parent(folder string) string {
	if slash := strings.LastIndexByte(folder, '/'); slash >= 0 {
		return folder[:slash]
	}
	return ""
}
