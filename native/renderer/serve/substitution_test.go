package serve

import (
	"encoding/json"
	"strings"
	"testing"
)

const (
	trainOf = "apiVersion: rail.example.com/v1\nkind: Train\nmetadata: {name: t, labels: {account: \"${acct}\"}}\n" +
		"spec:\n  account: \"${acct}\"\n  port: '${port}'\n  count: ${port}\n  re: '\\\\d \\/ x'\n  args: [\"${port}\"]\n"
	trainWants = `{"account":"0777001","args":["8080"],"count":8080,"port":"8080","re":"\\\\d \\/ x"}`
)

func TestQuotesOfASourceCountWhateverReadsIt(t *testing.T) {
	p := start(t)
	for name, test := range map[string]struct {
		generator string
		files     map[string]string
	}{
		"manifests":             {manifests, map[string]string{"t.yaml": trainOf}},
		"a list":                {manifests, map[string]string{"t.yaml": "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(trainOf, "\n", "\n  ") + "\n"}},
		"a plain kustomization": {auto, map[string]string{"t.yaml": trainOf}},
		"a template":            {auto, map[string]string{"t.yaml": trainOf + "# {{ name }}\n"}},
		"a kustomization with a patch": {auto, map[string]string{
			"t.yaml": trainOf, "p.yaml": "apiVersion: rail.example.com/v1\nkind: Train\nmetadata: {name: t}\nspec: {port: '${port}'}\n",
			"kustomization.yaml": "resources: [t.yaml]\npatches: [{path: p.yaml}]\ncommonAnnotations: {a: b}\n"}},
		"a chart": {auto, map[string]string{"Chart.yaml": chartOf, "templates/t.yaml": trainOf}},
	} {
		t.Run(name, func(t *testing.T) {
			req := request(test.generator, "", test.files)
			req.PostBuild.Substitute = map[string]string{"acct": "0777001", "port": "8080"}
			got, _ := json.Marshal(p.result(req).Objects[0]["spec"])
			if string(got) != trainWants {
				t.Errorf("got  %s\nwant %s", got, trainWants)
			}
		})
	}
}
