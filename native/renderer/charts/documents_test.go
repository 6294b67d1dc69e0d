package charts_test

import (
	"fmt"
	"strings"
	"testing"

	"stellwerk/renderer/charts"
	"stellwerk/renderer/wire"
)

func rendered(t *testing.T, files map[string][]byte) ([]map[string]any, *wire.Chart) {
	t.Helper()
	req := request(files, "")
	found, about, err := charts.Render(req, files, noObjects{}, wire.Uses{})
	if err != nil {
		t.Fatal(err)
	}
	var all []map[string]any
	for _, one := range found {
		all = append(all, one.Body)
	}
	return all, about
}

func TestADocumentEndsWithALineBreakAsInHelm(t *testing.T) {
	for name, text := range map[string]string{
		"at the end":       "kind: ConfigMap\napiVersion: v1\ndata:\n  a: |\n    text{{- /* no line break */ -}}",
		"before another":   "kind: ConfigMap\napiVersion: v1\ndata:\n  a: |\n    text\n\n\n---\nkind: Other\napiVersion: v1\n",
		"on the same line": "---kind: ConfigMap\napiVersion: v1\ndata:\n  a: |\n    text\n---apiVersion: v1\nkind: Other\n",
	} {
		found, _ := rendered(t, template(text))
		if data := found[0]["data"].(map[string]any)["a"]; data != "text\n" {
			t.Errorf("%s: %q", name, data)
		}
		if name != "at the end" && (len(found) != 2 || found[1]["kind"] != "Other") {
			t.Errorf("%s: %v", name, found)
		}
	}
}

func TestAKeyThatAppearsTwiceCountsAsLastWrittenAndIsNamed(t *testing.T) {
	files := small(map[string]string{
		"values.yaml":         "a: 1\nb: 2\na: 3\n",
		"templates/one.yaml":  "kind: ConfigMap\napiVersion: v1\ndata: {a: \"{{ .Values.a }}\"}\n---\n\nkind: ConfigMap\napiVersion: v1\ndata:\n  x: one\n  x: two\n",
		"crds/things.yaml":    "kind: CustomResourceDefinition\napiVersion: apiextensions.k8s.io/v1\nspec: {a: 1, a: 2}\n",
		"templates/_no.yaml":  "",
		"templates/NOTES.txt": "a: 1\na: 2\n",
	})
	found, about := rendered(t, files)
	if got := fmt.Sprint(found[0]["spec"], found[1]["data"], found[2]["data"]); got != "map[a:2] map[a:3] map[x:two]" {
		t.Errorf("%s", got)
	}
	want := []string{
		`values.yaml: line 3: the key "a" appears twice`, `crds/things.yaml: line 3: the key "a" appears twice`,
		`templates/one.yaml: line 10: the key "x" appears twice`,
	}
	for index, words := range want {
		if len(about.Warnings) != len(want) || !strings.HasPrefix(about.Warnings[index], words) {
			t.Fatalf("%q", about.Warnings)
		}
	}
}

func TestWhatElseIsWrongBesideAKeyThatAppearsTwiceIsRefusedAtItsLine(t *testing.T) {
	text := "kind: ConfigMap\napiVersion: v1\n---\nkind: ConfigMap\napiVersion: v1\ndata:\n  x: 1\n  x: 2\n  y: [\n"
	refused := refusalOf(t, request(template(text), ""), noObjects{})
	expect(t, refused, wire.InvalidManifest, "templates/object.yaml", "line 10")
}
