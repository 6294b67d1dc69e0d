package charts_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"sigs.k8s.io/yaml"

	"stellwerk/renderer/charts"
	"stellwerk/renderer/wire"
)

// valueSets are what people set, each alone or with others: every way to switch, rename, override and take away.
var valueSets = map[string]string{
	"nothing":                      "",
	"a subchart without its tag":   "tags: {web: false}",
	"one of two tags":              "tags: {web: false, service: true}",
	"all tags off":                 "tags: {web: false, service: false, storage: false}",
	"a condition against a tag":    "tags: {web: false}\nfront: {enabled: true}",
	"a second condition":           "global: {front: false}",
	"the first condition wins":     "front: {enabled: true}\nglobal: {front: false}",
	"a condition that is no bool":  "front: {enabled: maybe}",
	"both aliases":                 "worker: {enabled: true, env: {B: other}}",
	"values of an alias":           "api: {replicas: 5, env: {A: null, C: \"3\"}, settings: {timeout: 60}}",
	"a packed subchart":            "cache: {enabled: true, memory: 1Gi}",
	"a subchart of a subchart":     "db: {backup: {schedule: hourly}}\ntags: {backups: false}",
	"no subchart of a subchart":    "db: {backup: {enabled: false}}",
	"no database":                  "db: {enabled: false}",
	"globals":                      "global: {domain: example.org, shared: {level: 3, own: 1}}",
	"null takes a default away":    "optional: {b: null}\nimage: {repository: null, tag: v1}\ntext: null\ntext2: null",
	"null takes a table away":      "optional: null\nfront: null\nglobal: {shared: null}",
	"null in a subchart":           "db: {size: null, connection: null}\nconnection: {port: null}",
	"imported values overridden":   "http: 9090\nimported: {api: {timeout: 99}}",
	"imported from what is set":    "front: {exports: {ports: {http: 1}}}",
	"lists and numbers":            "list: [a]\nreplicas: 1000000\nnumber: 1.5\nmany: 3",
	"large and small numbers":      "number: 12345678901234567890\noptional: {a: 0.000001, big: 9007199254740993}",
	"text that looks like others":  "text: \"1e3\"\nimage: {tag: 010, digest: \"010\", on: yes}",
	"values for what has none":     "extra: {a: 1}\nnobody: {b: 2}",
	"a table where there was text": "text: deep\nlist: {a: 1}\nfront: {title: {en: x}}",
}

func TestTheResultIsThatOfHelm(t *testing.T) {
	folder := matrix(t)
	for name, text := range valueSets {
		for _, revision := range []int{1, 4} {
			t.Run(fmt.Sprintf("%s/%d", name, revision), func(t *testing.T) {
				want := asSet(t, byHelm(t, folder, values(t, text), revision))
				got := asSet(t, byUs(t, folder, values(t, text), revision))
				compare(t, got, want)
			})
		}
	}
}

// matrix is the chart of the test on disk, one of its subcharts packed.
func matrix(t *testing.T) string {
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS("testdata/matrix")); err != nil {
		t.Fatal(err)
	}
	packed := pack(t, "cache/", read(t, "testdata/cache"))
	if err := os.WriteFile(filepath.Join(folder, "charts", "cache-1.0.0.tgz"), packed, 0o600); err != nil {
		t.Fatal(err)
	}
	return folder
}

// pack makes an archive of files, each with a prefix to its name.
func pack(t testing.TB, prefix string, files map[string][]byte) []byte {
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zipped)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		header := tar.Header{Name: prefix + name, Mode: 0o600, Size: int64(len(files[name]))}
		if err := archive.WriteHeader(&header); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write(files[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

// values are read as Helm reads a file of values.
func values(t *testing.T, text string) map[string]any {
	found := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &found); err != nil {
		t.Fatal(err)
	}
	return found
}

// byHelm does what `helm template --include-crds` does.
func byHelm(t *testing.T, folder string, given map[string]any, revision int) []map[string]any {
	whole, texts := textsByHelm(t, folder, given, revision)
	hooks, found := sorted(t, texts)
	if len(hooks) > 0 {
		t.Fatal("this chart is to have no hooks, which Helm keeps apart")
	}
	return append(definitions(t, whole), found...)
}

// textsByHelm are what Helm's engine makes of the templates.
func textsByHelm(t *testing.T, folder string, given map[string]any, revision int) (*chart.Chart, map[string]string) {
	whole, err := loader.LoadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := chartutil.ProcessDependencies(whole, given); err != nil {
		t.Fatal(err)
	}
	options := common.ReleaseOptions{
		Name: "web", Namespace: "apps", Revision: revision, IsInstall: revision == 1, IsUpgrade: revision > 1,
	}
	cluster := &common.Capabilities{
		KubeVersion: common.KubeVersion{Version: "v1.36.3", Major: "1", Minor: "36"},
		APIVersions: request(nil, "").Cluster.APIVersions,
		HelmVersion: common.DefaultCapabilities.HelmVersion,
	}
	top, err := util.ToRenderValues(whole, given, options, cluster)
	if err != nil {
		t.Fatal(err)
	}
	texts, err := engine.Engine{}.Render(whole, top)
	if err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(texts, func(name, _ string) bool { return strings.HasSuffix(name, "NOTES.txt") })
	return whole, texts
}

func definitions(t *testing.T, whole *chart.Chart) []map[string]any {
	var all []map[string]any
	for _, definition := range whole.CRDObjects() {
		all = append(all, object(t, string(definition.File.Data)))
	}
	return all
}

// sorted are the objects of rendered templates, those apart that Helm takes for hooks.
func sorted(t *testing.T, texts map[string]string) (hooks, all []map[string]any) {
	apart, found, err := releaseutil.SortManifests(texts, nil, releaseutil.InstallOrder)
	if err != nil {
		t.Fatal(err)
	}
	for _, hook := range apart {
		hooks = append(hooks, object(t, hook.Manifest))
	}
	for _, manifest := range found {
		if parsed := object(t, manifest.Content); parsed != nil {
			all = append(all, parsed)
		}
	}
	return hooks, all
}

func object(t *testing.T, text string) map[string]any {
	var parsed map[string]any
	if err := yaml.Unmarshal([]byte(text), &parsed); err != nil {
		t.Fatal(err)
	}
	return parsed
}

func byUs(t *testing.T, folder string, given map[string]any, revision int) []map[string]any {
	files := map[string][]byte{}
	for name, content := range read(t, folder) {
		files["some/place/"+name] = content
	}
	req := request(files, "some/place")
	req.Values, req.Release.Revision, req.Release.Service = given, revision, "Helm"
	// The values come to us as JSON, and its integers as integers.
	frame, err := wire.Frame(req)
	if err != nil {
		t.Fatal(err)
	}
	var received wire.Request
	if err := wire.ReadFrame(bytes.NewReader(frame), &received); err != nil {
		t.Fatal(err)
	}
	wire.Integers(received.Values)
	found, _, err := charts.Render(&received, received.Files, noObjects{}, wire.Uses{})
	if err != nil {
		t.Fatal(err)
	}
	var all []map[string]any
	for _, object := range found {
		if !strings.HasPrefix(object.Origin, "some/place/") {
			t.Errorf("the origin %q is no place in the artifact", object.Origin)
		}
		all = append(all, object.Body)
	}
	return all
}

// noObjects answers every lookup with no object.
type noObjects struct{}

func (noObjects) Ask(string, map[string]any) (json.RawMessage, bool, error) { return nil, false, nil }

func asSet(t *testing.T, found []map[string]any) []string {
	var texts []string
	for _, object := range found {
		text, err := json.MarshalIndent(object, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	slices.Sort(texts)
	return texts
}

func compare(t *testing.T, got, want []string) {
	if len(got) < 5 || len(want) < 5 {
		t.Fatalf("%d and %d objects are too few to say anything", len(got), len(want))
	}
	same(t, got, want)
}

func same(t *testing.T, got, want []string) {
	for _, text := range got {
		if !slices.Contains(want, text) {
			t.Errorf("only ours: %s", text)
		}
	}
	for _, text := range want {
		if !slices.Contains(got, text) {
			t.Errorf("only Helm's: %s", text)
		}
	}
}
