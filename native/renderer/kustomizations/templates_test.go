package kustomizations

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"stellwerk/renderer/wire"
)

// evaluate renders one expression and returns what it printed.
func evaluate(t *testing.T, req *wire.Request, files tree, expression string) string {
	t.Helper()
	files["a.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  key: |-\n    {{ " + expression + " }}\n"
	found, err := Render(req, files.files(), nil, wire.Uses{})
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	text, _ := value(t, found).(string)
	return text
}

func component() json.RawMessage {
	return json.RawMessage(`{
		"apiVersion": "core.cs.sap.com/v1alpha1", "kind": "Component",
		"metadata": {"name": "shop", "namespace": "prod", "uid": "u1", "labels": {"team": "blue"}, "annotations": {"a/b": "c"}, "generation": 7},
		"spec": {"path": "deploy", "values": {"Upper": 1, "lower": 2}, "dependencies": [{"name": "db"}], "sourceRef": {"httpRepository": {"url": "https://x"}}},
		"status": {"lastAttemptedRevision": "main@sha1:abc", "revision": 3}}`)
}

func TestAComponentAnswersToGoNamesAndToJSONNames(t *testing.T) {
	req := request("", "")
	req.Component = component()
	for expression, want := range map[string]string{
		"component.Status.LastAttemptedRevision":            "main@sha1:abc",
		"component.status.lastAttemptedRevision":            "main@sha1:abc",
		"component.Name":                                    "shop",
		"component.Namespace":                               "prod",
		"component.UID":                                     "u1",
		"component.metadata.uid":                            "u1",
		"component.ObjectMeta.Name":                         "shop",
		"component.Labels.team":                             "blue",
		`index component.Annotations "a/b"`:                 "c",
		"component.Generation":                              "7",
		"component.Kind":                                    "Component",
		"component.APIVersion":                              "core.cs.sap.com/v1alpha1",
		"component.Spec.Path":                               "deploy",
		"component.Spec.Revision":                           "",
		"component.Spec.Suspend":                            "false",
		"component.Status.LastAppliedRevision":              "",
		"component.Status.ObservedGeneration":               "0",
		"component.Spec.SourceRef.HttpRepository.URL":       "https://x",
		"(index component.Spec.Dependencies 0).Name":        "db",
		"component.Spec.Values | toJson":                    `{"Upper":1,"lower":2}`,
		"component.Spec.Dependencies | toJson":              `[{"name":"db"}]`,
		"toJson component.Labels":                           `{"team":"blue"}`,
		`eq component.Status.LastAppliedRevision ""`:        "true",
		`get component.spec "path"`:                         "deploy",
		`component.Status.LastAttemptedRevision | trunc 4`:  "main",
		"range $k, $v := component.Labels }}{{ $k }}{{ end": "team",
	} {
		if got := evaluate(t, req, tree{}, expression); got != want {
			t.Errorf("%s is %q, not %q", expression, got, want)
		}
	}
}

func TestWhatAComponentLacksCanBeAskedForAllTheSame(t *testing.T) {
	req := request("", "")
	req.Component = json.RawMessage(`{"metadata": {"name": "shop"}}`)
	for expression, want := range map[string]string{
		"component.Labels.team":                            "",
		"component.metadata.annotations.note":              "",
		`index component.Annotations "a/b"`:                "",
		`if component.Labels }}yes{{ else }}no{{ end`:      "no",
		`range component.Annotations }}x{{ else }}-{{ end`: "-",
		"component.Spec.Path":                              "",
		"len component.Status.Conditions":                  "0",
		"len component.status.inventory":                   "0",
		"len component.Spec.Dependencies":                  "0",
		"len component.spec.valuesFrom":                    "0",
		"len component.Spec.AdditionalManagedTypes":        "0",
		"len component.Finalizers":                         "0",
		"len component.OwnerReferences":                    "0",
		"component.metadata | toJson":                      `{"name":"shop"}`,
	} {
		if got := evaluate(t, req, tree{}, expression); got != want {
			t.Errorf("%s is %q, not %q", expression, got, want)
		}
	}
}

func TestTemplatesKnowTheRenderingAndTheCluster(t *testing.T) {
	req := request("", "")
	req.Cluster = wire.Cluster{
		Version:      map[string]any{"major": "1", "minor": "36", "gitVersion": "v1.36.3", "gitCommit": "abc", "platform": "linux/amd64"},
		APIResources: json.RawMessage(`[{"GroupVersion": "v1", "APIResources": [{"Name": "pods", "Kind": "Pod", "Namespaced": true, "Verbs": ["get", "list"]}]}]`),
	}
	for expression, want := range map[string]string{
		"namespace": "prod", "name": "shop", "componentDigest": "d1", "componentRevision": "3", "add componentRevision 1": "4",
		"kubernetesVersion": "v1.36.3", "kubernetesVersion.GitVersion": "v1.36.3", "kubernetesVersion.Minor": "36",
		"kubernetesVersion.GitCommit": "abc", "kubernetesVersion.Platform": "linux/amd64",
		`semverCompare ">=1.30" (kubernetesVersion | toString)`:                                            "true",
		"range apiResources }}{{ .GroupVersion }} {{ range .APIResources }}{{ .Kind }}{{ end }}{{ end":     "v1 Pod",
		`range apiResources }}{{ range .APIResources }}{{ .Name }} {{ has "list" .Verbs }}{{ end }}{{ end`: "pods true",
		"component.Name": "",
	} {
		if got := evaluate(t, req, tree{}, expression); got != want {
			t.Errorf("%s is %q, not %q", expression, got, want)
		}
	}
}

func TestTemplatesReadFilesThatTheyAreNotPartOf(t *testing.T) {
	files := tree{
		"conf/d/x.txt": "X", "conf/d/sub/y.txt": "Y", "conf/ignored.txt": "still here", ".component-ignore": "conf\n",
		"a.txt": "A", "b.md": "B",
	}
	for expression, want := range map[string]string{
		`readFile "conf/d/x.txt" | toString`:                             "X",
		`readFile "./conf/../a.txt" | toString`:                          "A",
		`readFile "conf/ignored.txt" | toString`:                         "still here",
		`existsFile "conf/d/x.txt"`:                                      "true",
		`existsFile "conf/d"`:                                            "false",
		`existsFile "nope"`:                                              "false",
		`listFiles "conf/d/**/*.txt" | join ","`:                         "conf/d/sub/y.txt",
		`listFiles "conf/d/**.txt" | join ","`:                           "conf/d/sub/y.txt,conf/d/x.txt",
		`listFiles "conf/d/*.txt" | join ","`:                            "conf/d/x.txt",
		`listFiles "{a.txt,b.md}" | join ","`:                            "a.txt,b.md",
		`listFiles "nothing*" | len`:                                     "0",
		`range listFiles "conf/d/*" }}{{ readFile . | toString }}{{ end`: "X",
	} {
		if got := evaluate(t, request("", ""), files, expression); got != want {
			t.Errorf("%s is %q, not %q", expression, got, want)
		}
	}
}

func TestValuesLieOverThoseOfTheConfiguration(t *testing.T) {
	files := tree{".component-config.yaml": "values:\n  a: {x: 1, z: 2, list: [1, 2]}\n  b: kept\n  c: {deep: true}\n  big: 12345678\n"}
	req := request("", `{"a": {"z": 3, "list": [9]}, "c": "scalar", "d": null}`)
	same(t, evaluate(t, req, files, "toJson ."),
		`{"a":{"list":[9],"x":1,"z":3},"b":"kept","big":12345678,"c":"scalar","d":null}`)
}

func TestTemplatesCannotChangeTheValuesOfTheRequest(t *testing.T) {
	req := request("", `{"map": {"a": 1}}`)
	evaluate(t, req, tree{}, `set .map "b" 2 | len`)
	same(t, req.Values, map[string]any{"map": map[string]any{"a": 1}})
}

func TestWhatIsMissingPrintsAsNothing(t *testing.T) {
	for _, expression := range []string{".nothing", "index . \"nothing\"", `include "x" .`, `tpl "{{ .nothing }}" .`} {
		got := evaluate(t, request("", ""), tree{"_x.yaml": `{{ define "x" }}{{ .nothing }}{{ end }}`, ".component-ignore": "none"}, expression)
		if got != "" {
			t.Errorf("%s printed %q", expression, got)
		}
	}
}

func TestIntegersPassWhereFloatsWereWritten(t *testing.T) {
	req := request("", `{"n": 2, "big": 1000000, "f": 1.5}`)
	for expression, want := range map[string]string{
		"gt .n 1.0": "true", "gt .n 1": "true", "lt .n .f": "false", "ge .n 2.0": "true", "le .f .n": "true", "eq .n 2": "true", "eq .n 2.0": "true",
		"eq .n 1 2 3": "true", "ne .n 2.0": "false", `eq .nothing ""`: "false", "eq .nothing nil": "true", `lt "a" "b"`: "true",
		`printf "%.0f %d %s %v%%" .big .big "x" .f`: "1000000 1000000 x 1.5%", `printf "%05.1f|%e" .n .n`: "002.0|2.000000e+00",
		".big": "1000000", "mul .n 3": "6", "mulf .n 1.5": "3", "max .n 5": "5", "until (int .n) | len": "2", "eq true true": "true",
	} {
		if got := evaluate(t, req, tree{}, expression); got != want {
			t.Errorf("%s is %q, not %q", expression, got, want)
		}
	}
}

func TestTemplatesShareDefinitionsAndKeepTheirNames(t *testing.T) {
	files := tree{
		".component-config.yaml": "templateSuffix: .tpl\nleftTemplateDelimiter: '<%'\nrightTemplateDelimiter: '%>'\n",
		"a.yaml.tpl":             configMap("a", `'<% include "shared" . %> <% template "shared" . %> {{ untouched }}'`),
		"z.tpl":                  `<% define "shared" %><% .v %><% end %>`,
		"plain.yaml":             configMap("plain", "'<% not a template %>'"),
	}
	found := render(t, files, "", `{"v": "x"}`)
	same(t, names(found), []string{"ConfigMap/a", "ConfigMap/plain"})
	same(t, value(t, found), "x x {{ untouched }}")
	same(t, value(t, found[1:]), "<% not a template %>")
}

func TestATemplateFailsWithItsPlace(t *testing.T) {
	for name, test := range map[string]struct {
		files        tree
		file         string
		line, column int
		text         string
	}{
		"parse": {tree{"k/a.yaml": "a: 1\nb: {{ nope }}\n"}, "k/a.yaml", 2, 0, `k/a.yaml: function "nope" not defined`},
		"run":   {tree{"k/a.yaml": "a: 1\nb: {{ fail \"because\" }}\n"}, "k/a.yaml", 2, 7, "k/a.yaml: because"},
		"include": {tree{"k/a.yaml": "{{ include \"x\" . }}", "k/b/_x.tpl": "{{ define \"x\" }}\n\n {{ required \"v is needed\" .v }}{{ end }}"},
			"k/b/_x.tpl", 3, 5, "k/b/_x.tpl: v is needed"},
		"tpl":      {tree{"k/a.yaml": "{{ tpl \"{{ nope }}\" . }}"}, "k/a.yaml", 1, 4, `k/a.yaml: function "nope" not defined`},
		"unclosed": {tree{"k/a.yaml": "a: {{ if true }}\n"}, "k/a.yaml", 2, 0, "unexpected EOF"},
		"readFile": {tree{"k/a.yaml": "a: {{ readFile \"../b\" }}\n", "b": "x"}, "k/a.yaml", 1, 7, `there is no file "../b" below`},
		"lookup":   {tree{"k/a.yaml": `a: {{ lookup "v1" "Pod" "a" "b" }}`}, "k/a.yaml", 1, 7, "no cluster can be asked here"},
	} {
		t.Run(name, func(t *testing.T) {
			failure := fails(t, test.files, "k", "")
			if failure.Kind != wire.TemplateFailed || failure.File != test.file || failure.Line != test.line || failure.Column != test.column ||
				!strings.Contains(failure.Message, test.text) {
				t.Errorf("%+v", *failure)
			}
		})
	}
}

func TestARecursionWithoutAnEndIsNamed(t *testing.T) {
	for _, text := range []string{
		`{{ define "x" }}{{ include "x" . }}{{ end }}{{ include "x" . }}`,
		`{{ tpl .t . }}`,
	} {
		failure := fails(t, tree{"a.yaml": text}, "", `{"t": "{{ tpl .t . }}"}`)
		if failure.Kind != wire.LimitExceeded || len(failure.Message) > 300 || failure.File != "a.yaml" {
			t.Errorf("%s: %+v", text, *failure)
		}
	}
}

func TestARecursionOfTemplateWithoutAnEndFails(t *testing.T) {
	failure := fails(t, tree{"a.yaml": `{{ define "x" }}{{ template "x" . }}{{ end }}{{ template "x" . }}`}, "", "")
	if !strings.Contains(failure.Message, "exceeded maximum template depth") || failure.File != "a.yaml" {
		t.Errorf("%+v", *failure)
	}
}

func TestARecursionWithAnEndWorks(t *testing.T) {
	text := `{{ define "list" }}{{ range . }}({{ template "list" . }}){{ end }}{{ end }}{{ template "list" .t }}`
	same(t, value(t, render(t, tree{"a.yaml": configMap("a", "'"+text+"'")}, "", `{"t": [[[]], []]}`)), "(())()")
}

func TestTemplatesHaveNoWayOut(t *testing.T) {
	for _, name := range []string{"env", "expandenv", "getHostByName"} {
		failure := fails(t, tree{"a.yaml": "{{ " + name + ` "HOME" }}`}, "", "")
		if !strings.Contains(failure.Message, "not defined") {
			t.Errorf("%+v", *failure)
		}
	}
}

// answers is a parent that knows nothing.
type answers struct{}

func (answers) Ask(method string, args map[string]any) (json.RawMessage, bool, error) {
	switch {
	case args["kind"] == "Nope":
		return nil, false, &wire.NoSuchKind{APIVersion: "x/v1", Kind: "Nope"}
	case args["kind"] == "Broken":
		return nil, false, &wire.Error{Kind: wire.LookupFailed, Message: "forbidden"}
	default:
		return nil, false, nil
	}
}

func TestAFailedLookupIsALookupThatFailed(t *testing.T) {
	for kind, want := range map[string]string{"Nope": wire.TemplateFailed, "Broken": wire.LookupFailed} {
		_, err := Render(request("", ""), tree{"a.yaml": `{{ lookup "x/v1" "` + kind + `" "" "n" }}`}.files(), answers{}, wire.Uses{})
		var failure *wire.Error
		if !errors.As(err, &failure) || failure.Kind != want || failure.File != "a.yaml" {
			t.Errorf("%s: %v", kind, err)
		}
	}
}
