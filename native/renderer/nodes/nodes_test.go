package nodes

import (
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"stellwerk/renderer/objects"
)

func read(t *testing.T, text string) (map[string]any, error) {
	t.Helper()
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		t.Fatal(err)
	}
	return Object(&document)
}

func TestScalarsBecomeWhatObjectsHave(t *testing.T) {
	got, err := read(t, "i: 9007199254740993\nn: -3\nf: 1.5\nw: 1e6\nh: 0x1f\nu: 18446744073709551615\nb: true\ny: yes\nd: 2026-01-02\ns: '1'\nz: ~\nt: !!str 5\nm: \"a\\nb\"\nbin: !!binary aGk=\n")
	if err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(got)
	want := `{"b":true,"bin":"hi","d":"2026-01-02","f":1.5,"h":31,"i":9007199254740993,"m":"a\nb","n":-3,"s":"1","t":"5","u":18446744073709552000,"w":1000000,"y":"yes","z":null}`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	if _, isWhole := got["w"].(int64); !isWhole {
		t.Errorf("%T", got["w"])
	}
}

func TestMergeKeysLieBelowTheOthers(t *testing.T) {
	got, err := read(t, "x: &x {a: 1, b: 1}\ny: &y {b: 2, c: 2}\none: {<<: *x, a: 0}\nmany: {<<: [*x, *y], d: 3}\n")
	if err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal([]any{got["one"], got["many"]})
	if string(text) != `[{"a":0,"b":1},{"a":1,"b":1,"c":2,"d":3}]` {
		t.Errorf("%s", text)
	}
}

func TestWhatIsNoObjectIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"- a": "is no mapping", "a: 1\na: 2": `"a" twice`, "a: .nan": "JSON lacks", "a: -.inf": "JSON lacks", "? [a]\n: b": "no text",
		"a: !!int canary": "fit its tag", strings.Repeat("a: {", 150) + strings.Repeat("}", 150): "deeper",
	} {
		if _, err := read(t, strings.ReplaceAll(text, "a: {", "{a: ")); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestAliasesMayNotUnfoldWithoutABound(t *testing.T) {
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for level := 1; level < 20; level++ {
		n, m := string(rune('A'+level)), string(rune('A'+level-1))
		if level == 1 {
			m = "a0"
		}
		bomb += n + ": &" + n + " [*" + m + strings.Repeat(", *"+m, 9) + "]\n"
	}
	for text, want := range map[string]error{
		"a: &a 1\nb: *a\n": nil, "a: &a [*a]": objects.ErrAliasCycle, "a: &a {b: {c: *a}}": objects.ErrAliasCycle, "---\nx: 1\n---\na: &a [*a]\n": objects.ErrAliasCycle, bomb: objects.ErrAliasGrowth,
		"a: &a " + strings.Repeat("x", 500_000) + "\nb: [" + strings.Repeat("*a, ", 8_000) + "]\n": objects.ErrAliasGrowth,
		"a: b & c * d": nil, "a: [": nil, "&": nil,
	} {
		if err := objects.CheckAliases([]byte(text)); err != want {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}

func TestNumbersAndBooleansInAnnotationsAreTextAsWritten(t *testing.T) {
	text := "common: &c {n: 1.10, m: true}\nmetadata:\n  name: x\n  labels: {l: 1}\n  annotations: {<<: *c, o: -5, h: 0x1f, b: false, s: '7', z: ~, d: 1e3}\n" +
		"spec: {template: {metadata: {annotations: {o: 1}}}}\n"
	want := `{"annotations":{"b":"false","d":"1e3","h":"0x1f","m":"true","n":"1.10","o":"-5","s":"7","z":null},"labels":{"l":1},"name":"x"}`
	got, err := read(t, text)
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := json.Marshal(got["metadata"]); string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	if text, _ := json.Marshal(got["spec"]); string(text) != `{"template":{"metadata":{"annotations":{"o":1}}}}` {
		t.Errorf("%s", text)
	}
}

func TestAnnotationsOfPlainTextsAreTextAsWritten(t *testing.T) {
	one := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {o: 1.0, b: true, t: x}, labels: {l: 1}}\n"
	list := "---\n# nothing\n---\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {annotations: {o: 010}}}\n- {apiVersion: v1, kind: ConfigMap}\n"
	found, err := objects.Parse("x.yaml", []byte(one+list))
	if err != nil {
		t.Fatal(err)
	}
	TextAnnotations(found, []byte(one+list))
	got, _ := json.Marshal([]any{found[0].Body["metadata"], found[1].Body["metadata"], len(found)})
	if string(got) != `[{"annotations":{"b":"true","o":"1.0","t":"x"},"labels":{"l":1},"name":"a"},{"annotations":{"o":"010"}},3]` {
		t.Errorf("%s", got)
	}
}
