package charts_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"stellwerk/renderer/charts"
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
	found, about, err := charts.Render(req, req.Files, nil, wire.Uses{})
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

// podinfoValues are what its own documentation shows, and every part of it that can be switched on.
var podinfoValues = map[string]string{
	"nothing":      "",
	"an ingress":   "ingress: {enabled: true, className: nginx, hosts: [{host: a.example, paths: [{path: /, pathType: Prefix}]}]}",
	"routes":       "httpRoute: {enabled: true}\ngrpcRoute: {enabled: true}",
	"autoscaling":  "hpa: {enabled: true, maxReplicas: 10, cpu: 80, memory: 200Mi, requests: 10}\nreplicaCount: 4",
	"redis":        "redis: {enabled: true}\ncache: tcp://redis:6379\nbackends: [http://a, http://b]",
	"certificates": "certificate: {create: true, issuerRef: {kind: ClusterIssuer, name: ca}, dnsNames: [a.example]}\ntls: {enabled: true, secretName: t}",
	"monitoring":   "serviceMonitor: {enabled: true}\nserviceAccount: {enabled: true, name: \"\"}\nlinkerd: {profile: {enabled: true}}",
	"a budget":     "podDisruptionBudget: {minAvailable: 1}\nreplicaCount: 2\nui: {message: \"1e6\", color: \"#34577c\"}",
	"large numbers": "service: {nodePort: 31198, type: NodePort, hostPort: 1000000}\nfaults: {delay: true, error: true}\n" +
		"resources: {limits: {memory: 1e9}}",
}

func TestPodinfoIsWhatHelmMakesOfIt(t *testing.T) {
	files := read(t, podinfo)
	sets := maps.Clone(podinfoValues)
	sets["production"] = string(files["charts/podinfo/values-prod.yaml"])
	for name, text := range sets {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(podinfo, "charts", "podinfo")
			_, texts := textsByHelm(t, folder, values(t, text), 1)
			_, found := sorted(t, texts)
			ours := slices.DeleteFunc(byUs(t, folder, values(t, text), 1), isHook)
			same(t, asSet(t, ours), asSet(t, found))
		})
	}
}

func isHook(body map[string]any) bool {
	metadata, _ := body["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	_, isSet := annotations["helm.sh/hook"]
	return isSet
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
