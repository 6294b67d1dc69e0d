package kustomizations

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/openapi"

	"stellwerk/renderer/nodes"
	"stellwerk/renderer/objects"
	"stellwerk/renderer/wire"
)

// build runs kustomize on the files of the stage.
func (s *stage) build(base string) ([]objects.Object, error) {
	if err := s.checkFiles(); err != nil {
		return nil, err
	}
	if err := s.checkRemote(base, map[string]bool{}); err != nil {
		return nil, err
	}
	if found, isPlain := s.plain(base); isPlain {
		return found, nil
	}
	built, err := s.kustomize(base)
	if err != nil && err.Error() == "kustomization.yaml is empty" {
		return nil, nil
	} else if err != nil {
		return nil, s.buildFailed(base, err)
	}
	return s.collect(base, built)
}

// checkFiles refuses files that are too large, or that would be when kustomize unfolds their aliases.
func (s *stage) checkFiles() error {
	for file, content := range s.files.files {
		problem := objects.CheckAliases(content)
		if problem == nil && isKustomization(file) {
			problem = objects.CheckUnfolding(content) // by the other library, which reads these files
		}
		if len(content) > objects.MaxText && (isYAML(file) || isKustomization(file)) {
			problem = fmt.Errorf("is larger than %d MiB", objects.MaxText>>20)
		}
		if problem != nil {
			source := s.origin(file[1:])
			return &wire.Error{Kind: wire.LimitExceeded, Message: source + " " + problem.Error(), File: source}
		}
	}
	return nil
}

// kustomize builds. Its warnings go to standard error, for the log.
//
// Its OpenAPI schema is global: parsing takes longer than a build, so it is done once, and a kustomization with a schema
// of its own replaces it. Such a build begins and ends without a schema, so that the schema of one tenant is not used for
// the patches of another.
func (s *stage) kustomize(base string) (built resmap.ResMap, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			built, err = nil, errors.New("an object, a patch or an OpenAPI schema is malformed")
		}
		if openapi.GetSchemaVersion() != usualSchema {
			openapi.ResetOpenAPI()
		}
	}()
	if s.hasSchema() {
		openapi.ResetOpenAPI()
	}
	options := krusty.MakeDefaultOptions()
	options.LoadRestrictions = types.LoadRestrictionsNone
	return krusty.MakeKustomizer(options).Run(s.files, "/"+base)
}

// usualSchema is the version that kustomize uses by default.
var usualSchema = openapi.GetSchemaVersion()

func (s *stage) hasSchema() bool {
	for file, content := range s.files.files {
		if isKustomization(file) && bytes.Contains(content, []byte("openapi")) {
			return true
		}
	}
	return false
}

func (s *stage) collect(base string, built resmap.ResMap) ([]objects.Object, error) {
	origins := s.findOrigins(base)
	var found []objects.Object
	for _, one := range built.Resources() {
		origin := origins.of(one)
		body, err := nodes.Object(one.YNode())
		if err != nil {
			return nil, malformed(origin, one, err)
		}
		found = append(found, objects.Object{Body: body, Origin: origin, Quoted: objects.QuotesIn(one.YNode())})
	}
	return found, nil
}

func malformed(origin string, one *resource.Resource, err error) *wire.Error {
	message := fmt.Sprintf("%s %s %s", one.GetKind(), one.GetName(), err)
	if origin != "" {
		message = origin + ": " + message
	}
	return &wire.Error{Kind: wire.InvalidManifest, File: origin, Message: message}
}

// stage has the rendered files for the build.
type stage struct {
	files   *memory
	sources map[string]string // of files whose name lost the suffix of templates
}

func newStage() *stage {
	return &stage{files: newMemory(), sources: map[string]string{}}
}

func (s *stage) addVerbatim(file string, content []byte) {
	if _, there := s.files.files["/"+file]; !there {
		s.files.add(file, content)
	}
}

// add adds the files of one kustomization at their places in the artifact, and a kustomization.yaml where there is none.
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

// kustomizationsIn are the kustomization files of a folder: one, unless something is wrong.
func (s *stage) kustomizationsIn(folder string) []string {
	var found []string
	for _, name := range kustomizationNames {
		full := path.Join("/", folder, name)
		if _, exists := s.files.files[full]; exists {
			found = append(found, full)
		}
	}
	return found
}

// kustomizationIn is the kustomization file of a folder; empty where there is none.
func (s *stage) kustomizationIn(folder string) string {
	if found := s.kustomizationsIn(folder); len(found) > 0 {
		return found[0]
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
	resources := []string{}
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
	for index, resource := range resources {
		resources[index] = "./" + resource // which is never read as an address
	}
	content := map[string]any{"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": resources}
	if len(resources) == 0 {
		content["generatorOptions"] = map[string]any{} // kustomize refuses an empty kustomization
	}
	text, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		panic(err) // text always is JSON
	}
	return text
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

// hidden is true where the name of the file or of a folder above it begins with a dot.
func hidden(name string) bool {
	return strings.HasPrefix(name, ".") || strings.Contains(name, "/.")
}
