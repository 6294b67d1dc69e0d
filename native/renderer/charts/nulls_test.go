package charts_test

import (
	"encoding/json"
	"testing"
)

const (
	engineDefaults = "limits: {cpu: 300m, memory: 1Gi}\nprobe: {path: /up}\nenabled: true\n"
	ownValues      = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Chart.Name }}}\ndata: {v: {{ omit .Values \"global\" \"part\" | toJson | quote }}}\n"
)

// nulls are charts that take a default of a subchart away, and what is left of the subchart's values.
var nulls = map[string]struct {
	declared, own, engine, part, given string
	want                               string
}{
	"a field":                 {own: "engine: {limits: {cpu: null}}", want: `{"enabled":true,"limits":{"memory":"1Gi"},"probe":{"path":"/up"}}`},
	"a whole mapping":         {own: "engine: {limits: null}", want: `{"enabled":true,"probe":{"path":"/up"}}`},
	"a declared dependency":   {declared: "dependencies: [{name: engine, version: 1.0.0}]", own: "engine: {limits: {cpu: null}}", want: `{"enabled":true,"limits":{"memory":"1Gi"},"probe":{"path":"/up"}}`},
	"with a condition":        {declared: "dependencies: [{name: engine, version: 1.0.0, condition: engine.enabled}]", own: "engine: {enabled: true, limits: {cpu: null}}", want: `{"enabled":true,"limits":{"memory":"1Gi"},"probe":{"path":"/up"}}`},
	"with an alias":           {declared: "dependencies: [{name: engine, version: 1.0.0, alias: motor}]", own: "motor: {limits: {cpu: null}}", want: `{"enabled":true,"limits":{"memory":"1Gi"},"probe":{"path":"/up"}}`},
	"beside given values":     {own: "engine: {limits: {cpu: null}}", given: "probe", want: `{"enabled":true,"limits":{"memory":"1Gi"},"probe":{"path":"/given"}}`},
	"in the middle":           {engine: "part: {limits: {cpu: null}}", part: engineDefaults, want: `{"enabled":true,"limits":{"memory":"1Gi"},"probe":{"path":"/up"}}`},
	"from above the middle":   {own: "engine: {part: {limits: {cpu: null}}}", engine: "part: {}", part: engineDefaults, want: `{"enabled":true,"limits":{"memory":"1Gi"},"probe":{"path":"/up"}}`},
	"with an imported value":  {declared: "dependencies: [{name: engine, version: 1.0.0, import-values: [{child: probe, parent: seen}]}]", own: "engine: {limits: {cpu: null}}", want: `{"enabled":true,"limits":{"memory":"1Gi"},"probe":{"path":"/up"}}`},
	"of nothing that is here": {own: "engine: {limits: {disk: null}}", want: `{"enabled":true,"limits":{"cpu":"300m","disk":null,"memory":"1Gi"},"probe":{"path":"/up"}}`},
}

func TestANullInAChartsOwnValuesTakesADefaultOfASubchartAway(t *testing.T) {
	for name, test := range nulls {
		t.Run(name, func(t *testing.T) {
			engine := engineDefaults
			if test.engine != "" {
				engine = test.engine
			}
			files := small(map[string]string{
				"Chart.yaml": "apiVersion: v2\nname: shop\nversion: 1.0.0\n" + test.declared + "\n", "values.yaml": test.own + "\n",
				"charts/engine/Chart.yaml":  "apiVersion: v2\nname: engine\nversion: 1.0.0\n",
				"charts/engine/values.yaml": engine, "charts/engine/templates/c.yaml": ownValues,
			})
			last := 0
			if test.part != "" {
				with(files, map[string][]byte{
					"charts/engine/charts/part/Chart.yaml":  []byte("apiVersion: v2\nname: part\nversion: 1.0.0\n"),
					"charts/engine/charts/part/values.yaml": []byte(test.part), "charts/engine/charts/part/templates/c.yaml": []byte(ownValues),
				})
			}
			req := request(files, "")
			if test.given != "" {
				req.Values = map[string]any{"engine": map[string]any{"probe": map[string]any{"path": "/given"}}}
			}
			found := mustRender(t, req, nil)
			for index, object := range found {
				if name, _ := object.Body["metadata"].(map[string]any)["name"].(string); name == "part" {
					last = index
				}
			}
			text, _ := found[last].Body["data"].(map[string]any)["v"].(string)
			var got, want any
			if json.Unmarshal([]byte(text), &got) != nil || json.Unmarshal([]byte(test.want), &want) != nil {
				t.Fatal(text)
			}
			one, _ := json.Marshal(got)
			other, _ := json.Marshal(want)
			if string(one) != string(other) {
				t.Errorf("got  %s\nwant %s", one, other)
			}
		})
	}
}

func TestASubchartWithoutValuesFromAboveIsLeftAlone(t *testing.T) {
	files := small(map[string]string{
		"values.yaml": "engine: null\n", "charts/engine/Chart.yaml": "apiVersion: v2\nname: engine\nversion: 1.0.0\n",
		"charts/engine/values.yaml": engineDefaults, "charts/engine/templates/c.yaml": ownValues,
	})
	found := mustRender(t, request(files, ""), nil)
	if text, _ := found[0].Body["data"].(map[string]any)["v"].(string); text == "" {
		t.Error(found)
	}
}
