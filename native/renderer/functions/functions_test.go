package functions

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"text/template"

	"stellwerk/renderer/wire"
)

// run executes one template with everything a template may call.
func run(t *testing.T, env Environment, text string, values any) (string, error) {
	t.Helper()
	set := template.New("main").Option("missingkey=zero")
	Bind(set, Map(env))
	if _, err := set.Parse(text); err != nil {
		return "", err
	}
	return Execute(set, values)
}

func values(text string) any {
	value, err := Decode([]byte(text))
	if err != nil {
		panic(err)
	}
	return value
}

func TestFunctionsMeanWhatTheyAlwaysMeant(t *testing.T) {
	data := values(`{"n": 1000000, "f": 2.5, "s": "text", "m": {"b": 1, "a": [1, "x"]}, "e": {}, "html": "<&>"}`)
	for text, want := range map[string]string{
		`{{ bitwiseShiftLeft 2 3 }}`:                                      "12",
		`{{ bitwiseShiftRight 2 14 }}`:                                    "3",
		`{{ bitwiseAnd 14 3 }}`:                                           "2",
		`{{ bitwiseOr 14 3 }}`:                                            "15",
		`{{ bitwiseXor 14 3 }}`:                                           "13",
		`{{ bitwiseAnd 15 14 12 }}`:                                       "12",
		`{{ 3 | bitwiseShiftLeft 2 }}`:                                    "12",
		`{{ bitwiseShiftLeft 64 1 }}`:                                     "0",
		`{{ printf "%#x" (parseIPv4Address "1.2.3.4") }}`:                 "0x1020304",
		`{{ formatIPv4Address 16909060 }}`:                                "1.2.3.4",
		`{{ formatIPv4Address (add 1 (parseIPv4Address "10.0.0.255")) }}`: "10.0.1.0",
		`{{ required "x" 0 }}{{ required "x" false }}`:                    "0false",
		`{{ toYaml .m }}`:                                                 "a:\n- 1\n- x\nb: 1",
		`{{ toYaml .n }}`:                                                 "1000000",
		`{{ toJson .html }}`:                                              `"\u003c\u0026\u003e"`,
		`{{ toRawJson .html }}`:                                           `"<&>"`,
		`{{ toPrettyJson .m }}`:                                           "{\n  \"a\": [\n    1,\n    \"x\"\n  ],\n  \"b\": 1\n}",
		`{{ (fromYaml "a: {b: 5000000}").a.b }}`:                          "5000000",
		`{{ fromYaml "7" }} {{ fromYaml "x" }} {{ fromYaml "[1]" }}`:      "7 x [1]",
		`{{ fromYamlArray "- 1\n- 2" | len }}`:                            "2",
		`{{ (fromJson "{\"a\": 12345678}").a }}`:                          "12345678",
		`{{ fromJsonArray "[1,2]" | len }}`:                               "2",
		`{{ (fromToml "a = 1\n[b]\nc = 'x'").b.c }}`:                      "x",
		`{{ toToml .e }}{{ toToml (dict "a" 1) }}`:                        "a = 1\n",
		`{{ mustToYaml .m | mustFromYaml | mustToJson }}`:                 `{"a":[1,"x"],"b":1}`,
		`{{ mustToPrettyJson 1 }}{{ mustToRawJson 2 }}{{ mustFromJson "3" }}{{ mustFromJsonArray "[4]" }}{{ mustFromYamlArray "[5]" }}`: "123[4][5]",
		`{{ mustToToml (dict "a" 1) | mustFromToml | toJson }}`:                                                                         `{"a":1}`,
		`{{ .n }} {{ .f }} {{ print .n }} {{ printf "%d" .n }}`:                                                                         "1000000 2.5 1000000 1000000",
		`{{ "a" | upper }}{{ "x" | repeat 3 }}{{ list 1 2 | join "-" }}`:                                                                "Axxx1-2",
		`{{ .s | quote }}{{ nindent 2 "a" }}{{ default "d" .missing }}`:                                                                 "\"text\"\n  ad",
		`{{ .missing }}{{ .m.missing }}`:                                                                                                "",
		`{{ include "x" . }}{{ define "x" }}[{{ .s }}{{ .missing }}]{{ end }}`:                                                          "[text]",
		`{{ tpl "{{ .s }}{{ .missing }}" . }}`:                                                                                          "text",
		`{{ tpl "{{ define \"y\" }}Y{{ end }}{{ include \"y\" . }}{{ template \"y\" }}" . }}`:                                           "YY",
		`{{ tpl "{{ include \"x\" . }}" . }}{{ define "x" }}[{{ .s }}]{{ end }}`:                                                        "[text]",
		`{{ until 3 | toJson }}{{ untilStep 5 0 -2 | toJson }}{{ seq 1 3 }}`:                                                            "[0,1,2][5,3,1]1 2 3",
		`{{ set (dict "a" 1) "b" 2 | toJson }}{{ merge (dict "a" 1) (dict "a" 2 "b" 3) | toJson }}`:                                     `{"a":1,"b":2}{"a":1,"b":3}`,
		`{{ concat (list 1) (list 2) | toJson }}{{ cat "a" "b" }}{{ replace "a" "b" "aa" }}`:                                            "[1,2]a bbb",
		`{{ regexReplaceAll "(a)b" "abab" "${1}c" }}{{ splitList "," "a,b" | toJson }}{{ wrapWith 2 "-" "abcd" }}`:                      `acac["a","b"]ab-cd`,
		`{{ len (randAlphaNum 5) }}{{ len (bcrypt "x") }}`:                                                                              "560",
	} {
		got, err := run(t, Environment{}, text, data)
		if err != nil || got != want {
			t.Errorf("%s is %q (%v), not %q", text, got, err, want)
		}
	}
}

func TestWhatIsWrongFails(t *testing.T) {
	for text, want := range map[string]string{
		`{{ required "v is needed" .missing }}`: "v is needed",
		`{{ required "v is needed" "" }}`:       "v is needed",
		`{{ fromYaml "a: [" }}`:                 "yaml",
		`{{ fromJson "{" }}`:                    "unexpected end",
		`{{ fromJson "1 2" }}`:                  "after top-level value",
		`{{ fromYamlArray "a: 1" }}`:            "a list is expected, not a mapping",
		`{{ fromJsonArray "1" }}`:               "a list is expected, not a number",
		`{{ fromToml "= 1" }}`:                  "toml",
		`{{ parseIPv4Address "::1" }}`:          "no IPv4 address",
		`{{ parseIPv4Address "1.2.3" }}`:        "no IPv4 address",
		`{{ formatIPv4Address 4294967296 }}`:    "whole number",
		`{{ formatIPv4Address "x" }}`:           "whole number",
		`{{ bitwiseAnd 1 "x" }}`:                "whole number",
		`{{ bitwiseShiftLeft -1 1 }}`:           "whole number",
		`{{ include "nope" . }}`:                `there is no template "nope"`,
		`{{ tpl "{{" . }}`:                      "unclosed action",
		`{{ fail "because" }}`:                  "because",
	} {
		if got, err := run(t, Environment{}, text, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s gives %q, %v", text, got, err)
		}
	}
}

func TestTemplatesCannotReachTheMachine(t *testing.T) {
	all := Map(Environment{})
	for _, name := range []string{"env", "expandenv", "getHostByName"} {
		if all[name] != nil {
			t.Errorf("%s is there", name)
		}
	}
}

func TestOneRenderingDoesNotChangeTheFunctionsOfAnother(t *testing.T) {
	one := Map(Environment{})
	delete(one, "repeat")
	one["upper"] = nil
	if other := Map(Environment{}); other["repeat"] == nil || other["upper"] == nil {
		t.Error("the functions are shared")
	}
}

func TestSharedValuesMayBePutIntoEachOther(t *testing.T) {
	got, err := run(t, Environment{}, `{{ $x := dict "v" 1 }}{{ range until 60 }}{{ $x = dict "a" $x "b" $x }}{{ end }}{{ $d := dict }}{{ set $d "x" $x | len }}`, nil)
	if err != nil || got != "1" {
		t.Errorf("%q, %v", got, err)
	}
}

// parent answers lookups of two ConfigMaps and notes what it was asked.
type parent struct{ asked []map[string]any }

func (p *parent) Ask(method string, args map[string]any) (json.RawMessage, bool, error) {
	p.asked = append(p.asked, args)
	switch {
	case args["kind"] == "Nope":
		return nil, false, &wire.NoSuchKind{APIVersion: "v1", Kind: "Nope"}
	case method == "lookupList" && args["namespace"] == "whole":
		return json.RawMessage(`{"kind": "ConfigMapList", "items": [{"n": 1}]}`), true, nil
	case method == "lookupList":
		return json.RawMessage(`[{"n": 1000000}, {"n": 2}]`), true, nil
	case args["name"] == "there":
		return json.RawMessage(`{"metadata": {"name": "there"}, "n": 1000000}`), true, nil
	case args["name"] == "list":
		return json.RawMessage(`[1]`), true, nil
	default:
		return nil, false, nil
	}
}

func TestLookupsAreAnsweredByTheParent(t *testing.T) {
	for text, want := range map[string]string{
		`{{ (lookup "v1" "ConfigMap" "n" "there").n }}`:                        "1000000",
		`{{ lookup "v1" "ConfigMap" "n" "gone" | len }}`:                       "0",
		`{{ (mustLookup "v1" "ConfigMap" "n" "there").metadata.name }}`:        "there",
		`{{ lookupList "v1" "ConfigMap" "n" "a=b" | len }}`:                    "2",
		`{{ (index (lookupList "v1" "ConfigMap" "n" "") 0).n }}`:               "1000000",
		`{{ lookupList "v1" "ConfigMap" "whole" "" | len }}`:                   "1",
		`{{ (localLookup "v1" "ConfigMap" "n" "there").n }}`:                   "1000000",
		`{{ (mustLocalLookup "v1" "ConfigMap" "n" "there").n }}`:               "1000000",
		`{{ localLookupList "v1" "ConfigMap" "n" "" | len }}`:                  "2",
		`{{ (lookupWithKubeConfig "v1" "ConfigMap" "n" "there" "kc").n }}`:     "1000000",
		`{{ (mustLookupWithKubeConfig "v1" "ConfigMap" "n" "there" "kc").n }}`: "1000000",
		`{{ lookupListWithKubeConfig "v1" "ConfigMap" "n" "" "kc" | len }}`:    "2",
	} {
		asked, uses := &parent{}, wire.Uses{}
		got, err := run(t, Environment{Ask: asked, Uses: uses}, text, nil)
		if err != nil || got != want || !uses["lookup"] {
			t.Errorf("%s is %q (%v), noted %v", text, got, err, uses)
		}
		where := "target"
		if strings.Contains(text, "ocalLookup") {
			where = "local"
		} else if strings.Contains(text, "KubeConfig") {
			where = "kubeconfig"
		}
		if asked.asked[0]["where"] != where || (where == "kubeconfig") != (asked.asked[0]["kubeconfig"] == "kc") {
			t.Errorf("%s asked %v", text, asked.asked[0])
		}
	}
}

func TestALookupFailsWhereNothingCanBeSaid(t *testing.T) {
	for text, want := range map[string]string{
		`{{ mustLookup "v1" "ConfigMap" "n" "gone" }}`: "ConfigMap n/gone was not found",
		`{{ mustLookup "v1" "Node" "" "gone" }}`:       "Node gone was not found",
		`{{ lookup "v1" "Nope" "n" "x" }}`:             "the cluster serves no kind Nope of v1",
		`{{ lookupList "v1" "Nope" "n" "" }}`:          "the cluster serves no kind Nope of v1",
		`{{ lookup "v1" "ConfigMap" "n" "list" }}`:     "is no object",
	} {
		if _, err := run(t, Environment{Ask: &parent{}, Uses: wire.Uses{}}, text, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := run(t, Environment{}, `{{ lookup "v1" "ConfigMap" "n" "x" }}`, nil); err == nil {
		t.Error("a lookup without a parent succeeded")
	}
}

func TestTheCauseOfAFailureSurvivesTheTemplates(t *testing.T) {
	cause := &wire.Error{Kind: wire.LookupFailed, Message: "forbidden"}
	_, err := run(t, Environment{Ask: refusing{cause}}, `{{ define "x" }}{{ lookup "v1" "ConfigMap" "n" "x" }}{{ end }}{{ include "x" . }}`, nil)
	var known *wire.Error
	if !errors.As(err, &known) || known != cause {
		t.Errorf("%v", err)
	}
}

type refusing struct{ cause error }

func (r refusing) Ask(string, map[string]any) (json.RawMessage, bool, error) {
	return nil, false, r.cause
}

func FuzzTemplates(f *testing.F) {
	for _, text := range []string{
		`{{ define "x" }}{{ template "x" . }}{{ end }}{{ include "x" . }}`, `{{ range until 5 }}{{ . | toYaml }}{{ end }}`,
		`{{ $d := dict "a" (list 1 2) }}{{ $d | toJson | fromJson | toToml }}`, `{{ tpl "{{ .s | repeat 3 }}" . }}`,
		`{{ printf "%v %s %d" .s 1 .n | splitList "," | join "-" | indent 3 }}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "range") && strings.ContainsAny(text, "0123456789") && len(text) > 200 {
			t.Skip("loops end by the budget of the process")
		}
		_, _ = run(t, Environment{}, text, values(`{"n": 3, "s": "text", "m": {"a": [1]}}`))
	})
}

func TestWhatDoesNotAlwaysMakeTheSameIsRecorded(t *testing.T) {
	for text, want := range map[string]bool{
		`{{ randAlphaNum 8 }}`:          true,
		`{{ uuidv4 }}`:                  true,
		`{{ now }}`:                     true,
		`{{ date "2006" 0 }}`:           true,
		`{{ genPrivateKey "ed25519" }}`: true,
		`{{ (genCA "ca" 1).Cert }}`:     true,
		`{{ (genSelfSignedCert "a" (list "1.2.3.4") nil 1).Cert }}`: true,
		`{{ bcrypt "a" }}`:                         true,
		`{{ htpasswd "a" "b" }}`:                   true,
		`{{ shuffle "abc" }}`:                      true,
		`{{ randInt 1 9 }}`:                        true,
		`{{ tpl "{{ randBytes 4 }}" . }}`:          true,
		`{{ if false }}{{ randAlpha 3 }}{{ end }}`: false,
		`{{ sha256sum "a" | upper | trunc 3 }}`:    false,
	} {
		uses := wire.Uses{}
		if _, err := run(t, Environment{Uses: uses}, text, nil); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if uses["chance"] != want {
			t.Errorf("%s: recorded %v", text, uses)
		}
	}
}

func TestReadingTheClockIsRecordedAndMakingACertificateIsNot(t *testing.T) {
	for text, want := range map[string]bool{
		`{{ now }}`:                              true,
		`{{ ago now }}`:                          true,
		`{{ date "2006" nil }}`:                  true,
		`{{ dateInZone "2006" nil "UTC" }}`:      true,
		`{{ date_in_zone "2006" nil "UTC" }}`:    true,
		`{{ htmlDate nil }}`:                     true,
		`{{ htmlDateInZone nil "UTC" }}`:         true,
		`{{ tpl "{{ now }}" . }}`:                true,
		`{{ if false }}{{ now }}{{ end }}`:       false,
		`{{ (genCA "ca" 1).Cert }}`:              false,
		`{{ randAlphaNum 8 }}`:                   false,
		`{{ toDate "2006-01-02" "2026-07-01" }}`: false,
	} {
		uses := wire.Uses{}
		if _, err := run(t, Environment{Uses: uses}, text, nil); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if uses["clock"] != want {
			t.Errorf("%s: recorded %v", text, uses)
		}
	}
}

func TestAFunctionThatIsRecordedFailsAsBefore(t *testing.T) {
	_, err := run(t, Environment{Uses: wire.Uses{}}, `{{ genSelfSignedCert "a" (list "x") nil 1 }}`, nil)
	if err == nil || !strings.Contains(err.Error(), "error calling genSelfSignedCert: error parsing ip: x") {
		t.Errorf("%v", err)
	}
}
