package nodes

import (
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/kyaml/yaml"
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
		"a: &a 1\nb: *a\n": nil, "a: &a [*a]": errCycle, "a: &a {b: {c: *a}}": errCycle, "---\nx: 1\n---\na: &a [*a]\n": errCycle, bomb: errGrowth,
		"a: b & c * d": nil, "a: [": nil, "&": nil,
	} {
		if err := CheckAliases([]byte(text)); err != want {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}
