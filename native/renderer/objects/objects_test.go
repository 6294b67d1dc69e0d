package objects_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"stellwerk/renderer/objects"
	"stellwerk/renderer/wire"
)

func parse(t *testing.T, text string) []objects.Object {
	t.Helper()
	found, err := objects.Parse("file.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func refusal(t *testing.T, text string) *wire.Error {
	t.Helper()
	_, err := objects.Parse("file.yaml", []byte(text))
	var known *wire.Error
	if !errors.As(err, &known) {
		t.Fatalf("%.80q is not refused: %v", text, err)
	}
	if known.File != "file.yaml" || !strings.HasPrefix(known.Message, "file.yaml ") {
		t.Errorf("the file is not named: %+v", known)
	}
	return known
}

func names(found []objects.Object) string {
	var all []string
	for _, object := range found {
		metadata, _ := object.Body["metadata"].(map[string]any)
		all = append(all, fmt.Sprint(object.Body["kind"], "/", metadata["name"]))
	}
	return strings.Join(all, " ")
}

func configMap(name string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n"
}

func TestDocumentsAreSeparatedAsYAMLSeparatesThem(t *testing.T) {
	for text, want := range map[string]string{
		configMap("a") + "---\n" + configMap("b"):                               "ConfigMap/a ConfigMap/b",
		"---\n" + configMap("a") + "--- # second\n" + configMap("b"):            "ConfigMap/a ConfigMap/b",
		configMap("a") + "---\t\n---\n\n# nothing\n---\n" + configMap("b"):      "ConfigMap/a ConfigMap/b",
		configMap("a") + "...\n" + configMap("b"):                               "ConfigMap/a ConfigMap/b",
		configMap("a") + "...\n---\n" + configMap("b"):                          "ConfigMap/a ConfigMap/b",
		"%YAML 1.1\n---\n" + configMap("a"):                                     "ConfigMap/a",
		strings.ReplaceAll(configMap("a")+"---\n"+configMap("b"), "\n", "\r\n"): "ConfigMap/a ConfigMap/b",
		"--- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n":          "ConfigMap/a",
		"\ufeff" + configMap("a"):                                               "ConfigMap/a",
		configMap("a") + "data:\n  text: |\n    ---\n    not a document\n":      "ConfigMap/a",
		"": "", "---\n": "", "# only a comment\n": "", "null\n": "", "~\n---\n": "",
	} {
		if got := names(parse(t, text)); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

func TestJSONIsReadAsJSON(t *testing.T) {
	found := parse(t, "{\n\t\"apiVersion\": \"v1\",\n\t\"kind\": \"ConfigMap\",\n\t\"metadata\": {\"name\": \"a\"}\n}\n")
	if got := names(found); got != "ConfigMap/a" {
		t.Error(got)
	}
}

func TestListsAreUnfolded(t *testing.T) {
	text := "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret, metadata: {name: a}}\n" +
		"- apiVersion: v1\n  kind: ConfigMapList\n  items: [{metadata: {name: b}}, {metadata: {name: c}}]\n"
	if got := names(parse(t, text)); got != "Secret/a ConfigMap/b ConfigMap/c" {
		t.Error(got)
	}
	if got := names(parse(t, "apiVersion: x.io/v1\nkind: Basket\nmetadata: {name: a}\nitems: [1]\n")); got != "Basket/a" {
		t.Errorf("an object that has items is no list: %s", got)
	}
}

func TestNumbersStayWhatTheyWere(t *testing.T) {
	text := configMap("a") + "data: {million: 1000000, float: 1e+06, big: 9007199254740993, half: 0.5, port: 0x10, old: 010, " +
		"text: \"1000000\", time: 2001-01-01, yes: on, n: y}\n"
	written, err := json.Marshal(parse(t, text)[0].Body["data"])
	if err != nil {
		t.Fatal(err)
	}
	want := `{"big":9007199254740993,"float":1000000,"half":0.5,"million":1000000,"false":true,"old":8,"port":16,` +
		`"text":"1000000","time":"2001-01-01","true":true}`
	var gotValue, wantValue any
	_ = json.Unmarshal(written, &gotValue)
	_ = json.Unmarshal([]byte(want), &wantValue)
	if !reflect.DeepEqual(gotValue, wantValue) || strings.Contains(string(written), "e+") {
		t.Errorf("got %s, want %s", written, want)
	}
	if _, isWhole := parse(t, text)[0].Body["data"].(map[string]any)["float"].(int64); !isWhole {
		t.Error("1e+06 is not whole")
	}
}

func TestWhatIsNoObjectIsRefusedWithItsLine(t *testing.T) {
	for text, want := range map[string]string{
		configMap("a") + "---\n# text\njust text\n": "6 holds text where an object is expected",
		"- a\n- b\n":                                       "1 holds a list where an object is expected",
		"\n\nkind: ConfigMap\n":                            "3 has an object without apiVersion",
		"apiVersion: v1\nmetadata: {name: x}\n":            "1 has an object without kind (apiVersion v1, name x)",
		"apiVersion: 1\nkind: ConfigMap\n":                 "1 has an object without apiVersion",
		configMap("a") + "metadata: {name: b}\n":           "4 key \"metadata\" appears twice",
		configMap("a") + "---\n" + "a: b: c\n":             "5 mapping values are not allowed",
		configMap("a") + "---\n" + "a: [1\nb: 2\n":         "5 did not find expected ',' or ']'",
		"{\"apiVersion\": \"v1\", \"apiVersion\": \"v2\"}": "1 key \"apiVersion\" appears twice",
		configMap("a") + "data: {a: \xff}\n":               "4 is not UTF-8",
		"{\"apiVersion\": \"v1\",\n \"kind\": \"\xff\"}":   "2 is not UTF-8",
	} {
		got := refusal(t, text)
		line, why, _ := strings.Cut(want, " ")
		if got.Kind != wire.InvalidManifest || fmt.Sprint(got.Line) != line || !strings.Contains(got.Message, why) {
			t.Errorf("%q: got %+v, want line %s: %s", text, got, line, why)
		}
	}
}

func TestAMessageQuotesNoValue(t *testing.T) {
	for _, text := range []string{
		configMap("a") + "data: {password: *hunter2}\n",
		configMap("a") + "data: {password: !!int hunter2}\n",
		configMap("a") + "data: {password: !!float hunter2}\n",
		configMap("a") + "data: {password: \"hunter2}\n",
		configMap("a") + "data:\n  password: hunter2: hunter2\n",
		configMap("a") + "data:\n  password: `hunter2\n",
		configMap("a") + "data:\n  password: !!binary hunter2*\n",
		"apiVersion: v1\nkind: ConfigMap\ndata: {<<: hunter2}\n",
		"hunter2\n", "[hunter2]\n",
	} {
		if got := refusal(t, text); strings.Contains(got.Message, "hunter2") {
			t.Errorf("%q: %s", text, got.Message)
		}
	}
}

func TestTextThatIsTooMuchIsRefused(t *testing.T) {
	bomb := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for letter := 'b'; letter < 'j'; letter++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", letter, letter, strings.Repeat(fmt.Sprintf("*%c, ", letter-1), 10))
	}
	lists := "apiVersion: v1\nkind: ConfigMap\n"
	for range 7 {
		lists = "{apiVersion: v1, kind: List, items: [" + strings.ReplaceAll(lists, "\n", ", ") + "]}"
	}
	for name, text := range map[string]string{
		"aliases":      bomb,
		"merges":       "a: &a {x: 1}\nb: &b {<<: *a}\n" + strings.Replace(bomb, "a: &a", "c: &a", 1),
		"bytes":        configMap("a") + "data: {a: &a " + strings.Repeat("x", 500_000) + ", b: [" + strings.Repeat("*a, ", 8_000) + "]}",
		"bytes merged": "a: &a {x: " + strings.Repeat("x", 100_000) + "}\nb: [" + strings.Repeat("{<<: *a}, ", 900) + "]",
		"other reader": "a: &a " + strings.Repeat("x", 5_000) + "\nb: [" + strings.Repeat("*a, ", 900) + "]\n\tc: *a\n",
		"depth":        configMap("a") + "data: " + strings.Repeat("[", 101) + strings.Repeat("]", 101),
		"deeper":       configMap("a") + "data: " + strings.Repeat("{a: ", 9000) + "1" + strings.Repeat("}", 9000),
		"size":         configMap("a") + "# " + strings.Repeat("x", objects.MaxText),
		"json":         `{"apiVersion":"v1","kind":"X","a":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + "}",
		"open":         strings.Repeat("[", 1_000_000),
		"nested lists": lists,
	} {
		_, err := objects.Parse("file.yaml", []byte(text))
		var known *wire.Error
		if !errors.As(err, &known) {
			t.Errorf("%s: not refused: %v", name, err)
		} else if name != "open" && name != "nested lists" && known.Kind != wire.LimitExceeded {
			t.Errorf("%s: %+v", name, known)
		}
	}
}

func TestHonestAliasesAndLargeTextsPass(t *testing.T) {
	labels := configMap("a") + "x: &labels {a: 1, b: 2, c: 3}\nlist:\n" + strings.Repeat("- *labels\n", 100)
	if found := parse(t, labels); len(found[0].Body["list"].([]any)) != 100 {
		t.Error("aliases are not unfolded")
	}
	table := configMap("a") + "data:\n  table.csv: |\n" + strings.Repeat("    1,2,3,4,5,6,7,8,9\n", 50_000)
	if found := parse(t, table+"---\n"+configMap("b")); len(found) != 2 {
		t.Error("a block of text is counted as values")
	}
}

// Whatever the bytes are, the answer is objects that are JSON, or an error with a place.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		configMap("a"), "a: *b", "{\"a\":1}", "a: &a [*a]", "? {a: b}\n: c", "%YAML 1.1\n---\n", "...\n---\n...", "- - - -",
		"a: .nan", "a: !!binary x", "<<: [{a: 1}]", "\xff\xfe", "a: |\n b\n...", "kind: List\napiVersion: v1\nitems: [null]",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		slow := time.AfterFunc(10*time.Second, func() { panic(fmt.Sprintf("takes too long: %q", text)) })
		defer slow.Stop()
		found, err := objects.Parse("f", text)
		var known *wire.Error
		if err != nil && (!errors.As(err, &known) || known.File != "f") {
			t.Fatalf("%T: %v", err, err)
		}
		for _, object := range found {
			if _, err := json.Marshal(object.Body); err != nil {
				t.Fatal(err)
			}
			if text, isText := object.Body["kind"].(string); !isText || text == "" {
				t.Fatal("an object without a kind")
			}
		}
	})
}

func TestNumbersThatJSONLacksAreRefused(t *testing.T) {
	refusal(t, configMap("a")+"data: {a: .nan}\n")
	refusal(t, configMap("a")+"data: {a: .inf}\n")
}
