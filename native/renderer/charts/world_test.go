package charts_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"sigs.k8s.io/yaml"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
	release "helm.sh/helm/v4/pkg/release/v1"

	"stellwerk/renderer/charts"
	"stellwerk/renderer/wire"
)

// TestPublicChartsComeToWhatHelmMakesOfThem compares public charts over their defaults, the values of their ci folders,
// and all switches on. STELLWERK_SHARED names the folder with fixtures; by default it is next to the project.
func TestPublicChartsComeToWhatHelmMakesOfThem(t *testing.T) {
	shared := os.Getenv("STELLWERK_SHARED")
	if shared == "" {
		shared = filepath.Join("..", "..", "..", "..", "shared")
	}
	packed, _ := filepath.Glob(filepath.Join(shared, "fixtures", "charts", "*.tgz"))
	if len(packed) == 0 {
		t.Skip("the public charts are no part of the project: " + shared + " has none")
	}
	var compared atomic.Int64
	t.Run("charts", func(t *testing.T) {
		for _, file := range packed {
			files := unpacked(t, file)
			folder := written(t, files)
			for name, text := range valuesOf(t, files) {
				t.Run(path.Base(file)+"/"+name, func(t *testing.T) {
					t.Parallel()
					compared.Add(int64(compareInstalled(t, files, folder, text)))
				})
			}
		}
	})
	if compared.Load() < 1000 {
		t.Errorf("%d objects are too few to say anything", compared.Load())
	}
}

// compareInstalled compares what is installed with these values, and returns how many objects that are.
func compareInstalled(t *testing.T, files map[string][]byte, folder, text string) int {
	want, refused := installedByHelm(folder, text)
	got, err := installedByUs(files, text)
	if refused != nil {
		if err == nil {
			t.Errorf("Helm refuses: %v", refused)
		}
		return 0
	}
	if err != nil {
		t.Fatalf("Helm renders it, and here: %v", err)
	}
	if !slices.Equal(asSet(t, got), asSet(t, want)) {
		again, err := installedByHelm(folder, text)
		if err != nil {
			t.Fatal(err)
		}
		same(t, asSet(t, masked(got, want, again)), asSet(t, masked(want, want, again)))
	}
	return len(want)
}

func unpacked(t *testing.T, file string) map[string][]byte {
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	zipped, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for archive := tar.NewReader(zipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		} else if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeReg {
			_, inside, _ := strings.Cut(header.Name, "/")
			if files[inside], err = io.ReadAll(archive); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// written is a folder with these files.
func written(t *testing.T, files map[string][]byte) string {
	folder := t.TempDir()
	for name, content := range files {
		place := filepath.Join(folder, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(place), 0o700), os.WriteFile(place, content, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// valuesOf are the sets of values that a chart is compared over.
func valuesOf(t *testing.T, files map[string][]byte) map[string]string {
	sets := map[string]string{"defaults": ""}
	for name, content := range files {
		if strings.HasPrefix(name, "ci/") && strings.HasSuffix(name, "values.yaml") {
			sets[name] = string(content)
		}
	}
	defaults := map[string]any{}
	if err := yaml.Unmarshal(files["values.yaml"], &defaults); err != nil {
		t.Fatal(err)
	}
	on, err := yaml.Marshal(switchedOn(defaults))
	if err != nil {
		t.Fatal(err)
	}
	sets["all switches on"] = string(on)
	return sets
}

// switchedOn has every `enabled` and `create` of the values set.
func switchedOn(values map[string]any) map[string]any {
	on := map[string]any{}
	for key, value := range values {
		switch value := value.(type) {
		case map[string]any:
			on[key] = switchedOn(value)
		case bool:
			if key == "enabled" || key == "create" {
				on[key] = true
			}
		}
	}
	return on
}

func installedByHelm(folder, text string) ([]map[string]any, error) {
	whole, err := loader.LoadDir(folder)
	if err != nil {
		return nil, err
	}
	texts, err := textsOf(whole, text)
	if err != nil {
		return nil, err
	}
	hooks, found, err := releaseutil.SortManifests(texts, nil, releaseutil.InstallOrder)
	if err != nil {
		return nil, err
	}
	documents := []string{}
	for _, definition := range whole.CRDObjects() {
		parts := releaseutil.SplitManifests(string(definition.File.Data))
		documents = append(documents, slices.Collect(maps.Values(parts))...)
	}
	for _, one := range found {
		documents = append(documents, one.Content)
	}
	for _, one := range hooks {
		if slices.Contains(one.Events, release.HookPreInstall) || slices.Contains(one.Events, release.HookPostInstall) {
			documents = append(documents, one.Manifest)
		}
	}
	return parsedByHelm(documents)
}

func textsOf(whole *chart.Chart, text string) (map[string]string, error) {
	given := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &given); err != nil {
		return nil, err
	}
	if err := chartutil.ProcessDependencies(whole, given); err != nil {
		return nil, err
	}
	options := common.ReleaseOptions{Name: "web", Namespace: "apps", Revision: 1, IsInstall: true}
	cluster := &common.Capabilities{
		KubeVersion: common.KubeVersion{Version: "v1.36.3", Major: "1", Minor: "36"},
		APIVersions: request(nil, "").Cluster.APIVersions,
		HelmVersion: common.DefaultCapabilities.HelmVersion,
	}
	top, err := util.ToRenderValuesWithSchemaValidation(whole, given, options, cluster, false)
	if err != nil {
		return nil, err
	}
	texts, err := engine.Engine{}.Render(whole, top)
	maps.DeleteFunc(texts, func(name, _ string) bool { return strings.HasSuffix(name, "NOTES.txt") })
	return texts, err
}

// parsedByHelm reads documents as Helm passes them on: each ends with a line break.
func parsedByHelm(documents []string) ([]map[string]any, error) {
	var all []map[string]any
	for _, document := range documents {
		var body map[string]any
		if err := yaml.Unmarshal([]byte(document+"\n"), &body); err != nil {
			return nil, err
		}
		items, isList := body["items"].([]any)
		for _, item := range items {
			if inner, isObject := item.(map[string]any); isList && isObject && body["kind"] == "List" {
				all = append(all, withoutAnnotations(inner))
			}
		}
		if body != nil && body["kind"] != "List" {
			all = append(all, withoutAnnotations(body))
		}
	}
	return all, nil
}

func installedByUs(files map[string][]byte, text string) ([]map[string]any, error) {
	given := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &given); err != nil {
		return nil, err
	}
	req := request(maps.Clone(files), "")
	req.Values, req.Release.Service, req.DeleteHooks = given, "Helm", "omit"
	frame, err := wire.Frame(req) // values come as JSON, and its integers as integers
	if err != nil {
		return nil, err
	}
	var received wire.Request
	if err := wire.ReadFrame(bytes.NewReader(frame), &received); err != nil {
		return nil, err
	}
	wire.Integers(received.Values)
	found, _, err := charts.Render(&received, received.Files, noObjects{}, wire.Uses{})
	var all []map[string]any
	for _, one := range found {
		all = append(all, withoutAnnotations(one.Body))
	}
	return all, err
}

// masked are objects without what two renderings by Helm do not have in common: random passwords and certificates.
func masked(found, one, other []map[string]any) []map[string]any {
	first, second := byName(one), byName(other)
	var all []map[string]any
	for _, body := range found {
		name := nameOf(body)
		result, _ := mask(body, first[name], second[name]).(map[string]any)
		all = append(all, result)
	}
	return all
}

func byName(found []map[string]any) map[string]any {
	named := map[string]any{}
	for _, body := range found {
		named[nameOf(body)] = body
	}
	return named
}

func nameOf(body map[string]any) string {
	metadata, _ := body["metadata"].(map[string]any)
	return fmt.Sprint(body["apiVersion"], body["kind"], metadata["namespace"], metadata["name"])
}

func mask(value, one, other any) any {
	if reflect.DeepEqual(one, other) {
		return value
	}
	switch value := value.(type) {
	case map[string]any:
		first, isOne := one.(map[string]any)
		second, isOther := other.(map[string]any)
		if !isOne || !isOther {
			return value
		}
		result := map[string]any{}
		for key, inner := range value {
			result[key] = mask(inner, first[key], second[key])
		}
		return result
	case []any:
		first, isOne := one.([]any)
		second, isOther := other.([]any)
		if !isOne || !isOther || len(value) != len(first) || len(value) != len(second) {
			return value
		}
		result := make([]any, len(value))
		for index, inner := range value {
			result[index] = mask(inner, first[index], second[index])
		}
		return result
	default:
		return "random"
	}
}

// withoutAnnotations is an object without the annotations by which hooks are run.
func withoutAnnotations(body map[string]any) map[string]any {
	text, err := json.Marshal(body)
	if err != nil {
		panic(fmt.Sprint("an object that is no JSON: ", err))
	}
	var plain map[string]any
	if err := json.Unmarshal(text, &plain); err != nil {
		panic(err)
	}
	metadata, _ := plain["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	_, isHook := annotations["helm.sh/hook"]
	for key := range annotations {
		if isHook || strings.HasPrefix(key, prefix+"/") {
			delete(annotations, key)
		}
	}
	if len(annotations) == 0 {
		delete(metadata, "annotations")
	}
	return plain
}
