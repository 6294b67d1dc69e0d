package kustomizations

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stellwerk/renderer/objects"
	"stellwerk/renderer/wire"
)

// tree is an artifact in a test: path to content.
type tree map[string]string

func (t tree) files() map[string][]byte {
	files := map[string][]byte{}
	for name, content := range t {
		files[name] = []byte(content)
	}
	return files
}

// configMap is a manifest with one value.
func configMap(name, value string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\ndata:\n  key: " + value + "\n"
}

func request(folder, values string) *wire.Request {
	req := &wire.Request{Path: folder, Release: wire.Release{Name: "shop", Namespace: "prod", Revision: 3}, ComponentDigest: "d1"}
	if values != "" {
		decoder := json.NewDecoder(strings.NewReader(values))
		decoder.UseNumber()
		if err := decoder.Decode(&req.Values); err != nil {
			panic(err)
		}
		wire.Integers(req.Values)
	}
	return req
}

func render(t *testing.T, files tree, folder, values string) []objects.Object {
	t.Helper()
	found, err := Render(request(folder, values), files.files(), nil, wire.Uses{})
	if err != nil {
		t.Fatalf("rendering failed: %v", err)
	}
	return found
}

func fails(t *testing.T, files tree, folder, values string) *wire.Error {
	t.Helper()
	found, err := Render(request(folder, values), files.files(), nil, wire.Uses{})
	var known *wire.Error
	if !errors.As(err, &known) {
		t.Fatalf("a *wire.Error is expected, not %v; objects: %v", err, found)
	}
	return known
}

// value is data.key of the first object.
func value(t *testing.T, found []objects.Object) any {
	t.Helper()
	if len(found) == 0 {
		t.Fatal("there is no object")
	}
	return found[0].Body["data"].(map[string]any)["key"]
}

func names(found []objects.Object) []string {
	var all []string
	for _, one := range found {
		metadata := one.Body["metadata"].(map[string]any)
		all = append(all, one.Body["kind"].(string)+"/"+metadata["name"].(string))
	}
	return all
}

func same(t *testing.T, got, want any) {
	t.Helper()
	one, _ := json.Marshal(got)
	other, _ := json.Marshal(want)
	if string(one) != string(other) {
		t.Errorf("got  %s\nwant %s", one, other)
	}
}

func TestPodinfoRenders(t *testing.T) {
	folder := filepath.Join("..", "..", "..", "..", "shared", "fixtures", "podinfo", "kustomize")
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Skip("the shared fixtures are not there")
	}
	files := tree{}
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files["kustomize/"+entry.Name()] = string(content)
	}
	found := render(t, files, "kustomize", "")
	same(t, names(found), []string{"HorizontalPodAutoscaler/podinfo", "Deployment/podinfo", "Service/podinfo"})
}

func TestAFolderWithoutKustomizationIsEveryYAMLFileInIt(t *testing.T) {
	found := render(t, tree{
		"b.yaml": configMap("b", "x"), "a/c.yml": configMap("c", "x"), "README.md": "no manifest", ".github/w.yaml": "hidden: true",
		".hidden.yaml": "hidden: true", "strange #1 ü.yaml": configMap("strange", "x"),
	}, "", "")
	same(t, names(found), []string{"ConfigMap/c", "ConfigMap/b", "ConfigMap/strange"})
}

func TestAGeneratedKustomizationTakesAFolderThatIsOneAsOne(t *testing.T) {
	found := render(t, tree{
		"a.yaml":                    configMap("a", "x"),
		"nested/kustomization.yaml": "namePrefix: n-\nresources: [b.yaml]\n",
		"nested/b.yaml":             configMap("b", "x"),
		"nested/unused.yaml":        configMap("unused", "x"),
	}, "", "")
	same(t, names(found), []string{"ConfigMap/a", "ConfigMap/n-b"})
}

func TestNoObjectIsNoError(t *testing.T) {
	for name, files := range map[string]tree{
		"no file":             {},
		"no manifest":         {"README.md": "hello"},
		"empty manifest":      {"a.yaml": "# nothing\n"},
		"empty template":      {"a.yaml": "{{ if .enabled }}" + configMap("a", "x") + "{{ end }}"},
		"empty kustomization": {"kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"},
		"empty list":          {"kustomization.yaml": "resources: []\n"},
		"no text":             {"kustomization.yaml": ""},
		"listed but empty":    {"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": "{{ if .enabled }}x{{ end }}"},
	} {
		t.Run(name, func(t *testing.T) {
			if found := render(t, files, "", ""); len(found) != 0 {
				t.Errorf("unexpected objects: %v", names(found))
			}
		})
	}
}

func TestWholeNumbersStayWhole(t *testing.T) {
	found := render(t, tree{"a.yaml": "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\nspec:\n" +
		"  replicas: {{ .replicas }}\n  big: 9007199254740993\n  text: \"{{ .replicas }}\"\n  share: 0.5\n  exponent: 1e6\n"}, "", `{"replicas": 1000000}`)
	same(t, found[0].Body["spec"], map[string]any{
		"replicas": 1000000, "big": json.Number("9007199254740993"), "text": "1000000", "share": 0.5, "exponent": 1000000})
	if _, isWhole := found[0].Body["spec"].(map[string]any)["big"].(int64); !isWhole {
		t.Error("the number is no int64")
	}
}

func TestScalarsMeanWhatKustomizePrints(t *testing.T) {
	found := render(t, tree{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n" +
		"  yes: on\n  date: 2026-01-02\n  octal: 0o17\n  nothing: ~\n  no: n\n  1: one\n  truth: true\n"}, "", "")
	same(t, found[0].Body["data"], map[string]any{
		"yes": "on", "date": "2026-01-02", "octal": 15, "nothing": nil, "no": "n", "1": "one", "truth": true})
}

func TestOriginsNameTheFileInTheArtifact(t *testing.T) {
	found := render(t, tree{
		"over/.component-config.yaml": "templateSuffix: .tpl\nincludedKustomizations: [../base]\n",
		"over/kustomization.yaml":     "resources: [../base, own.yaml]\nconfigMapGenerator:\n- name: made\n  literals: [a=b]\n",
		"over/own.yaml.tpl":           configMap("own", "{{ name }}"),
		"base/kustomization.yaml":     "resources: [deep/c.yaml]",
		"base/deep/c.yaml":            configMap("c", "x"),
	}, "over", "")
	origins := map[string]string{}
	for _, one := range found {
		metadata := one.Body["metadata"].(map[string]any)
		origins[strings.SplitN(metadata["name"].(string), "-", 2)[0]] = one.Origin
		if metadata["annotations"] != nil {
			t.Errorf("annotations are left: %v", metadata)
		}
	}
	same(t, origins, map[string]string{
		"c": "base/deep/c.yaml", "own": "over/own.yaml.tpl", "made": "over/kustomization.yaml"})
}

func TestOriginAnnotationsThatAreAskedForStay(t *testing.T) {
	found := render(t, tree{"kustomization.yaml": "resources: [a.yaml]\nbuildMetadata: [originAnnotations]\n", "a.yaml": configMap("a", "x")}, "", "")
	metadata := found[0].Body["metadata"].(map[string]any)
	same(t, metadata["annotations"], map[string]any{originKey: "path: a.yaml\n"})
	same(t, found[0].Origin, "a.yaml")
}

func TestWhatATemplateAsksForIsNoted(t *testing.T) {
	for text, want := range map[string][]string{
		"plain":                          {},
		"{{ .v }}":                       {},
		"{{ name }}":                     {"name"},
		"{{ namespace }}{{ name }}":      {"name", "namespace"},
		"{{ component.Name }}":           {"component"},
		"{{ componentDigest }}":          {"componentDigest"},
		"{{ componentRevision }}":        {"revision"},
		"{{ kubernetesVersion }}":        {"cluster"},
		"{{ len apiResources }}":         {"cluster"},
		"{{ if .v }}{{ name }}{{ end }}": {},
	} {
		uses := wire.Uses{}
		if _, err := Render(request("", ""), tree{"a.yaml": configMap("a", "'"+text+"'")}.files(), nil, uses); err != nil {
			t.Fatal(err)
		}
		noted := []string{}
		for part := range uses {
			noted = append(noted, part)
		}
		slices.Sort(noted)
		same(t, noted, want)
	}
}

func mustJSON(t *testing.T, value any) []byte {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
