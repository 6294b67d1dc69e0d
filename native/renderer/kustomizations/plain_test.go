package kustomizations

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"stellwerk/renderer/objects"
	"stellwerk/renderer/wire"
)

const access = `apiVersion: v1
kind: ServiceAccount
metadata: {name: robot, namespace: prod}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: robot, namespace: prod}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: robot}
subjects:
- {kind: ServiceAccount, name: robot}
- {kind: User, name: somebody}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: robot, namespace: prod}
rules: [{apiGroups: [""], resources: [secrets], resourceNames: [robot], verbs: [get]}]
---
apiVersion: v1
kind: Service
metadata: {name: hook, namespace: prod}
spec: {ports: [{port: 443}]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: hook}
webhooks:
- {name: a.b.c, clientConfig: {service: {name: hook, path: /x}}}
`

// staged is what the templates made of some files, before the build.
func staged(t testing.TB, files tree, folder string) *stage {
	t.Helper()
	stage := newStage()
	var own []rendered
	for name, content := range files {
		if inside, isOwn := strings.CutPrefix(name, folder+"/"); folder == "" || isOwn {
			if folder == "" {
				inside = name
			}
			own = append(own, rendered{inside, inside, []byte(content)})
			continue
		}
		stage.files.add(name, []byte(content))
	}
	if err := stage.add(&kustomization{base: folder}, own); err != nil {
		t.Fatal(err)
	}
	return stage
}

func bodies(found []objects.Object) []map[string]any {
	var all []map[string]any
	for _, one := range found {
		all = append(all, one.Body)
	}
	return all
}

func TestAPlainKustomizationMeansWhatTheBuildMeans(t *testing.T) {
	for name, files := range map[string]tree{
		"generated":     {"k/b.yaml": configMap("b", "x"), "k/a.yaml": deployment},
		"nested":        {"k/kustomization.yaml": "resources: [../base, own.yaml]", "k/own.yaml": configMap("own", "x"), "base/Kustomization": "resources: [x.yaml]", "base/x.yaml": deployment},
		"metadata":      {"k/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nmetadata: {name: k}\nresources: [a.yaml]", "k/a.yaml": configMap("a", "x")},
		"bases":         {"k/kustomization.yaml": "bases: [../base]", "base/kustomization.yaml": "resources: [x.yaml]", "base/x.yaml": deployment},
		"access":        {"k/a.yaml": access},
		"lists":         {"k/a.yaml": "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {n: 1e3}}\n- {apiVersion: v1, kind: ConfigMapList, items: [{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}]}\n"},
		"odd":           {"k/a.yaml": "# comment\n---\n---\n" + configMap("a", "yes") + "---\napiVersion: x/v1\nkind: X\nmetadata: {name: b}\nv: &v {a: 1}\nw: {<<: *v}\nd: 2026-01-02\nn: null\n"},
		"the same name": {"k/a.yaml": configMap("a", "x") + "---\n" + strings.Replace(configMap("a", "x"), "name: a", "name: a\n  namespace: other", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			quick, isPlain := staged(t, files, "k").plain("k")
			if !isPlain {
				t.Fatal("it is not plain")
			}
			stage := staged(t, files, "k")
			built, err := stage.kustomize("k")
			if err != nil {
				t.Fatal(err)
			}
			whole, err := stage.collect("k", built)
			if err != nil {
				t.Fatal(err)
			}
			same(t, bodies(quick), bodies(whole))
		})
	}
}

func TestWhatIsNotPlainIsBuilt(t *testing.T) {
	for name, files := range map[string]tree{
		"prefix":      {"kustomization.yaml": "resources: [a.yaml]\nnamePrefix: p-", "a.yaml": configMap("a", "x")},
		"empty":       {"kustomization.yaml": "generatorOptions: {}"},
		"component":   {"kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nresources: [a.yaml]", "a.yaml": configMap("a", "x")},
		"two":         {"kustomization.yaml": "resources: [a.yaml]", "kustomization.yml": "resources: [a.yaml]", "a.yaml": configMap("a", "x")},
		"twice":       {"a.yaml": configMap("a", "x"), "b.yaml": configMap("a", "y")},
		"absent":      {"kustomization.yaml": "resources: [a.yaml]"},
		"no object":   {"a.yaml": "a: b"},
		"no name":     {"a.yaml": "apiVersion: v1\nkind: X\n"},
		"annotations": {"a.yaml": strings.Replace(configMap("a", "x"), "metadata:", "metadata:\n  annotations: {config.kubernetes.io/local-config: 'true'}", 1)},
		"cycle":       {"kustomization.yaml": "resources: [b]", "b/kustomization.yaml": "resources: [..]"},
		"itself":      {"kustomization.yaml": "resources: [.]"},
		"absolute":    {"kustomization.yaml": "resources: [/a.yaml]", "a.yaml": configMap("a", "x")},
	} {
		if _, isPlain := staged(t, files, "").plain(""); isPlain {
			t.Errorf("%s is plain", name)
		}
	}
}

func TestAnObjectForKustomizeAloneIsLeftOut(t *testing.T) {
	found := render(t, tree{"a.yaml": strings.Replace(configMap("a", "x"), "metadata:", "metadata:\n  annotations: {config.kubernetes.io/local-config: 'true'}", 1), "b.yaml": configMap("b", "x")}, "", "")
	same(t, names(found), []string{"ConfigMap/b"})
}

func TestFiveThousandObjectsNeedSecondsAndNotMinutes(t *testing.T) {
	var text strings.Builder
	for index := range 5000 {
		text.WriteString("---\n" + configMap(fmt.Sprint("c", index), "x"))
	}
	began := time.Now()
	found, err := Render(request("", ""), tree{"a.yaml": text.String()}.files(), nil, wire.Uses{})
	if err != nil || len(found) != 5000 {
		t.Fatalf("%d objects, %v", len(found), err)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %v", took)
	}
}

func FuzzPlain(f *testing.F) {
	f.Add("resources: [a.yaml]\n", access)
	f.Add("resources: [a.yaml, b]\n", deployment)
	f.Add("bases: [b]\nmetadata: {name: x}\n", "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: X, metadata: {name: x}}]\n")
	f.Fuzz(func(t *testing.T, kustomization, text string) {
		files := tree{"kustomization.yaml": kustomization, "a.yaml": text, "b/kustomization.yaml": "resources: [b.yaml]", "b/b.yaml": configMap("b", "x")}
		stage := staged(t, files, "")
		if stage.checkFiles() != nil {
			return
		}
		quick, isPlain := stage.plain("")
		if !isPlain {
			return
		}
		built, err := stage.kustomize("")
		if err != nil {
			return // a build looks into references, and does not like what is malformed there
		}
		whole, err := stage.collect("", built)
		if err != nil {
			t.Fatal(err)
		}
		same(t, bodies(quick), bodies(whole))
	})
}
