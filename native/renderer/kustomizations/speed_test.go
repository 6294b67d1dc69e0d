package kustomizations

import (
	"fmt"
	"strings"
	"testing"

	"stellwerk/renderer/wire"
)

// tenObjects is a kustomization as many are: a few kinds, labels, a namespace, one image, one generated ConfigMap.
func tenObjects(templated bool) tree {
	files := tree{}
	resources := ""
	for index := range 3 {
		name := fmt.Sprintf("web%d", index)
		label := "plain"
		if templated {
			label = "{{ .label }}"
		}
		files[name+".yaml"] = strings.Replace(deployment, "name: web", "name: "+name, 1) + "---\n" +
			"apiVersion: v1\nkind: Service\nmetadata: {name: " + name + ", labels: {l: '" + label + "'}}\nspec: {ports: [{port: 80}], selector: {app: web}}\n---\n" +
			configMap(name, label)
		resources += "- " + name + ".yaml\n"
	}
	files["kustomization.yaml"] = "resources:\n" + resources + "namespace: prod\nlabels: [{pairs: {team: blue}}]\n" +
		"images: [{name: nginx, newTag: '2.0'}]\nconfigMapGenerator: [{name: made, literals: [a=b]}]\n"
	return files
}

func benchmark(b *testing.B, templated bool) {
	benchmarkFiles(b, tenObjects(templated))
}

func benchmarkFiles(b *testing.B, artifact tree) {
	b.Helper()
	files := artifact.files()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Render(request("", `{"label": "x"}`), files, nil, wire.Uses{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "renders/s")
}

func BenchmarkTenObjects(b *testing.B) { benchmark(b, false) }
func BenchmarkTenPlainObjects(b *testing.B) {
	files := tenObjects(true)
	delete(files, "kustomization.yaml")
	benchmarkFiles(b, files)
}

func BenchmarkTenTemplatedObjects(b *testing.B) { benchmark(b, true) }
