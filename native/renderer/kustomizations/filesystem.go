package kustomizations

import (
	"fmt"
	"os"
	"path"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// memory is the whole file system that kustomize sees: the rendered files, at the places they have in the artifact.
//
// Kustomize's own one in memory refuses file names with a #, a blank or an umlaut. A build only reads files and asks
// what is a folder; the rest of the interface is absent on purpose, so that a kustomize which wants more is noticed.
type memory struct {
	filesys.FileSystem
	files   map[string][]byte // by absolute path
	folders map[string]bool
	read    []string // what was read, in order
}

func newMemory() *memory {
	return &memory{files: map[string][]byte{}, folders: map[string]bool{"/": true}}
}

// add puts a file where it lies in the artifact.
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

// IsDir tells whether there is such a folder.
func (m *memory) IsDir(name string) bool { return m.folders[clean(name)] }

// Exists tells whether there is such a file or folder.
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
