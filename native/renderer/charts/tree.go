package charts

import (
	"archive/tar"
	"bytes"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/ignore"

	"stellwerk/renderer/decrypt"
	"stellwerk/renderer/objects"
	"stellwerk/renderer/wire"
)

const (
	chartFile = "Chart.yaml"
	// largestFile is Helm's own bound of one file of a chart.
	largestFile = 5 << 20
	// deepestChart is how many levels of subcharts a chart may have.
	deepestChart = 20
)

// parsedFiles are read as YAML by Helm; they are read here first, for the limits and for the place of an error.
var parsedFiles = []string{chartFile, "Chart.lock", "values.yaml", "requirements.yaml", "requirements.lock"}

// tree is a chart with its subcharts, and the place of each of its files in the artifact.
type tree struct {
	path   string
	root   *chart.Chart
	places map[*common.File]string
	keys   *decrypt.Decryptor
	// repeats are the keys that appear twice in a mapping of what Helm reads.
	repeats []objects.Repeat
}

// mostWarnings is how many keys are named; the last warning has the number of all.
const mostWarnings = 20

func (t *tree) warnings() []string {
	var all []string
	for _, one := range t.repeats {
		if text := one.String(); !slices.Contains(all, text) {
			all = append(all, text)
		}
		if len(all) > mostWarnings {
			return append(all[:mostWarnings], fmt.Sprintf("and more keys that appear twice, %d in all", len(t.repeats)))
		}
	}
	return all
}

// load reads the chart in req.Path with all its subcharts.
func load(req *wire.Request, files map[string][]byte) (*tree, error) {
	keys, err := decrypt.New(&req.Decryption)
	if err != nil {
		return nil, err
	}
	t := &tree{path: req.Path, places: map[*common.File]string{}, keys: keys}
	own, err := notIgnored(t.path, below(files, t.path))
	if err != nil {
		return nil, err
	}
	t.root, err = t.loadChart(own, t.path, 0)
	return t, err
}

// file is the place of one of the root chart's files.
func (t *tree) file(name string) string { return path.Join(t.path, name) }

// below are the files under a folder, by their path inside it.
func below(files map[string][]byte, folder string) map[string][]byte {
	if folder == "" || folder == "." {
		return maps.Clone(files)
	}
	found := map[string][]byte{}
	for name, content := range files {
		if inside, isBelow := strings.CutPrefix(name, folder+"/"); isBelow {
			found[inside] = content
		}
	}
	return found
}

// loadChart reads one chart of the tree from its files; place is its folder in the artifact.
//
// Helm's loader reads each chart by itself. The subcharts are visited here, so that the place of each file in the
// artifact is known, and files in packed charts are decrypted.
func (t *tree) loadChart(files map[string][]byte, place string, depth int) (*chart.Chart, error) {
	if depth > deepestChart {
		return nil, broken(place, 0, "more than %d charts lie inside each other", deepestChart)
	}
	var own []*archive.BufferedFile
	inner := map[string]map[string][]byte{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if rest, isInner := strings.CutPrefix(name, "charts/"); isInner && path.Ext(name) != ".prov" {
			first, _, _ := strings.Cut(rest, "/")
			if inner[first] == nil {
				inner[first] = map[string][]byte{}
			}
			inner[first][rest] = files[name]
			continue
		}
		content, err := t.read(path.Join(place, name), name, files[name])
		if err != nil {
			return nil, err
		}
		own = append(own, &archive.BufferedFile{Name: name, Data: content})
	}
	loaded, err := loader.LoadFiles(own)
	if err != nil {
		return nil, notLoaded(place, err)
	}
	t.remember(loaded, place)
	return loaded, t.addSubcharts(loaded, inner, place, depth)
}

// read is a file as the loader may have it: decrypted, of bounded size, and YAML within limits where Helm reads YAML.
func (t *tree) read(place, name string, content []byte) ([]byte, error) {
	if len(content) > largestFile {
		return nil, broken(place, 0, "is larger than %d MiB, the most that a chart may hold in one file", largestFile>>20)
	}
	isParsed, open := slices.Contains(parsedFiles, name), t.keys.File
	if isParsed {
		open = t.keys.Opened
	}
	content, err := open(place, content)
	if err != nil {
		return nil, err
	}
	content = bytes.TrimPrefix(content, []byte("\ufeff"))
	if isParsed {
		reader := objects.Reader{File: place, Line: 1, Repeats: &t.repeats}
		if _, err := reader.Documents(content); err != nil {
			return nil, wire.AsKind(err, wire.InvalidManifest, wire.InvalidChart)
		}
	}
	return content, nil
}

func (t *tree) remember(loaded *chart.Chart, place string) {
	for _, file := range slices.Concat(loaded.Templates, loaded.Files) {
		t.places[file] = path.Join(place, file.Name)
	}
}

func (t *tree) addSubcharts(parent *chart.Chart, inner map[string]map[string][]byte, place string, depth int) error {
	for _, name := range slices.Sorted(maps.Keys(inner)) {
		if strings.HasPrefix(name, "_") || strings.HasPrefix(name, ".") {
			continue
		}
		files, folder := inner[name], path.Join(place, "charts", name)
		var err error
		if path.Ext(name) == ".tgz" {
			files, err = unpackSubchart(files, name, folder)
		} else {
			files = below(files, name)
		}
		if err != nil {
			return err
		}
		loaded, err := t.loadChart(files, folder, depth+1)
		if err != nil {
			return err
		}
		parent.AddDependency(loaded)
	}
	return nil
}

// unpackSubchart reads a packed chart with Helm's reader, which bounds its size and refuses paths outside of it.
func unpackSubchart(files map[string][]byte, name, place string) (map[string][]byte, error) {
	packed, isFile := files[name]
	if !isFile {
		return nil, broken(place, 0, "is a folder, but its name is that of a packed chart")
	}
	entries, err := archive.LoadArchiveFiles(bytes.NewReader(packed))
	if err != nil {
		return nil, broken(place, 0, "is no packed chart that Helm can read: %v", err)
	}
	unpacked := make(map[string][]byte, len(entries))
	for _, entry := range entries {
		unpacked[entry.Name] = entry.Data
	}
	return unpacked, nil
}

// notIgnored removes the files that .helmignore names, and those that Helm always ignores.
func notIgnored(place string, files map[string][]byte) (map[string][]byte, error) {
	rules := ignore.Empty()
	if text, isThere := files[ignore.HelmIgnore]; isThere {
		parsed, err := ignore.Parse(bytes.NewReader(text))
		if err != nil {
			file := path.Join(place, ignore.HelmIgnore)
			return nil, broken(file, 0, "%v", err)
		}
		rules = parsed
	}
	rules.AddDefaults()
	maps.DeleteFunc(files, func(name string, _ []byte) bool {
		return rules.Ignore(name, (&tar.Header{Name: name}).FileInfo()) || ignoresFolder(rules, path.Dir(name))
	})
	return files, nil
}

// ignoresFolder is true where a folder or one above it is ignored.
func ignoresFolder(rules *ignore.Rules, folder string) bool {
	return folder != "." && (rules.Ignore(folder, (&tar.Header{Name: folder, Typeflag: tar.TypeDir}).FileInfo()) ||
		ignoresFolder(rules, path.Dir(folder)))
}
