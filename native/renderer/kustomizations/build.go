package kustomizations

import (
	"bytes"
	"errors"
	"fmt"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/openapi"

	"stellwerk/renderer/nodes"
	"stellwerk/renderer/objects"
	"stellwerk/renderer/wire"
)

// build runs kustomize on what is on the stage.
func (s *stage) build(base string) ([]objects.Object, error) {
	if s.anyKustomization(hints.Match) {
		if err := s.checkRemote(base, map[string]bool{}); err != nil {
			return nil, err
		}
	}
	if err := s.checkFiles(); err != nil {
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

// checkFiles refuses what is too large to be read, or would be once kustomize unfolds its aliases.
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

// kustomize builds. What it prints on its own behalf goes to standard error, for the log.
//
// Its OpenAPI schema is global: parsed once, which takes longer than a build, and changed for good by a kustomization
// that brings its own. Such a one begins without a schema, as kustomize does, and leaves none behind: one tenant's schema
// must not merge another's patches.
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

// usualSchema is the version that kustomize uses where nobody names one.
var usualSchema = openapi.GetSchemaVersion()

func (s *stage) hasSchema() bool {
	return s.anyKustomization(func(content []byte) bool { return bytes.Contains(content, []byte("openapi")) })
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
		found = append(found, objects.Object{Body: body, Origin: origin})
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
