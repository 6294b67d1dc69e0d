// Package kustomizations renders folders: Go templates first, then kustomize.
//
// All files are in memory. Kustomize reads only the output of the templates, at its places in the artifact, so that
// ../base has its usual meaning; it cannot fetch files, run programs, or inflate charts.
package kustomizations

import (
	"cmp"
	"maps"
	"path"
	"slices"

	"stellwerk/renderer/decrypt"
	"stellwerk/renderer/objects"
	"stellwerk/renderer/wire"
)

// Render returns the objects of the kustomization in req.Path, a clean path. No object at all is no error.
func Render(req *wire.Request, files map[string][]byte, ask wire.Asker, uses wire.Uses) ([]objects.Object, error) {
	keys, err := decrypt.New(&req.Decryption)
	if err != nil {
		return nil, err
	}
	content := artifact{files: files, keys: keys}
	one := &rendering{request: req, ask: ask, uses: uses, files: content, stage: newStage()}
	return one.render(req.Path)
}

// rendering is one rendering: of the outer kustomization and those it includes, then one build.
type rendering struct {
	request *wire.Request
	ask     wire.Asker
	uses    wire.Uses
	files   artifact
	stage   *stage
	open    []string // the kustomizations that include each other, from the outermost
	done    []string // every kustomization that is on the stage or is being added
}

func (s *rendering) render(base string) ([]objects.Object, error) {
	if err := s.add(base); err != nil {
		return nil, err
	}
	return s.stage.build(base)
}

// add renders a kustomization and what it includes onto the stage.
func (s *rendering) add(base string) error {
	s.open, s.done = append(s.open, base), append(s.done, base)
	defer func() { s.open = s.open[:len(s.open)-1] }()
	one, err := s.load(base)
	if err != nil {
		return err
	}
	for _, included := range one.config.includedKustomizations {
		if err := s.include(one, included); err != nil {
			return err
		}
	}
	return s.evaluate(one)
}

// include follows one entry of includedKustomizations. Two may include the same third; none may be below another.
func (s *rendering) include(one *kustomization, included string) error {
	base, err := outside(one.base, included, "includedKustomizations", one.configFile())
	if err != nil {
		return err
	}
	if slices.Contains(s.done, base) && !slices.Contains(s.open, base) {
		return nil
	}
	for _, other := range s.done {
		if within(other, base) || within(base, other) {
			return invalidConfig(one.configFile(), place{}, "includes %q; path %s is part of another referenced kustomization (%s)",
				included, cmp.Or(base, "."), cmp.Or(other, "."))
		}
	}
	if s.files.isFile(base) || !s.files.has(base) {
		return invalidConfig(one.configFile(), place{}, "includes %q, which has no files", included)
	}
	return s.add(base)
}

// kustomization is one folder with its configuration.
type kustomization struct {
	base   string
	config config
	ignore *ignoring
	own    map[string][]byte // below base, decrypted
	folder *folder           // own and included files, for templates
}

func (k *kustomization) configFile() string { return path.Join(k.base, configName) }

func (s *rendering) load(base string) (*kustomization, error) {
	own, err := s.files.below(base)
	if err != nil {
		return nil, err
	}
	one := &kustomization{base: base, own: own}
	if one.config, err = readConfig(one.configFile(), own[configName]); err != nil {
		return nil, err
	}
	one.ignore = readIgnore(own[ignoreName])
	one.folder = &folder{base: base, content: own}
	return one, s.includeFiles(one)
}

// includeFiles adds included files for templates and for kustomize.
func (s *rendering) includeFiles(one *kustomization) error {
	if len(one.config.includedFiles) == 0 {
		return nil
	}
	one.folder.content = maps.Clone(one.own)
	for _, included := range one.config.includedFiles {
		target, err := outside(one.base, included, "includedFiles", one.configFile())
		if err != nil {
			return err
		}
		found, err := s.files.at(target)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return invalidConfig(one.configFile(), place{}, "includes the file %q, which does not exist", included)
		}
		for file, content := range found {
			one.folder.content[relative(one.base, file)] = content
			s.stage.addVerbatim(file, content)
		}
	}
	return nil
}
