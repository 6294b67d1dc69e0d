package kustomizations

import (
	"bytes"
	"encoding/json"
	"path"
	"slices"
	"strings"
)

// stage is where rendered files wait for the build.
type stage struct {
	files   *memory
	sources map[string]string // of files whose name lost the suffix of templates
	exists  func(string) bool // tells whether the artifact has a file or folder
}

func newStage(exists func(string) bool) *stage {
	return &stage{files: newMemory(), sources: map[string]string{}, exists: exists}
}

func (s *stage) addVerbatim(file string, content []byte) {
	if _, there := s.files.files["/"+file]; !there {
		s.files.add(file, content)
	}
}

// add puts the files of one kustomization where they lie in the artifact, and a kustomization.yaml where none is.
func (s *stage) add(one *kustomization, files []rendered) error {
	s.files.addFolder("/" + one.base)
	taken := map[string]string{}
	for _, file := range files {
		if other, twice := taken[file.name]; twice {
			return invalidConfig(one.configFile(), place{}, "makes %s twice, from %s and from %s", file.name, other, file.source)
		}
		taken[file.name] = file.source
		full := path.Join(one.base, file.name)
		s.files.add(full, file.content)
		if file.name != file.source {
			s.sources[full] = path.Join(one.base, file.source)
		}
	}
	if s.kustomizationIn(one.base) == "" {
		s.files.add(path.Join(one.base, "kustomization.yaml"), generated(files))
	}
	return nil
}

var kustomizationNames = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

func isKustomization(file string) bool { return slices.Contains(kustomizationNames, path.Base(file)) }

func (s *stage) kustomizationIn(folder string) string {
	for _, name := range kustomizationNames {
		full := path.Join("/", folder, name)
		if _, there := s.files.files[full]; there {
			return full
		}
	}
	return ""
}

// generated lists every YAML file. A folder that is a kustomization of its own is listed as one.
func generated(files []rendered) []byte {
	var nested []string
	for _, file := range files {
		if isKustomization(file.name) {
			nested = append(nested, path.Dir(file.name))
		}
	}
	var resources []string
	for _, file := range files {
		folder := outermost(nested, file.name)
		switch {
		case hidden(file.name):
		case folder != "" && !slices.Contains(resources, folder):
			resources = append(resources, folder)
		case folder == "" && isYAML(file.name):
			resources = append(resources, file.name)
		}
	}
	slices.Sort(resources)
	var text bytes.Buffer
	text.WriteString("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n")
	if len(resources) == 0 {
		return append(text.Bytes(), "generatorOptions: {}\n"...) // kustomize refuses one that says nothing
	}
	text.WriteString("resources:\n")
	for _, resource := range resources {
		text.WriteString("- " + quoted("./"+resource) + "\n")
	}
	return text.Bytes()
}

// quoted is text as JSON has it, which YAML reads too. A name in front of which ./ stands is never taken for an address.
func quoted(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err) // text always is JSON
	}
	return string(quoted)
}

func outermost(folders []string, file string) string {
	found := ""
	for _, folder := range folders {
		if within(folder, file) && (found == "" || len(folder) < len(found)) {
			found = folder
		}
	}
	return found
}

func isYAML(name string) bool {
	extension := path.Ext(name)
	return extension == ".yaml" || extension == ".yml"
}

// hidden tells whether the file or a folder above it begins with a dot.
func hidden(name string) bool {
	return strings.HasPrefix(name, ".") || strings.Contains(name, "/.")
}

func (s *stage) anyKustomization(has func(content []byte) bool) bool {
	for file, content := range s.files.files {
		if isKustomization(file) && has(content) {
			return true
		}
	}
	return false
}
