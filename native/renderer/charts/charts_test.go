package charts_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"stellwerk/renderer/charts"
	"stellwerk/renderer/wire"
)

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"

func TestAnErrorNamesTheFileAndThePlaceInIt(t *testing.T) {
	for _, given := range []struct {
		files      map[string]string
		kind, file string
		line       int
		words      []string
	}{
		{map[string]string{"templates/a.yaml": "a: 1\nb: {{ if }}\n"}, wire.TemplateFailed, "at/templates/a.yaml", 2, []string{"missing value for if"}},
		{map[string]string{"templates/a.yaml": "a: {{ nothing }}\n"}, wire.TemplateFailed, "at/templates/a.yaml", 1, []string{`"nothing" not defined`}},
		{map[string]string{"templates/a.yaml": "\n\na: {{ .Values.x.y }}\n"}, wire.TemplateFailed, "at/templates/a.yaml", 3, []string{"nil pointer"}},
		{map[string]string{"templates/a.yaml": "a: {{ required \"x is needed\" .Values.x }}\n"}, wire.TemplateFailed, "at/templates/a.yaml", 1, []string{"templates/a.yaml:1: x is needed"}},
		{map[string]string{"templates/a.yaml": "{{ fail \"not (like): this\" }}\n"}, wire.TemplateFailed, "at/templates/a.yaml", 1, []string{"not (like): this"}},
		{map[string]string{
			"templates/_b.tpl": "{{ define \"b\" }}\n\n{{ .Values.x.y }}{{ end }}", "templates/a.yaml": "\n{{ include \"b\" . }}\n",
		}, wire.TemplateFailed, "at/templates/_b.tpl", 3, []string{"nil pointer"}},
		{map[string]string{
			"charts/sub/Chart.yaml": "apiVersion: v2\nname: other\nversion: 1.0.0\n", "charts/sub/templates/c.yaml": "{{ fail \"deep\" }}",
		}, wire.TemplateFailed, "at/charts/sub/templates/c.yaml", 1, []string{"deep"}},
		{map[string]string{"templates/a.yaml": "{{ template \"noObjects\" . }}"}, wire.TemplateFailed, "at/templates/a.yaml", 1, []string{"noObjects"}},
		{map[string]string{"templates/a.yaml": "a: [\n"}, wire.InvalidManifest, "at/templates/a.yaml", 0, []string{"what at/templates/a.yaml renders is not YAML", "line "}},
		{map[string]string{"templates/a.yaml": "kind: X\n"}, wire.InvalidManifest, "at/templates/a.yaml", 0, []string{"without apiVersion", "line 1 of it"}},
		{map[string]string{"crds/a.yaml": "\nkind: X\n"}, wire.InvalidManifest, "at/crds/a.yaml", 2, []string{"without apiVersion"}},
		{map[string]string{"values.yaml": "- a\n"}, wire.InvalidChart, "at/values.yaml", 0, []string{"cannot unmarshal array"}},
		{map[string]string{"Chart.yaml": "name: [\n"}, wire.InvalidChart, "at/Chart.yaml", 1, nil},
		{map[string]string{"Chart.yaml": "apiVersion: v2\nname: a\n"}, wire.InvalidChart, "at/Chart.yaml", 0, []string{"version"}},
		{map[string]string{"Chart.yaml": "apiVersion: v2\nname: a\nversion: 1.0.0\ntype: library\n"}, wire.InvalidChart, "at/Chart.yaml", 0, []string{"library charts are not installable"}},
		{map[string]string{"Chart.yaml": "apiVersion: v2\nname: a\nversion: 1.0.0\nkubeVersion: <1.20.0\n"}, wire.InvalidChart, "at/Chart.yaml", 0, []string{"<1.20.0", "v1.36.3"}},
		{map[string]string{"Chart.yaml": "apiVersion: v2\nname: a\nversion: 1.0.0\ndependencies: [{name: db, version: 1.0.0}]\n"}, wire.InvalidChart, "at/Chart.yaml", 0, []string{"dependent chart db not found"}},
		{map[string]string{"charts/x/values.yaml": "a: 1"}, wire.InvalidChart, "at/charts/x/Chart.yaml", 0, []string{"missing"}},
		{map[string]string{"charts/x.tgz": "text"}, wire.InvalidChart, "at/charts/x.tgz", 0, []string{"is no packed chart that Helm can read"}},
		{map[string]string{
			"charts/lib/Chart.yaml":          "apiVersion: v2\nname: lib\nversion: 1.0.0\ntype: library\n",
			"charts/lib/charts/a/Chart.yaml": "apiVersion: v2\nname: a\nversion: 1.0.0\n",
		}, wire.InvalidChart, "at/Chart.yaml", 0, []string{"library chart lib has a as a subchart"}},
		{map[string]string{".helmignore": "a/**/b\n"}, wire.InvalidChart, "at/.helmignore", 0, []string{"**"}},
	} {
		got := refusalOf(t, request(inFolder("at", small(given.files)), "at"), nil)
		expect(t, got, given.kind, given.file, given.words...)
		if got.Line != given.line {
			t.Errorf("line %d, want %d: %+v", got.Line, given.line, got)
		}
	}
}

func TestTheFunctionsAreHelmsAndOurs(t *testing.T) {
	for text, want := range map[string]string{
		`{{ toYaml (dict "a" 1) }}`:                            "a: 1",
		`{{ fromYaml "[1]" | toJson }}`:                        `{"Error":"error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go value of type map[string]interface {}"}`,
		`{{ bitwiseShiftLeft 2 3 }} {{ bitwiseXor 14 3 }}`:     "12 13",
		`{{ parseIPv4Address "1.2.3.4" | formatIPv4Address }}`: "1.2.3.4",
		`{{ mustFromYaml "a: 1" | toJson }}`:                   `{"a":1}`,
		`{{ dict "a" 1 | toToml }}`:                            "a = 1",
		`{{ now | date "2006" | len }}`:                        "4",
		`{{ 1000000.0 }}`:                                      "1e+06",
		`{{ "x" | repeat 3 }}{{ semver "1.2.3" }}`:             "xxx1.2.3",
	} {
		found := mustRender(t, request(template(configMap+"data:\n  a: |\n    "+text+"\n"), ""), nil)
		got, _ := found[0].Body["data"].(map[string]any)["a"].(string)
		if strings.TrimSpace(got) != want {
			t.Errorf("%s: %q", text, got)
		}
	}
}

func TestWhatReachesTheHostIsNotThere(t *testing.T) {
	for _, call := range []string{`env "HOME"`, `expandenv "$HOME"`, `getHostByName "localhost"`} {
		name, _, _ := strings.Cut(call, " ")
		got := refusalOf(t, request(template("a: {{ "+call+" }}"), ""), nil)
		expect(t, got, wire.TemplateFailed, "templates/object.yaml", fmt.Sprintf("function %q not defined", name))
	}
}

// cluster answers lookups from a map of "kind/namespace/name"; it serves Secret and ConfigMap.
type cluster struct {
	objects map[string]string
	asked   []string
}

func (c *cluster) Ask(method string, args map[string]any) (json.RawMessage, bool, error) {
	question := fmt.Sprint(method, " ", args["apiVersion"], " ", args["kind"], "/", args["namespace"], "/", args["name"], " ", args["where"])
	c.asked = append(c.asked, question)
	switch {
	case args["kind"] == "Forbidden":
		return nil, false, &wire.Error{Kind: wire.LookupFailed, Message: "secrets is forbidden"}
	case args["kind"] != "Secret":
		return nil, false, &wire.NoSuchKind{APIVersion: fmt.Sprint(args["apiVersion"]), Kind: fmt.Sprint(args["kind"])}
	case method == "lookupList":
		return json.RawMessage(`[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]`), true, nil
	}
	text, found := c.objects[fmt.Sprint(args["namespace"], "/", args["name"])]
	return json.RawMessage(text), found, nil
}

func TestLookupsAreAnsweredByTheParent(t *testing.T) {
	ask := &cluster{objects: map[string]string{"apps/here": `{"data":{"a":"x"},"metadata":{"generation":12345678}}`}}
	text := `
data:
  here: {{ (lookup "v1" "Secret" "apps" "here").data.a }}
  number: "{{ (lookup "v1" "Secret" "apps" "here").metadata.generation }}"
  absent: {{ lookup "v1" "Secret" "apps" "absent" | toJson | quote }}
  unknown: {{ lookup "example.com/v1" "Basket" "apps" "x" | toJson | quote }}
  many: {{ range (lookup "v1" "Secret" "" "").items }}{{ .metadata.name }}{{ end }}
`
	uses := wire.Uses{}
	req := request(template(configMap+text), "")
	found, _, err := charts.Render(req, req.Files, ask, uses)
	if err != nil {
		t.Fatal(err)
	}
	written, _ := json.Marshal(found[0].Body["data"])
	if string(written) != `{"absent":"{}","here":"x","many":"ab","number":"12345678","unknown":"{}"}` {
		t.Error(string(written))
	}
	if !uses["lookup"] || ask.asked[0] != "lookup v1 Secret/apps/here target" {
		t.Error(uses, ask.asked)
	}
}

func TestAFailedLookupIsToldFromABrokenTemplate(t *testing.T) {
	req := request(template("\na: {{ lookup \"v1\" \"Forbidden\" \"\" \"x\" }}"), "")
	got := refusalOf(t, req, &cluster{})
	expect(t, got, wire.LookupFailed, "templates/object.yaml", "secrets is forbidden")
	if got.Line != 2 {
		t.Error(got.Line)
	}
	req = request(template("a: {{ mustLookup \"example.com/v1\" \"Basket\" \"\" \"x\" }}"), "")
	expect(t, refusalOf(t, req, &cluster{}), wire.LookupFailed, "templates/object.yaml", "Basket")
}

func TestAChartTellsWhatItDependedOn(t *testing.T) {
	uses := wire.Uses{}
	req := request(template(configMap), "")
	_, about, err := charts.Render(req, req.Files, nil, uses)
	if err != nil || !reflect.DeepEqual(*about, wire.Chart{Name: "small", Version: "1.0.0"}) {
		t.Fatal(about, err)
	}
	for _, part := range []string{"name", "namespace", "revision", "cluster"} {
		if !uses[part] {
			t.Errorf("%s had a part in it", part)
		}
	}
	if uses["lookup"] || uses["component"] {
		t.Error(uses)
	}
}

func TestAReleaseIsAnInstallationAtFirstAndAnUpgradeLater(t *testing.T) {
	for revision, want := range map[int]string{1: "true false 1", 2: "false true 2"} {
		req := request(template(configMap+"data: {a: \"{{ .Release.IsInstall }} {{ .Release.IsUpgrade }} {{ .Release.Revision }}\"}"), "")
		req.Release.Revision = revision
		if got := mustRender(t, req, nil)[0].Body["data"].(map[string]any)["a"]; got != want {
			t.Error(got)
		}
	}
}

func TestTheServiceIsOurs(t *testing.T) {
	found := mustRender(t, request(template(configMap+"data: {a: {{ .Release.Service }}}"), ""), nil)
	if got := found[0].Body["data"].(map[string]any)["a"]; got != prefix {
		t.Error(got)
	}
}

func TestValuesThatASchemaRefusesAreNamedButNotQuoted(t *testing.T) {
	schema := `{"properties": {"password": {"type": "string", "pattern": "^[a-z]{30}$"}, "port": {"type": "integer"},
		"mode": {"enum": ["a", "b"]}, "mail": {"type": "string", "format": "email", "minLength": 20}, "x": {"const": "y"}},
		"required": ["name"], "additionalProperties": false}`
	files := inFolder("at", small(map[string]string{"values.schema.json": schema}))
	req := request(files, "at")
	req.Values = map[string]any{
		"password": "hunter2", "port": "hunter2", "mode": "hunter2", "mail": "hunter2", "x": "hunter2", "other": "hunter2",
	}
	got := refusalOf(t, req, nil)
	expect(t, got, wire.InvalidValues, "at/values.schema.json",
		"/password: does not match ^[a-z]{30}$", "/port: got string, want integer", "/mode: value must be one of 'a', 'b'",
		"/mail: minLength: got 7, want 20", "/x: value must be 'y'", "missing property 'name'", "additional properties 'other' not allowed")
	if strings.Contains(got.Message, "hunter2") {
		t.Error(got.Message)
	}
}

func TestASchemaHoldsForASubchartToo(t *testing.T) {
	files := small(map[string]string{
		"charts/sub/Chart.yaml":         "apiVersion: v2\nname: sub\nversion: 1.0.0\n",
		"charts/sub/values.schema.json": `{"properties": {"port": {"type": "integer"}}}`,
	})
	req := request(files, "")
	req.Values = map[string]any{"sub": map[string]any{"port": "x"}}
	expect(t, refusalOf(t, req, nil), wire.InvalidValues, "charts/sub/values.schema.json", "chart sub", "/port")
}

func TestASchemaElsewhereIsNotFetched(t *testing.T) {
	schema := `{"properties": {"a": {"$ref": "https://127.0.0.1:1/a.json"}, "b": {"type": "integer"}}}`
	req := request(small(map[string]string{"values.schema.json": schema}), "")
	req.Values = map[string]any{"a": 1.0, "b": 1.0}
	mustRender(t, req, nil)
	req.Values = map[string]any{"b": "x"}
	expect(t, refusalOf(t, req, nil), wire.InvalidValues, "values.schema.json", "/b")
	req = request(small(map[string]string{"values.schema.json": `{"$ref": "file:///etc/passwd"}`}), "")
	expect(t, refusalOf(t, req, nil), wire.InvalidChart, "values.schema.json", "which is no part of it")
}

func TestAMessageOfTheSchemaLibraryNeverCrashesTheWorker(t *testing.T) {
	for _, schema := range []string{"", "[", "true", "false", "1", `{"$ref": "#/nowhere"}`, `{"type": "nothing"}`, `{"$ref": "#"}`} {
		req := request(small(map[string]string{"values.schema.json": schema}), "")
		_, _, err := charts.Render(req, req.Files, nil, wire.Uses{})
		var known *wire.Error
		if err != nil && !errors.As(err, &known) {
			t.Errorf("%s: %v", schema, err)
		}
	}
}

func TestRecursionEnds(t *testing.T) {
	for name, text := range map[string]string{
		"include":  `{{ define "a" }}{{ include "a" . }}{{ end }}{{ include "a" . }}`,
		"template": `{{ define "a" }}{{ template "a" . }}{{ end }}{{ template "a" . }}`,
	} {
		if got := refusalOf(t, request(template(text), ""), nil); got.Kind != wire.TemplateFailed {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestTheValuesOfASubchartThatAreNoMappingAreNotQuoted(t *testing.T) {
	req := request(small(map[string]string{"charts/sub/Chart.yaml": "apiVersion: v2\nname: sub\nversion: 1.0.0\n"}), "")
	req.Values = map[string]any{"sub": "hunter2"}
	got := refusalOf(t, req, nil)
	expect(t, got, wire.InvalidValues, "", "the values of subchart sub are no mapping")
	if strings.Contains(got.Message, "hunter2") {
		t.Error(got.Message)
	}
}

func TestATextThatTplCannotReadIsNotQuoted(t *testing.T) {
	for _, text := range []string{"hunter2 {{ fail \"x\" }}", "hunter2 {{ if }}", "hunter2 {{ .Values.a.b }}", "{{ nothing \"hunter2\" }}"} {
		req := request(template("a: {{ tpl .Values.text . }}"), "")
		req.Values = map[string]any{"text": text}
		if got := refusalOf(t, req, nil); strings.Contains(got.Message, "hunter2") || got.File != "templates/object.yaml" {
			t.Errorf("%s: %+v", text, got)
		}
	}
}

func TestTextThatAliasesUnfoldIsAnErrorOfFromYaml(t *testing.T) {
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for level := 1; level < 9; level++ {
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", level, level, strings.Repeat(fmt.Sprintf("*a%d, ", level-1), 10))
	}
	for call, want := range map[string]string{
		`(.Files.Get "bomb.txt" | fromYaml).Error`: "excessive aliasing",
		`(fromYaml "a: &a {b: 1}\nc: *a").c.b`:     "1",
		`index (fromYamlArray "[1, 2]") 1`:         "2",
		`(fromYaml "a: [").Error | trunc 5`:        "error",
	} {
		files := template(configMap + "data:\n  a: {{ " + call + " | quote }}\n")
		found := mustRender(t, request(with(files, map[string][]byte{"bomb.txt": []byte(bomb)}), ""), nil)
		if got, _ := found[0].Body["data"].(map[string]any)["a"].(string); !strings.Contains(got, want) {
			t.Errorf("%s: %q", call, got)
		}
	}
}
