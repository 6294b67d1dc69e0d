package afterwards

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/drone/envsubst"

	"stellwerk/renderer/objects"
	"stellwerk/renderer/wire"
)

const prefix = "component-operator.cs.sap.com"

func configMap(data map[string]any) objects.Object {
	return objects.Object{Origin: "a.yaml", Body: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c", "namespace": "n"}, "data": data,
	}}
}

func substituted(t *testing.T, text string, variables map[string]string) (any, error) {
	t.Helper()
	found, err := Apply([]objects.Object{train(map[string]any{"key": text})}, wire.PostBuild{Substitute: variables}, prefix)
	if err != nil {
		return nil, err
	}
	return found[0].Body["spec"].(map[string]any)["key"], nil
}

// train is an object whose fields have any type.
func train(spec map[string]any) objects.Object {
	return objects.Object{Origin: "a.yaml", Body: map[string]any{
		"apiVersion": "rail.example.com/v1", "kind": "Train", "metadata": map[string]any{"name": "c", "namespace": "n"}, "spec": spec,
	}}
}

func failure(t *testing.T, err error) *wire.Error {
	t.Helper()
	var known *wire.Error
	if !errors.As(err, &known) {
		t.Fatalf("a *wire.Error is expected, not %v", err)
	}
	return known
}

func same(t *testing.T, got, want any) {
	t.Helper()
	one, _ := json.Marshal(got)
	other, _ := json.Marshal(want)
	if string(one) != string(other) {
		t.Errorf("got  %s\nwant %s", one, other)
	}
}

var variables = map[string]string{
	"v": "Value", "n": "42", "b": "true", "lower": "abc", "path": "/usr/local/bin", "empty": "", "dollar": "${v}", "word_1": "w", "größe": "XL",
	"null": "~", "float": "1.50",
}

func TestEachFormOfSubstitutionHasItsMeaning(t *testing.T) {
	for text, want := range map[string]any{
		"x ${v} y":                  "x Value y",
		"${word_1}${größe}":         "wXL",
		"$v stays":                  "$v stays",
		"$ stays, at the end too $": "$ stays, at the end too $",
		"$${v}":                     "${v}",
		"a $$ b $$$ c":              "a $$ b $$$ c",
		"a $$ b $$$ c ${v}":         "a $ b $$ c Value",
		"$$${v}":                    "$Value",
		"$$$${v}":                   "$${v}",
		`a\\b \/ \n \${v}`:          `a\\b \/ \n \Value`,
		"${#v}":                     5,
		"${lower^}":                 "Abc",
		"${lower^^}":                "ABC",
		"${v,}":                     "value",
		"${v,,}":                    "value",
		"${v:1}":                    "alue",
		"${v:1:3}":                  "alu",
		"${v:-3}":                   "Value", // a default, not a position
		"${v:x}":                    "Value",
		"${v:9}":                    nil,
		"${v:1:99}":                 "alue",
		"${path#*/}":                "usr/local/bin",
		"${path##*/}":               "bin",
		"${path%/*}":                "/usr/local",
		"${path/usr/opt}":           "/opt/local/bin",
		"${path//\\//-}":            "-usr-local-bin",
		"${path/#\\/usr/X}":         "X/local/bin",
		"${path/%bin/sbin}":         "/usr/local/sbin",
		"${nope=d}":                 "d",
		"${nope:=d}":                "d",
		"${nope:-d e}":              "d e",
		"${nope:?d}":                "d",
		"${nope:+d}":                "d",
		"${empty:-d}":               "d",
		"${v:-d}":                   "Value",
		"${nope:-${v}}":             "Value",
		"${nope:-a${v}b${n}}":       "aValueb42",
		"${nope:-${other:-${v}}}":   "Value",
		"x${nope}y":                 "xy",
		"${nope}":                   nil,
		"${n}":                      42,
		"${b}":                      true,
		"${null}":                   nil,
		"${float}":                  "1.50",
		"${nope:-1.5}":              1.5,
		"${nope:-0777001}":          "0777001",
		"${nope:-72044e0}":          "72044e0",
		"${nope:-off}":              "off",
		"${nope:-22:22}":            "22:22",
		"${nope:-2026-01-05}":       "2026-01-05",
		"${nope:-[1, a]}":           []any{1, "a"},
		"1${n}":                     142,
		"-${n}":                     -42,
		"'${v}'":                    "'Value'",
		"${nope:-\"0777001\"}":      "0777001", // the way of Flux
		"${nope:-# no comment}":     "# no comment",
		"${nope:-a: b #c}":          "a: b #c",
		"'${n}'":                    "'42'",
		"n=${n}":                    "n=42",
		"${dollar}":                 nil, // the text ${v} is a mapping to YAML? see below
		"{${v}}":                    "{Value}",
		"}{ ${v} }":                 "}{ Value }",
		"line\n${v}\n":              "line\nValue\n",
		"tab\t\"${v}\"":             "tab\t\"Value\"",
		"${v}":                      "Value",
	} {
		if text == "${dollar}" {
			want = "${v}" // what a variable brings is not substituted again
		}
		got, err := substituted(t, text, variables)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		t.Run(text, func(t *testing.T) { same(t, got, want) })
	}
}

func TestWhatIsNoSubstitutionIsAnError(t *testing.T) {
	for text, want := range map[string]string{
		"${v-d}": "missing closing brace", "${a.b}": "missing closing brace", "${v": "missing closing brace", "a\n${v\nb": "missing closing brace",
		"${v^x}": "bad substitution", "${}": "variable name", "${ v }": "variable name", "${v:-${w}": "substitution", "${1.}": "missing closing brace",
		"${v:0:-1}": "position or length", "${v:2:-5}": "position or length",
	} {
		_, err := substituted(t, text, variables)
		problem := failure(t, err)
		if problem.Kind != wire.SubstituteFailed || problem.File != "a.yaml" || !strings.Contains(problem.Message, want) ||
			!strings.HasPrefix(problem.Message, "Train n/c (a.yaml): ${") || !strings.Contains(problem.Message, prefix+`/disableSubstitution: "true"`) {
			t.Errorf("%q: %+v", text, *problem)
		}
	}
}

func TestWithoutVariablesTextStaysAsItIs(t *testing.T) {
	for _, none := range []map[string]string{nil, {}} {
		got, err := substituted(t, `${v} $$ \\ ${broken`, none)
		if err != nil || got != `${v} $$ \\ ${broken` {
			t.Errorf("%v, %v", got, err)
		}
	}
}

func TestAnObjectMayOptOut(t *testing.T) {
	object := configMap(map[string]any{"key": `${v} \\ ${broken`})
	object.Body["metadata"].(map[string]any)["annotations"] = map[string]any{prefix + "/disableSubstitution": "true"}
	found, err := Apply([]objects.Object{object}, wire.PostBuild{Substitute: variables}, prefix)
	if err != nil {
		t.Fatal(err)
	}
	same(t, found[0].Body, object.Body)
}

func TestKeysAndNestedTextsAreSubstitutedToo(t *testing.T) {
	found, err := Apply([]objects.Object{train(map[string]any{"${v}": []any{map[string]any{"deep": "${n}"}}, "same": 7, "big": int64(12345678901234567)})},
		wire.PostBuild{Substitute: variables}, prefix)
	if err != nil {
		t.Fatal(err)
	}
	same(t, found[0].Body["spec"], map[string]any{"Value": []any{map[string]any{"deep": 42}}, "same": 7, "big": 12345678901234567})
}

func TestALongLineIsNotBrokenBeforeItIsSubstituted(t *testing.T) {
	text := strings.Repeat("word ", 60) + "${nope:-a " + strings.Repeat("default ", 40) + "b}"
	got, err := substituted(t, text, variables)
	if err != nil || got != strings.Repeat("word ", 60)+"a "+strings.Repeat("default ", 40)+"b" {
		t.Errorf("%v, %v", got, err)
	}
}

func TestAValueThatLooksLikeYAMLStaysText(t *testing.T) {
	for _, value := range []string{
		"a: b: c", "\"a", "- a\n b: c\n]", "*a", "[a", "x\n  kind: a\nkind: y", "&a b", "!!int 3", "a\n---\nb: c", "a\n...\nb: c", "a: b", "- a", "? a", "a #b",
		"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
	} {
		for _, text := range []string{"${v}", "x ${v}"} {
			got, err := substituted(t, text, map[string]string{"v": value})
			if want := strings.Replace(text, "${v}", value, 1); err != nil || got != want {
				t.Errorf("%q becomes %q (%v)", want, got, err)
			}
		}
	}
}

// quoted are texts as a file has them, and what they become.
func TestTextInQuotesStaysTextWhateverAVariableBrings(t *testing.T) {
	values := map[string]string{"acct": "0777001", "n": "2", "flag": "on", "ver": "1.10", "exp": "72044e0", "nul": "null", "yes": "true", "list": "[a]", "ended": "2\n", "none": ""}
	for name := range values {
		text := "apiVersion: rail.example.com/v1\nkind: Train\nmetadata: {name: c}\nspec:\n  a: \"${" + name + "}\"\n  b: ['${" + name + "}']\n  c: |-\n    ${" + name +
			"}\n  d: >-\n    ${" + name + "}\n  e: {f: [{g: \"${" + name + "}\"}]}\n"
		for _, text := range []string{text, "apiVersion: v1\nkind: List\nitems:\n- kind: A\n  apiVersion: v1\n- " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ") + "\n"} {
			found, err := objects.Parse("a.yaml", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			found, err = Apply(found, wire.PostBuild{Substitute: values}, prefix)
			if err != nil {
				t.Fatal(err)
			}
			want := strings.TrimSuffix(values[name], "\n")
			same(t, found[len(found)-1].Body["spec"], map[string]any{
				"a": want, "b": []any{want}, "c": want, "d": want, "e": map[string]any{"f": []any{map[string]any{"g": want}}},
			})
		}
	}
}

func TestWhatHoldsTextOnlyIsText(t *testing.T) {
	object := configMap(map[string]any{"a": "${n}", "b": "${b}", "${n}": "${nope}"})
	object.Body["metadata"].(map[string]any)["labels"] = map[string]any{"a": "${n}"}
	object.Body["metadata"].(map[string]any)["annotations"] = map[string]any{"a": "${b}"}
	found, err := Apply([]objects.Object{object}, wire.PostBuild{Substitute: variables}, prefix)
	if err != nil {
		t.Fatal(err)
	}
	same(t, found[0].Body["data"], map[string]any{"a": "42", "b": "true", "42": ""})
	same(t, found[0].Body["metadata"], map[string]any{
		"name": "c", "namespace": "n", "labels": map[string]any{"a": "42"}, "annotations": map[string]any{"a": "true"},
	})
}

func TestJSONHasNumbersByVariablesToo(t *testing.T) {
	found, err := objects.Parse("a.json", []byte(`{"apiVersion": "rail.example.com/v1", "kind": "Train", "spec": {"n": "${n}"}}`))
	if err != nil {
		t.Fatal(err)
	}
	found, err = Apply(found, wire.PostBuild{Substitute: variables}, prefix)
	if err != nil {
		t.Fatal(err)
	}
	same(t, found[0].Body["spec"], map[string]any{"n": 42})
}

func TestTextWithoutAVariableStaysByteForByte(t *testing.T) {
	for _, text := range []string{
		`self.matches('^(0|[1-9]\\d*)\\.(0|[1-9]\\d*)$')`, "printf 'a\\\\nb'\nsed -e 's/\\//_/g'\n", `{"url": "https:\/\/example.com", "re": "^\\d+$"}`, "echo $$ $PATH", `C:\\a\b`, "a: b", "0777001", "\\", "$",
	} {
		got, err := substituted(t, text, variables)
		if err != nil || got != text {
			t.Errorf("%q becomes %q (%v)", text, got, err)
		}
	}
}

func TestTwoKeysThatBecomeTheSameAreRefused(t *testing.T) {
	_, err := Apply([]objects.Object{train(map[string]any{"${v}": 1, "Value": 2})}, wire.PostBuild{Substitute: variables}, prefix)
	if problem := failure(t, err); problem.Kind != wire.SubstituteFailed || !strings.Contains(problem.Message, "two keys") {
		t.Error(problem)
	}
}

// TestALargeTextIsSubstitutedInSeconds has texts that take the library minutes.
func TestALargeTextIsSubstitutedInSeconds(t *testing.T) {
	for name, text := range map[string]string{
		"escapes":     strings.Repeat(`\\`, 1<<17),
		"dollars":     strings.Repeat("$$", 1<<17),
		"variables":   strings.Repeat("${v}", 1<<16),
		"nested":      strings.Repeat("${v:-", 1<<13) + strings.Repeat("}", 1<<13),
		"unclosed":    strings.Repeat("${v", 1<<16),
		"braces":      "${" + strings.Repeat("}", 1<<20),
		"defaults":    strings.Repeat("${nope:-${nope:-x}}", 1<<13),
		"errors":      strings.Repeat("${a.b} ", 1<<16),
		"half a line": strings.Repeat("}${", 1<<17),
	} {
		began := time.Now()
		_, err := substituted(t, text, map[string]string{"v": "x"})
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s takes %v (%v)", name, took, err)
		}
		if err != nil && len(err.Error()) > 1000 {
			t.Errorf("%s has a message of %d bytes", name, len(err.Error()))
		}
	}
}

// FuzzSubstitution compares with the library on the whole text, of which we only give it the pieces that it needs.
func FuzzSubstitution(f *testing.F) {
	for _, text := range []string{
		"a ${v} b", "$${v} $$$ \\\\ \\/ ${v:-${n}} }{", "${path//\\//-}${#v}${v^^}", "${v/a/b}${v:1:2}", "${nope:-a}b}c", "${v:-$}", "${v:-\\}}", "$$", "\\",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.ContainsRune(text, 0) || len(text) > 2000 {
			t.Skip("the library ends at a NUL, which YAML does not have")
		}
		if strings.Contains(text, `\`) || !strings.Contains(text, "${") {
			t.Skip("the library eats backslashes, and dollars of a text without a variable")
		}
		got, err := expand(text, variables)
		want, theirs := librarys(text)
		if theirs == nil && err == nil && got != want {
			t.Errorf("%q becomes %q, not %q", text, got, want)
		}
		var known *wire.Error
		if (theirs == nil) != (err == nil) && !errors.As(err, &known) {
			t.Errorf("%q: %v, but the library says %v", text, err, theirs)
		}
	})
}

func librarys(text string) (value string, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("%v", problem)
		}
	}()
	return envsubst.Eval(text, func(name string) string { return variables[name] })
}

func mustJSON(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return text
}

func TestCharactersThatYAMLLacksSurviveSubstitution(t *testing.T) {
	for _, one := range []string{"\x7f", "\u0085", "\u009f", "\ufeff", "\ufffe", "\uffff", "\u2028", "\x00", "\x1b", "\U0001f600", "\ufffd"} {
		got, err := substituted(t, "a"+one+"b ${v} "+one, variables)
		if err != nil || got != "a"+one+"b Value "+one {
			t.Errorf("%+q became %+q: %v", one, got, err)
		}
	}
}
