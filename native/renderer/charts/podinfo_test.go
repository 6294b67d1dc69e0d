package charts_test

import (
	"os"
	"path/filepath"
	"testing"

	"stellwerk/renderer/charts"
	"stellwerk/renderer/host"
	"stellwerk/renderer/wire"
)

// podinfo is a chart that others wrote; it is not part of this repository.
const podinfo = "../../../../shared/fixtures/podinfo"

func read(tb testing.TB, folder string) map[string][]byte {
	tb.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(folder, func(name string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(name)
		inside, _ := filepath.Rel(folder, name)
		files[filepath.ToSlash(inside)] = content
		return err
	})
	if err != nil {
		tb.Skipf("the chart is not here: %v", err)
	}
	return files
}

func TestPodinfoRenders(t *testing.T) {
	req := request(read(t, podinfo), "charts/podinfo")
	req.Values = map[string]any{"replicaCount": int64(3), "ingress": map[string]any{"enabled": true}}
	found, about, err := charts.Render(req, req.Files, nil, host.Uses{})
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[any]int{}
	for _, object := range found {
		kinds[object.Body["kind"]]++
	}
	for _, kind := range []string{"Deployment", "Service", "Ingress"} {
		if kinds[kind] != 1 {
			t.Errorf("%d objects are a %s: %v", kinds[kind], kind, kinds)
		}
	}
	if about.Name != "podinfo" || about.Version == "" {
		t.Errorf("the chart says %+v", about)
	}
}

func request(files map[string][]byte, path string) *wire.Request {
	return &wire.Request{
		Files: files, Path: path, Generator: "helm", Prefix: "component-operator.cs.sap.com",
		Release: wire.Release{Name: "web", Namespace: "apps", Service: "component-operator.cs.sap.com", Revision: 1},
		Cluster: wire.Cluster{
			Version:     map[string]any{"gitVersion": "v1.36.3", "major": "1", "minor": "36"},
			APIVersions: []string{"v1", "v1/ConfigMap", "apps/v1", "apps/v1/Deployment", "networking.k8s.io/v1"},
		},
	}
}
