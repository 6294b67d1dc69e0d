package kustomizations

import (
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/gobwas/glob"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"stellwerk/renderer/decrypt"
)

// folder has the files that templates of one kustomization can read: all files below its path, also ignored ones, and
// the included ones under the names of the configuration.
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
		base, ups = strings.TrimPrefix(path.Dir("/"+base), "/"), ups+"../"
	}
	return ups + strings.TrimPrefix(strings.TrimPrefix(file, base), "/")
}

// within is true where a path is a folder or below it. The empty folder is the artifact.
func within(folder, file string) bool {
	return folder == "" || file == folder || strings.HasPrefix(file, folder+"/")
}

// artifact has all files, decrypted when they are first read.
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

// has is true where the file or folder exists.
func (a *artifact) has(name string) bool {
	for file := range a.files {
		if within(name, file) {
			return true
		}
	}
	return false
}

// memory is the whole file system that kustomize sees: the rendered files, at the places they have in the artifact.
//
// Kustomize's own one in memory refuses file names with a #, a blank or an umlaut. A build only reads files and asks
// what is a folder; the rest of the interface is not implemented, so that another use of it fails in tests.
type memory struct {
	filesys.FileSystem
	files   map[string][]byte // by absolute path
	folders map[string]bool
	read    []string // what was read, in order
}

func newMemory() *memory {
	return &memory{files: map[string][]byte{}, folders: map[string]bool{"/": true}}
}

// add adds a file at its place in the artifact.
func (m *memory) add(file string, content []byte) {
	m.files["/"+file] = content
	m.addFolder(path.Dir("/" + file))
}

func (m *memory) addFolder(folder string) {
	for ; !m.folders[folder]; folder = path.Dir(folder) {
		m.folders[folder] = true
	}
}

// ReadFile returns the content of a file.
func (m *memory) ReadFile(name string) ([]byte, error) {
	name = clean(name)
	if content, there := m.files[name]; there {
		m.read = append(m.read, name)
		return content, nil
	}
	if m.folders[name] {
		return nil, fmt.Errorf("%s is a folder", shown(name))
	}
	return nil, &os.PathError{Op: "open", Path: shown(name), Err: os.ErrNotExist}
}

// IsDir is true where the folder exists.
func (m *memory) IsDir(name string) bool { return m.folders[clean(name)] }

// Exists is true where the file or folder exists.
func (m *memory) Exists(name string) bool {
	_, isFile := m.files[clean(name)]
	return isFile || m.IsDir(name)
}

// CleanedAbs splits a path into its folder and the file in it, if it is one.
func (m *memory) CleanedAbs(name string) (filesys.ConfirmedDir, string, error) {
	name = clean(name)
	if m.folders[name] {
		return filesys.ConfirmedDir(name), "", nil
	}
	if _, isFile := m.files[name]; isFile {
		return filesys.ConfirmedDir(path.Dir(name)), path.Base(name), nil
	}
	return "", "", fmt.Errorf("%s does not exist", shown(name))
}

func clean(name string) string { return path.Join("/", name) }

// shown is a path as messages have it: without the root that only exists here.
func shown(name string) string {
	if name == "/" {
		return "the root of the artifact"
	}
	return strings.TrimPrefix(name, "/")
}
