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
	found, err := Apply([]objects.Object{configMap(map[string]any{"key": text})}, wire.PostBuild{Substitute: variables}, prefix)
	if err != nil {
		return nil, err
	}
	return found[0].Body["data"].(map[string]any)["key"], nil
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
		"a $$ b $$$ c":              "a $ b $$ c",
		"$$${v}":                    "$Value",
		"$$$${v}":                   "$${v}",
		`a\\b \/ \n \${v}`:          `a\b / \n \Value`,
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
		"${float}":                  1.5,
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
			!strings.HasPrefix(problem.Message, "ConfigMap n/c (a.yaml): ${") || !strings.Contains(problem.Message, prefix+`/disableSubstitution: "true"`) {
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
	found, err := Apply([]objects.Object{configMap(map[string]any{"${v}": []any{map[string]any{"deep": "${n}"}}, "same": 7, "big": int64(12345678901234567)})},
		wire.PostBuild{Substitute: variables}, prefix)
	if err != nil {
		t.Fatal(err)
	}
	same(t, found[0].Body["data"], map[string]any{"Value": []any{map[string]any{"deep": 42}}, "same": 7, "big": 12345678901234567})
}

func TestALongLineIsNotBrokenBeforeItIsSubstituted(t *testing.T) {
	text := strings.Repeat("word ", 60) + "${nope:-a " + strings.Repeat("default ", 40) + "b}"
	got, err := substituted(t, text, variables)
	if err != nil || got != strings.Repeat("word ", 60)+"a "+strings.Repeat("default ", 40)+"b" {
		t.Errorf("%v, %v", got, err)
	}
}

func TestAValueThatBreaksTheYAMLIsAnErrorThatDoesNotQuoteIt(t *testing.T) {
	for _, value := range []string{"a: canary: b", "\"canary", "- canary\n b: c\n]", "*canary", "[canary", "x\n  kind: canary\nkind: y"} {
		_, err := substituted(t, "${v}", map[string]string{"v": value})
		if err == nil {
			continue // it happened to be YAML
		}
		problem := failure(t, err)
		if problem.Kind != wire.SubstituteFailed || strings.Contains(problem.Message, "canary") || !strings.Contains(problem.Message, "put quotes around") {
			t.Errorf("%q: %+v", value, *problem)
		}
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

func TestAValueThatCutsTheObjectIsRefused(t *testing.T) {
	values := map[string]string{"v": "a\n---\nb: c", "end": "a\n...\nb: c", "dashes": "--- a"}
	for _, text := range []string{"${v}", "${end}"} {
		_, err := substituted(t, text, values)
		if got := failure(t, err); got.Kind != wire.SubstituteFailed || !strings.Contains(got.Message, "ConfigMap n/c") {
			t.Errorf("%q: %+v", text, got)
		}
	}
	got, err := substituted(t, "x ${dashes}", values)
	if err != nil || got != "x --- a" {
		t.Error(got, err)
	}
}

func TestCharactersThatYAMLLacksSurviveSubstitution(t *testing.T) {
	for _, one := range []string{"\x7f", "\u0085", "\u009f", "\ufeff", "\ufffe", "\uffff", "\u2028", "\x00", "\x1b", "\U0001f600", "\ufffd"} {
		got, err := substituted(t, "a"+one+"b ${v} "+one, variables)
		if err != nil || got != "a"+one+"b Value "+one {
			t.Errorf("%+q became %+q: %v", one, got, err)
		}
	}
}
