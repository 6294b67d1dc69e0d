// Package charts renders Helm charts with Helm's own libraries.
//
// Helm's code decides about dependencies and values and runs the templates. This package reads files from memory, sends
// lookups to the parent, and replaces hooks, which Helm runs itself, by annotations of our engine. No release is stored.
package charts

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"

	"stellwerk/renderer/objects"
	"stellwerk/renderer/wire"
)

// notes is shown by Helm after an installation; it is no manifest.
const notes = "NOTES.txt"

// Render returns the objects of the chart in req.Path.
//
// The objects of crds/ come first, then those of the templates by name. Errors are *wire.Error.
func Render(
	req *wire.Request, files map[string][]byte, ask wire.Asker, uses wire.Uses,
) (rendered []objects.Object, about *wire.Chart, err error) {
	defer func() {
		if failure := recover(); failure != nil { // Helm's libraries panic on some charts
			err = broken(path.Join(req.Path, chartFile), 0, "the chart makes Helm fail: %v", failure)
		}
	}()
	for _, part := range []string{"name", "namespace", "revision", "cluster"} {
		uses.Note(part)
	}
	tree, err := load(req, files)
	if err != nil {
		return nil, nil, err
	}
	about = &wire.Chart{
		Name: tree.root.Name(), Version: tree.root.Metadata.Version, AppVersion: tree.root.AppVersion(),
	}
	top, err := tree.values(req)
	if err != nil {
		return nil, nil, err
	}
	asked := &asker{Asker: ask}
	helm := engine.Engine{CustomTemplateFuncs: functionsFor(asked, uses)}
	texts, err := helm.Render(tree.root, top)
	if err != nil {
		return nil, nil, tree.failed(err, asked)
	}
	rendered, err = tree.objects(req, texts)
	about.Warnings = tree.warnings()
	return rendered, about, err
}

// values decides which subcharts take part and what .Values, .Release and .Capabilities are for them.
func (t *tree) values(req *wire.Request) (common.Values, error) {
	if err := t.checkInstallable(req.Cluster); err != nil {
		return nil, err
	}
	given, err := floats(req.Values)
	if err != nil {
		return nil, err
	}
	given = withPlacesForNulls(t.root, given)
	if err := chartutil.ProcessDependencies(t.root, given); err != nil {
		return nil, unfitting(err)
	}
	return topLevel(t, given, req)
}

// objects reads the files of crds/, then the output of the templates.
func (t *tree) objects(req *wire.Request, texts map[string]string) ([]objects.Object, error) {
	all, err := t.definitions(req.Prefix)
	if err != nil {
		return nil, err
	}
	places := t.templates()
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if strings.HasSuffix(name, notes) || strings.HasPrefix(path.Base(name), "_") {
			continue
		}
		found, err := t.parse(places[name], texts[name])
		if err != nil {
			return nil, rendersBadly(err, places[name])
		}
		for _, object := range found {
			keep, err := annotate(object, req)
			if err != nil {
				return nil, err
			}
			if keep {
				all = append(all, object)
			}
		}
	}
	purgeLast(all, req.Prefix)
	return all, nil
}

// separator is where Helm cuts the output of a template: also where content follows on the same line.
var separator = regexp.MustCompile(`(?:^|\s*\n)---\s*`)

// parse reads the output of a template as Helm does. It cuts the text into documents without the blanks around them, and
// ends each with a line break, which is part of a block scalar at its end.
func (t *tree) parse(place, text string) ([]objects.Object, error) {
	if len(text) > objects.MaxText {
		return objects.Parse(place, []byte(text)) // which reports the size
	}
	var all []objects.Object
	line, counted := 1, 0
	read := func(start, end int) error {
		document := strings.TrimLeftFunc(text[start:end], unicode.IsSpace)
		if strings.TrimSpace(document) == "" {
			return nil
		}
		begin := end - len(document)
		line, counted = line+strings.Count(text[counted:begin], "\n"), begin
		found, err := objects.Reader{File: place, Line: line, Repeats: &t.repeats}.Parse([]byte(document + "\n"))
		all = append(all, found...)
		return err
	}
	offset := len(text) - len(strings.TrimLeftFunc(text, unicode.IsSpace))
	start := offset
	for _, cut := range separator.FindAllStringIndex(text[offset:], -1) {
		if err := read(start, offset+cut[0]); err != nil {
			return nil, err
		}
		start = offset + cut[1]
	}
	if err := read(start, len(text)); err != nil {
		return nil, err
	}
	return all, nil
}

// definitions are the objects of crds/, verbatim: Helm looks for no hooks there.
func (t *tree) definitions(prefix string) ([]objects.Object, error) {
	var all []objects.Object
	for _, definition := range t.root.CRDObjects() {
		reader := objects.Reader{File: t.places[definition.File], Line: 1, Repeats: &t.repeats}
		found, err := reader.Parse(definition.File.Data)
		if err != nil {
			return nil, err
		}
		for _, object := range found {
			if err := annotateDefinition(object, prefix); err != nil {
				return nil, err
			}
		}
		all = append(all, found...)
	}
	return all, nil
}

// templates maps the name that Helm gives a template to its place in the artifact.
func (t *tree) templates() map[string]string {
	places := map[string]string{}
	var visit func(*chart.Chart)
	visit = func(part *chart.Chart) {
		for _, template := range part.Templates {
			places[path.Join(part.ChartFullPath(), template.Name)] = t.places[template]
		}
		for _, dependency := range part.Dependencies() {
			visit(dependency)
		}
	}
	visit(t.root)
	return places
}

func broken(file string, line int, format string, args ...any) *wire.Error {
	return &wire.Error{Kind: wire.InvalidChart, Message: file + ": " + fmt.Sprintf(format, args...), File: file, Line: line}
}
