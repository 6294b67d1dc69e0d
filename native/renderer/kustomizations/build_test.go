package kustomizations

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"

	"stellwerk/renderer/objects"
	"stellwerk/renderer/wire"
)

const deployment = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 1
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      containers:
      - name: web
        image: nginx:1.0
        env:
        - name: A
          value: "1"
        envFrom:
        - configMapRef: {name: settings}
      - name: side
        image: busybox@sha256:aaaa
`

func field(t *testing.T, object objects.Object, keys ...any) any {
	t.Helper()
	var here any = object.Body
	for _, key := range keys {
		switch key := key.(type) {
		case string:
			here = here.(map[string]any)[key]
		case int:
			here = here.([]any)[key]
		}
	}
	return here
}

func TestWhatUsersOfKustomizeExpectWorks(t *testing.T) {
	for name, test := range map[string]struct {
		kustomization string
		keys          []any
		want          any
	}{
		"namespace":              {"namespace: there", []any{"metadata", "namespace"}, "there"},
		"prefix and suffix":      {"namePrefix: a-\nnameSuffix: -z", []any{"metadata", "name"}, "a-web-z"},
		"labels":                 {"labels:\n- pairs: {team: blue}\n  includeSelectors: true", []any{"spec", "selector", "matchLabels", "team"}, "blue"},
		"common labels":          {"commonLabels: {team: blue}", []any{"spec", "template", "metadata", "labels", "team"}, "blue"},
		"common annotations":     {"commonAnnotations: {note: x}", []any{"metadata", "annotations"}, map[string]any{"note": "x"}},
		"image":                  {"images:\n- name: nginx\n  newName: mirror/nginx\n  newTag: '2.0'", []any{"spec", "template", "spec", "containers", 0, "image"}, "mirror/nginx:2.0"},
		"digest":                 {"images:\n- name: busybox\n  digest: sha256:bbbb", []any{"spec", "template", "spec", "containers", 1, "image"}, "busybox@sha256:bbbb"},
		"replicas":               {"replicas:\n- name: web\n  count: 5", []any{"spec", "replicas"}, 5},
		"strategic merge":        {"patches:\n- patch: |\n    apiVersion: apps/v1\n    kind: Deployment\n    metadata: {name: web}\n    spec: {template: {spec: {containers: [{name: web, env: [{name: B, value: '2'}]}]}}}", []any{"spec", "template", "spec", "containers", 0, "env"}, []any{map[string]any{"name": "B", "value": "2"}, map[string]any{"name": "A", "value": "1"}}},
		"JSON patch":             {"patches:\n- target: {kind: Deploy.*}\n  patch: '[{\"op\": \"replace\", \"path\": \"/spec/replicas\", \"value\": 9}]'", []any{"spec", "replicas"}, 9},
		"legacy strategic":       {"patchesStrategicMerge:\n- patch.yaml", []any{"spec", "replicas"}, 7},
		"legacy JSON":            {"patchesJson6902:\n- target: {group: apps, version: v1, kind: Deployment, name: web}\n  path: json.yaml", []any{"spec", "replicas"}, 8},
		"component":              {"components: [component]", []any{"metadata", "labels", "by"}, "component"},
		"replacements":           {"replacements:\n- source: {kind: ConfigMap, name: settings, fieldPath: data.key}\n  targets:\n  - select: {kind: Deployment}\n    fieldPaths: [spec.template.spec.containers.0.image]", []any{"spec", "template", "spec", "containers", 0, "image"}, "from-settings"},
		"vars":                   {"vars:\n- name: IT\n  objref: {apiVersion: v1, kind: ConfigMap, name: settings}\n  fieldref: {fieldpath: metadata.name}\npatches:\n- target: {kind: Deployment}\n  patch: '[{\"op\": \"add\", \"path\": \"/spec/template/spec/containers/0/args\", \"value\": [\"$(IT)\"]}]'", []any{"spec", "template", "spec", "containers", 0, "args"}, []any{"settings"}},
		"sort order":             {"sortOptions: {order: legacy}", []any{"kind"}, "ConfigMap"},
		"transformer":            {"transformers:\n- |-\n  apiVersion: builtin\n  kind: PrefixTransformer\n  metadata: {name: p}\n  prefix: t-\n  fieldSpecs: [{path: metadata/name}]", []any{"metadata", "name"}, "t-web"},
		"generated name":         {"configMapGenerator:\n- name: generated\n  literals: [more=1]\npatches:\n- {target: {kind: Deployment}, path: ref.yaml}", []any{"spec", "template", "spec", "containers", 0, "envFrom", 0, "configMapRef", "name"}, "generated-"},
		"generator options":      {"generatorOptions: {disableNameSuffixHash: true}\nsecretGenerator:\n- name: s\n  literals: [a=b]", []any{"metadata", "name"}, "web"},
		"managed by":             {"buildMetadata: [managedByLabel]", []any{"metadata", "labels", "app.kubernetes.io/managed-by"}, "kustomize-"},
		"openapi of the cluster": {"openapi: {version: v1.21.2}\nnamePrefix: o-", []any{"metadata", "name"}, "o-web"},
	} {
		t.Run(name, func(t *testing.T) {
			resources := "resources: [deployment.yaml, settings.yaml]\n"
			found := render(t, tree{
				"kustomization.yaml": resources + test.kustomization, "deployment.yaml": deployment, "settings.yaml": configMap("settings", "from-settings"),
				"patch.yaml":                   "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 7}\n",
				"ref.yaml":                     "- {op: replace, path: /spec/template/spec/containers/0/envFrom/0/configMapRef/name, value: generated}\n",
				"json.yaml":                    "- {op: replace, path: /spec/replicas, value: 8}\n",
				"component/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nlabels: [{pairs: {by: component}}]\n",
			}, "", "")
			got := field(t, found[0], test.keys...)
			if prefix, isText := test.want.(string); isText && strings.HasSuffix(prefix, "-") {
				if text, _ := got.(string); !strings.HasPrefix(text, prefix) || text == prefix {
					t.Errorf("got %v", got)
				}
				return
			}
			same(t, got, test.want)
		})
	}
}

// TestTheResultIsWhatKustomizePrints compares with kustomize's own text, read as kubectl reads it.
func TestTheResultIsWhatKustomizePrints(t *testing.T) {
	files := tree{
		"kustomization.yaml": "resources: [all.yaml]\nnamePrefix: p-\nsecretGenerator:\n- name: s\n  literals: [a=b]\n",
		"all.yaml": deployment + "---\n" + configMap("c", "|\n    line one\n     line two\n") +
			"---\napiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Service\n  metadata: {name: s, annotations: {n: \"1\", d: 2026-01-02}}\n  spec: {ports: [{port: 80, targetPort: 0x1f}], ratio: 1.5, big: 123456789012, on: yes, e: 1e3}\n" +
			"---\napiVersion: x/v1\nkind: X\nmetadata: {name: merged}\nbase: &base {a: 1, b: [x]}\nother: {<<: *base, a: 2}\nalias: *base\nempty: {}\nnone: null\nneg: -0\n",
	}
	found := render(t, files, "", "")
	memory := newMemory()
	for name, content := range files {
		memory.add(name, []byte(content))
	}
	options := krusty.MakeDefaultOptions()
	options.LoadRestrictions = types.LoadRestrictionsNone
	built, err := krusty.MakeKustomizer(options).Run(memory, "/")
	if err != nil {
		t.Fatal(err)
	}
	for index, one := range built.Resources() {
		text, err := one.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		var want map[string]any
		if err := yaml.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		same(t, found[index].Body, want)
	}
}

func TestKustomizeFetchesNothing(t *testing.T) {
	for _, entry := range []string{
		"https://github.com/kubernetes-sigs/kustomize//examples/multibases?ref=v1.0.6", "github.com/org/repo", "GitHub.com/org/repo",
		"git@github.com:org/repo.git", "ssh://git@host/org/repo", "git::https://host/org/repo", "file:///etc", "http://127.0.0.1:1/x.yaml",
		"user@host:org/repo", "https://user:canary@host/org/repo.git",
	} {
		for _, list := range []string{"resources", "components", "bases", "generators", "transformers", "validators"} {
			failure := fails(t, tree{
				"k/kustomization.yaml":     "resources: [../base, a.yaml]\n",
				"k/a.yaml":                 configMap("a", "x"),
				"base/kustomization.yaml":  "# first line\n" + list + ":\n- " + entry + "\n",
				"k/.component-config.yaml": "includedKustomizations: [../base]\n",
			}, "k", "")
			if failure.Kind != wire.KustomizeFailed || !strings.Contains(failure.Message, "remote resources cannot be loaded") ||
				failure.File != "base/kustomization.yaml" || failure.Line != 3 || strings.Contains(failure.Message, "canary") {
				t.Errorf("%s %s: %+v", list, entry, *failure)
			}
		}
	}
}

func TestNoMessageShowsTheLoginInAnAddress(t *testing.T) {
	const address = "https://user:canary@127.0.0.1:1/x.yaml"
	for _, text := range []string{
		"patches: [{path: '" + address + "'}]", "configMapGenerator: [{name: x, files: ['" + address + "']}]",
		"secretGenerator: [{name: x, envs: ['" + address + "']}]", "replacements: [{path: '" + address + "'}]",
		"configurations: ['" + address + "']", "crds: ['" + address + "']", "openapi: {path: '" + address + "'}",
		"patchesStrategicMerge: ['" + address + "']", "patchesJson6902: [{path: '" + address + "', target: {kind: ConfigMap, name: a}}]",
		"transformers: [x.yaml, 'https://user:canary@host/y?ref=z']",
	} {
		failure := fails(t, tree{"k/kustomization.yaml": "resources: [a.yaml]\n" + text, "k/a.yaml": configMap("a", "x")}, "k", "")
		if strings.Contains(failure.Message, "canary") {
			t.Errorf("%s: %s", text, failure.Message)
		}
	}
}

func TestAFileOrFolderMayBeNamedLikeAnAddress(t *testing.T) {
	files := tree{"github.com/org/a.yaml": configMap("a", "x"), "me@host/b.yaml": configMap("b", "x"), "c@d.yaml": configMap("c", "x")}
	same(t, names(render(t, files, "", "")), []string{"ConfigMap/c", "ConfigMap/a", "ConfigMap/b"})
	files["kustomization.yaml"] = "resources: [c@d.yaml, github.com/org/a.yaml, ./me@host]\nnamePrefix: p-\n"
	files["me@host/kustomization.yaml"] = "resources: [b.yaml]\n"
	same(t, names(render(t, files, "", "")), []string{"ConfigMap/p-c", "ConfigMap/p-a", "ConfigMap/p-b"})
}

func TestKustomizeLoadsNoFileOverHTTP(t *testing.T) {
	for _, entry := range []string{
		"patches: [{path: 'http://127.0.0.1:1/x'}]", "configMapGenerator: [{name: x, files: ['http://127.0.0.1:1/x']}]",
		"openapi: {path: 'http://127.0.0.1:1/x'}", "configurations: ['http://127.0.0.1:1/x']", "crds: ['http://127.0.0.1:1/x']",
		"replacements: [{path: 'http://127.0.0.1:1/x'}]",
	} {
		failure := fails(t, tree{"kustomization.yaml": "resources: [a.yaml]\n" + entry, "a.yaml": configMap("a", "x")}, "", "")
		if failure.Kind != wire.KustomizeFailed || !strings.Contains(failure.Message, "remote files cannot be loaded") {
			t.Errorf("%s: %+v", entry, *failure)
		}
	}
}

func TestKustomizeRunsNothingAndReadsNoOtherFile(t *testing.T) {
	marker := t.TempDir() + "/marker"
	touch, err := exec.LookPath("touch")
	if err != nil {
		t.Skip("there is no touch")
	}
	for name, text := range map[string]string{
		"charts":    "helmCharts: [{name: x, repo: 'https://x'}]",
		"function":  "transformers: ['{apiVersion: v1, kind: X, metadata: {name: x, annotations: {config.kubernetes.io/function: \"exec: {path: " + touch + "}\"}}}']",
		"exec":      "generators: ['{apiVersion: someteam.example.com/v1, kind: Touch, metadata: {name: x}, argsOneLiner: " + marker + "}']",
		"container": "transformers: ['{apiVersion: v1, kind: X, metadata: {name: x, annotations: {config.kubernetes.io/function: \"container: {image: x}\"}}}']",
		"file":      "resources: [/etc/passwd]",
		"relative":  "resources: [../../../../etc/passwd]",
		"generator": "configMapGenerator: [{name: x, files: [/etc/passwd]}]",
		"env":       "configMapGenerator: [{name: x, envs: [/proc/self/environ]}]",
	} {
		t.Run(name, func(t *testing.T) {
			failure := fails(t, tree{"kustomization.yaml": text + "\n"}, "", "")
			if failure.Kind != wire.KustomizeFailed || strings.Contains(failure.Message, "root:") {
				t.Errorf("%+v", *failure)
			}
			if _, err := os.Stat(marker); err == nil {
				t.Error("something ran")
			}
		})
	}
}

func TestAGeneratorTakesNothingFromTheEnvironment(t *testing.T) {
	t.Setenv("CANARY", "canary-value")
	found, err := Render(request("", ""), tree{"kustomization.yaml": "configMapGenerator: [{name: x, envs: [e]}]\n", "e": "CANARY\n"}.files(), nil, nil)
	if err == nil && strings.Contains(strings.Join([]string{string(mustJSON(t, found))}, ""), "canary-value") {
		t.Error("the environment is in the result")
	}
}

func TestAKustomizationFailsWithItsPlace(t *testing.T) {
	for name, test := range map[string]struct {
		files tree
		file  string
		line  int
		text  string
	}{
		"absent file": {tree{"k/kustomization.yaml": "# one\nresources:\n- nope.yaml\n"}, "k/kustomization.yaml", 3,
			"k/kustomization.yaml lists nope.yaml, which does not exist"},
		"absent below": {tree{"k/kustomization.yaml": "resources: [b]\n", "k/b/kustomization.yaml": "resources: [nope.yaml]\n"},
			"k/b/kustomization.yaml", 1, "k/b/kustomization.yaml lists nope.yaml, which does not exist"},
		"not included": {tree{"k/kustomization.yaml": "resources: [../b]\n", "b/kustomization.yaml": "resources: []\n"},
			"k/kustomization.yaml", 1, "lists ../b, which does not exist"},
		"no YAML":   {tree{"k/kustomization.yaml": "resources: [a.yaml]\n", "k/a.yaml": "a: [\nb: }\n"}, "k/a.yaml", 1, "k/a.yaml: is not YAML: line 1: did not find expected"},
		"no object": {tree{"k/a.yaml": "replicas: 1\n"}, "k/a.yaml", 0, "k/a.yaml: holds no object"},
		"no name":   {tree{"k/a.yaml": "apiVersion: v1\nkind: ConfigMap\n"}, "k/a.yaml", 0, "k/a.yaml: holds a ConfigMap without metadata.name"},
		"no kind": {tree{"k/a.yaml": configMap("a", "x") + "---\napiVersion: v1\nmetadata: {name: b, labels: {a: canary}}\n"}, "k/a.yaml", 8,
			"k/a.yaml: document 2 holds an object without kind (apiVersion v1, name b)"},
		"no kind of a template": {tree{"k/.component-config.yaml": "templateSuffix: .t", "k/a.yaml.t": "{{ if true }}\napiVersion: v1\nmetadata: {name: b}\n{{ end }}"},
			"k/a.yaml.t", 0, "k/a.yaml.t: document 1 holds an object without kind (apiVersion v1, name b)"},
		"twice": {tree{"k/a.yaml": configMap("a", "x"), "k/b.yaml": configMap("a", "x")}, "k/b.yaml", 0,
			"k/b.yaml: holds the ConfigMap a (no namespace), which is there already"},
		"unknown field": {tree{"k/kustomization.yaml": "resorces: []\n"}, "k/kustomization.yaml", 0, `is no kustomization: unknown field "resorces"`},
		"two files":     {tree{"k/kustomization.yaml": "namePrefix: x", "k/Kustomization": "namePrefix: x"}, "k/kustomization.yaml", 0, "more than one kustomization file"},
		"cycle":         {tree{"k/kustomization.yaml": "resources: [b]\n", "k/b/kustomization.yaml": "resources: [..]\n"}, "k/b/kustomization.yaml", 0, "cycle detected"},
		"no folder":     {tree{"k/kustomization.yaml": "resources: [b]\n", "k/b/x.txt": ""}, "k/b", 0, "is no kustomization: it has no kustomization.yaml"},
		"patch target": {tree{"k/kustomization.yaml": "resources: [a.yaml]\npatches: [{patch: \"{apiVersion: v1, kind: X, metadata: {name: y}}\"}]", "k/a.yaml": configMap("a", "x")},
			"k/kustomization.yaml", 0, "no resource matches strategic merge patch"},
		"absent patch":   {tree{"k/kustomization.yaml": "resources: []\npatches: [{path: nope.yaml}]"}, "k/kustomization.yaml", 2, "lists nope.yaml, which does not exist"},
		"chart":          {tree{"k/kustomization.yaml": "helmCharts: [{name: x}]"}, "k/kustomization.yaml", 0, "use a Component of its own"},
		"plugin":         {tree{"k/kustomization.yaml": "generators: ['{apiVersion: v1, kind: X, metadata: {name: x}}']"}, "k/kustomization.yaml", 0, "wants the plugin X"},
		"duplicate keys": {tree{"k/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: 1, x: 2}\n"}, "k/a.yaml", 0, `twice`},
		"of a template":  {tree{"k/.component-config.yaml": "templateSuffix: .t", "k/a.yaml.t": "a: {{ 1 }}"}, "k/a.yaml.t", 0, "k/a.yaml.t: holds no object"},
	} {
		t.Run(name, func(t *testing.T) {
			failure := fails(t, test.files, "k", "")
			if failure.File != test.file || failure.Line != test.line || !strings.Contains(failure.Message, test.text) {
				t.Errorf("%+v", *failure)
			}
		})
	}
}

func TestNoMessageQuotesTheContentOfAFile(t *testing.T) {
	for name, files := range map[string]tree{
		"node":   {"kustomization.yaml": "resources: [a.yaml]\nnamePrefix: x\nlabels: [{pairs: {a: b}}]", "a.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: a, labels: canary-value}\n"},
		"patch":  {"kustomization.yaml": "resources: [a.yaml]\npatches: [{path: p.yaml}]", "a.yaml": configMap("a", "x"), "p.yaml": "- canary-value\n"},
		"inline": {"kustomization.yaml": "resources: [a.yaml]\npatches: [{patch: 'canary-value: ['}]", "a.yaml": configMap("a", "x")},
		"type":   {"kustomization.yaml": "resources: [a.yaml]\nreplicas: canary-value", "a.yaml": configMap("a", "x")},
		"json":   {"kustomization.yaml": "resources: [a.yaml]\npatches: [{target: {kind: ConfigMap}, patch: '[{\"op\": \"replace\", \"path\": \"/data/nope/x\", \"value\": \"canary-value\"}]'}]", "a.yaml": configMap("a", "x")},
		"test":   {"kustomization.yaml": "resources: [a.yaml]\npatches: [{target: {kind: ConfigMap}, patch: '[{\"op\": \"test\", \"path\": \"/data/key\", \"value\": \"no\"}]'}]", "a.yaml": configMap("a", "canary-value")},
		"env":    {"kustomization.yaml": "configMapGenerator: [{name: x, envs: [e]}]\n", "e": "a=b\n\xff=canary-value\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if failure := fails(t, files, "", ""); strings.Contains(failure.Message, "canary-value") {
				t.Errorf("%+v", *failure)
			}
		})
	}
}

func TestAliasesThatUnfoldToTooMuchAreRefusedBeforeTheBuild(t *testing.T) {
	bomb := "apiVersion: v1\nkind: X\nmetadata: {name: a}\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for level := 1; level < 9; level++ {
		n, m := string(rune('0'+level)), string(rune('0'+level-1))
		bomb += "a" + n + ": &a" + n + " [*a" + m + strings.Repeat(", *a"+m, 9) + "]\n"
	}
	failure := fails(t, tree{"a.yaml": bomb}, "", "")
	if failure.Kind != wire.LimitExceeded || failure.File != "a.yaml" {
		t.Errorf("%+v", *failure)
	}
}

// TestASchemaOfOneTenantIsForgotten patches a list by name before and after a kustomization with another schema.
func TestASchemaOfOneTenantIsForgotten(t *testing.T) {
	patched := tree{
		"kustomization.yaml": "resources: [deployment.yaml]\npatches: [{path: p.yaml}]\n", "deployment.yaml": deployment,
		"p.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {template: {spec: {containers: [{name: web, image: other}]}}}\n",
	}
	custom := tree{}
	for name, content := range patched {
		custom[name] = content
	}
	custom["kustomization.yaml"] += "openapi: {path: schema.json}\n"
	custom["schema.json"] = `{"definitions": {"x": {"properties": {"spec": {"type": "object"}}, "x-kubernetes-group-version-kind": [{"group": "apps", "version": "v1", "kind": "Deployment"}]}}}`
	containers := func(files tree) int {
		return len(field(t, render(t, files, "", "")[0], "spec", "template", "spec", "containers").([]any))
	}
	for range 2 {
		same(t, containers(patched), 2)
		same(t, containers(custom), 1)
	}
	broken := tree{"kustomization.yaml": "resources: [deployment.yaml]\npatches: [{path: p.yaml}]\nopenapi: {path: s}\n", "s": "{]", "deployment.yaml": deployment, "p.yaml": patched["p.yaml"]}
	fails(t, broken, "", "")
	same(t, containers(patched), 2)
}

func FuzzKustomization(f *testing.F) {
	f.Add("resources: [a.yaml]\nnamePrefix: x-\npatches: [{path: a.yaml}]\nimages: [{name: a, newTag: b}]\n", deployment)
	f.Add("configMapGenerator: [{name: a, literals: [b=c]}]\nreplacements: [{source: {kind: X}, targets: [{select: {kind: Y}, fieldPaths: [a.b]}]}]\n", configMap("a", "x"))
	f.Add("vars: [{name: A, objref: {kind: X, name: a}}]\ncomponents: [.]\nresources: [..]\n", "apiVersion: v1\nkind: List\nitems: [{}]\n")
	f.Fuzz(func(t *testing.T, kustomization, resource string) {
		_, err := Render(request("k", ""), tree{"k/kustomization.yaml": kustomization, "k/a.yaml": resource}.files(), nil, wire.Uses{})
		var known *wire.Error
		if err != nil && !errors.As(err, &known) {
			t.Errorf("%v", err)
		}
	})
}
