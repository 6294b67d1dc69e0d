package kustomizations

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"stellwerk/renderer/wire"
)

func TestAConfigurationIsReadWhateverTheCaseOfItsKeys(t *testing.T) {
	for _, text := range []string{
		"TEMPLATESUFFIX: .x\nlefttemplatedelimiter: '[['\nrightTemplateDelimiter: ']]'\nvalues: {a: 1}\n",
		`{"templateSuffix": ".x", "LeftTemplateDelimiter": "[[", "righttemplatedelimiter": "]]", "Values": {"a": 1}}`,
	} {
		config, err := readConfig("c", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		same(t, []any{config.suffix, config.left, config.right, config.values}, []any{".x", "[[", "]]", map[string]any{"a": 1}})
	}
}

func TestAnEmptyConfigurationMeansTheDefaults(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "{}", "values:\ntemplateSuffix:\nleftTemplateDelimiter: ''\nincludedFiles: []\n"} {
		config, err := readConfig("c", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		same(t, []any{config.suffix, config.left, config.right, config.values == nil}, []any{"", "{{", "}}", true})
	}
}

func TestAWrongConfigurationIsRefusedWithItsPlace(t *testing.T) {
	for text, want := range map[string]string{
		"values: {}\ntemplateSufix: .x\n": `2:1 has the unknown key "templateSufix"; known are templateSuffix`,
		"values: {}\nVALUES: {}\n":        "2:1 has values twice",
		"values: {}\nvalues: {}\n":        `2:0 is not YAML: line 2: key "values" appears twice`,
		"values: [1]\n":                   "1:1 values must be a mapping",
		"templateSuffix: 1\n":             "1:1 templateSuffix must be text",
		"includedFiles: x\n":              "1:1 includedFiles must be a list of relative paths",
		"includedKustomizations: [{}]\n":  "1:1 includedKustomizations must be a list of relative paths",
		"- a\n":                           "1:1 is no mapping",
		"leftTemplateDelimiter: [a]\n":    "must be text",
		"a: *b\n":                         "alias",
		strings.Repeat("[", 200) + strings.Repeat("]", 200): "nested",
	} {
		failure := fails(t, tree{"k/.component-config.yaml": text}, "k", "")
		got := fmt.Sprintf("%d:%d %s", failure.Line, failure.Column, strings.TrimPrefix(failure.Message, "k/.component-config.yaml "))
		if !strings.Contains(got, want) || failure.File != "k/.component-config.yaml" {
			t.Errorf("%q: %+v", text, *failure)
		}
		if failure.Kind != wire.InvalidConfig && failure.Kind != wire.LimitExceeded {
			t.Errorf("%q is of kind %s", text, failure.Kind)
		}
	}
}

func TestIgnoredFilesAreNeitherTemplatesNorResources(t *testing.T) {
	found := render(t, tree{
		"k/.component-ignore":           "# comment\n*.bad.yaml\n/top.yaml\nsub/\n!keep.bad.yaml\n",
		"k/a.yaml":                      configMap("a", "x"),
		"k/x.bad.yaml":                  "{{ broken",
		"k/keep.bad.yaml":               configMap("keep", "x"),
		"k/top.yaml":                    "{{ broken",
		"k/deep/top.yaml":               configMap("deep", "x"),
		"k/sub/b.yaml":                  "{{ broken",
		"k/deep/.component-ignore":      "never passed on: {{ broken",
		"k/deep/.component-config.yaml": "never passed on: {{ broken",
		".component-ignore":             "*", // anchored at the path, not at the root
	}, "k", "")
	same(t, names(found), []string{"ConfigMap/a", "ConfigMap/deep", "ConfigMap/keep"})
}

func TestIgnoringFollowsGit(t *testing.T) {
	for _, test := range []struct {
		rules   string
		ignored string
		kept    string
	}{
		{"*.txt", "a.txt d/a.txt", "a.md"},
		{"/a.txt", "a.txt", "d/a.txt"},
		{"d/*.txt", "d/a.txt", "a.txt x/d/a.txt d/e/a.txt"},
		{"d/**/x", "d/x d/a/x d/a/b/x", "x e/d/x"},
		{"**/x", "x a/x a/b/x", "xx"},
		{"d/**", "d/a d/b/c", "d"},
		{"a**b", "ab aXb", "a/b"},
		{"d/", "d/x e/d/x", "d"},
		{"*\n!*.md", "a.txt", "a.md"},
		{"d\n!d/keep", "d/keep d/x", "keep"},
		{"d/*\n!d/keep", "d/x", "d/keep"},
		{`\#a`, "#a", "a"},
		{`\!a`, "!a", "a"},
		{"a\\ ", "a\u0020", "a"},
		{"a  ", "a", "b"},
		{"[a-c].txt", "b.txt", "d.txt"},
		{"[!a-c].txt", "d.txt", "b.txt"},
		{"[[:digit:]]", "7", "x"},
		{"?.txt", "a.txt", "ab.txt .txt"},
		{"a\r\nb\r", "a b", "c"},
		{"\ufeffa", "a", "b"},
		{`a\`, "", "a"},
		{"[a", "", "[a"},
		{"a.b", "a.b", "aXb"},
		{"/", "", "a"},
		{"", "", "a"},
	} {
		rules := readIgnore([]byte(test.rules))
		for _, file := range split(test.ignored) {
			if !rules.matches(file) {
				t.Errorf("%q does not ignore %q", test.rules, file)
			}
		}
		for _, file := range split(test.kept) {
			if rules.matches(file) {
				t.Errorf("%q ignores %q", test.rules, file)
			}
		}
	}
}

// split is on single blanks between names; a name may end with one.
func split(text string) []string {
	if text == "" {
		return nil
	}
	if strings.HasSuffix(text, " ") {
		return []string{text}
	}
	return strings.Split(text, " ")
}

// TestIgnoringAgreesWithGit asks git itself about random rules and files. Stars as in a**/b are left out: git cuts off
// the a first and then takes the rest for **/b, against its own documentation.
func TestIgnoringAgreesWithGit(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("there is no git")
	}
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 25 {
		folder := t.TempDir()
		rules, files := randomRules(random), randomFiles(random)
		for _, file := range files {
			full := filepath.Join(folder, file)
			if os.MkdirAll(filepath.Dir(full), 0o700) != nil {
				continue // a file of that name is there
			}
			_ = os.WriteFile(full, nil, 0o600)
		}
		if err := os.WriteFile(filepath.Join(folder, ".gitignore"), []byte(rules), 0o600); err != nil {
			t.Fatal(err)
		}
		ignored := askGit(t, git, folder, files)
		ours := readIgnore([]byte(rules))
		for _, file := range files {
			info, err := os.Stat(filepath.Join(folder, file))
			if err == nil && !info.IsDir() && ours.matches(file) != ignored[file] {
				t.Fatalf("round %d: %q is ignored by git: %v, by us: %v, with the rules\n%s", round, file, ignored[file], ours.matches(file), rules)
			}
		}
	}
}

func askGit(t *testing.T, git, folder string, files []string) map[string]bool {
	t.Helper()
	run := func(input string, arguments ...string) string {
		command := exec.Command(git, append([]string{"-C", folder, "-c", "core.excludesFile=/dev/null"}, arguments...)...)
		command.Stdin = strings.NewReader(input)
		output, _ := command.Output() // 1 means that nothing is ignored
		return string(output)
	}
	run("", "init", "-q")
	ignored := map[string]bool{}
	for _, file := range strings.Split(run(strings.Join(files, "\x00"), "check-ignore", "-z", "--no-index", "--stdin"), "\x00") {
		ignored[file] = true
	}
	return ignored
}

func randomRules(random *rand.Rand) string {
	pieces := []string{"a", "b", "ab", "*", "**", "?", "[ab]", "[!a]", "x.y", "*.y", "a*", "*b", `\a`, "[a-b]*"}
	var rules []string
	for range 1 + random.IntN(5) {
		var segments []string
		for range 1 + random.IntN(4) {
			segments = append(segments, pieces[random.IntN(len(pieces))])
		}
		rule := strings.Join(segments, "/")
		for prefix, chance := range map[string]int{"!": 3, "/": 4} {
			if random.IntN(chance) == 0 && !strings.HasPrefix(rule, "/") {
				rule = prefix + rule
			}
		}
		if random.IntN(3) == 0 {
			rule += "/"
		}
		rules = append(rules, rule)
	}
	return strings.Join(rules, "\n") + "\n"
}

func randomFiles(random *rand.Rand) []string {
	pieces := []string{"a", "b", "ab", "ba", "x.y", "y", "aab", "c"}
	var files []string
	for range 40 {
		var segments []string
		for range 1 + random.IntN(4) {
			segments = append(segments, pieces[random.IntN(len(pieces))])
		}
		files = append(files, strings.Join(segments, "/"))
	}
	return files
}

func TestIncludedFilesAreReadableUnderTheirRelativePath(t *testing.T) {
	found := render(t, tree{
		"k/.component-config.yaml": "includedFiles: [../common, ../one.txt]\n",
		"k/a.yaml":                 configMap("a", `'{{ readFile "../common/x.txt" | toString }} {{ readFile "../one.txt" | toString }} {{ listFiles "../common/*" | join "," }} {{ existsFile "../other.txt" }}'`),
		"common/x.txt":             "X", "one.txt": "ONE", "other.txt": "OTHER",
	}, "k", "")
	same(t, value(t, found), "X ONE ../common/x.txt false")
}

func TestIncludedFilesAreThereForKustomize(t *testing.T) {
	found := render(t, tree{
		"k/.component-config.yaml": "includedFiles: [../common.yaml]\n",
		"k/kustomization.yaml":     "resources: [../common.yaml]\n",
		"common.yaml":              configMap("common", "'{{ not a template }}'"),
	}, "k", "")
	same(t, value(t, found), "{{ not a template }}")
}

func TestAnIncludedKustomizationHasItsOwnConfigurationAndTheSameValues(t *testing.T) {
	found := render(t, tree{
		"k/.component-config.yaml":    "includedKustomizations: [../base]\nvalues: {own: k}\n",
		"k/kustomization.yaml":        "namePrefix: p-\nresources: [../base]\n",
		"base/.component-config.yaml": "templateSuffix: .t\nleftTemplateDelimiter: '<<'\nrightTemplateDelimiter: '>>'\nvalues: {own: base, v: default}\nincludedKustomizations: [../deep]\n",
		"base/kustomization.yaml":     "resources: [a.yaml, ../deep]\n",
		"base/a.yaml.t":               configMap("a", "'<< .own >> << .v >> << name >>'"),
		"deep/d.yaml":                 configMap("d", "'{{ .v }}'"),
	}, "k", `{"v": "given"}`)
	same(t, names(found), []string{"ConfigMap/p-a", "ConfigMap/p-d"})
	same(t, value(t, found), "base given shop")
	same(t, value(t, found[1:]), "given")
}

func TestTwoKustomizationsMayIncludeTheSameThird(t *testing.T) {
	found := render(t, tree{
		"k/.component-config.yaml": "includedKustomizations: [../a, ../b]\n",
		"k/kustomization.yaml":     "resources: [../a, ../b]\n",
		"a/.component-config.yaml": "includedKustomizations: [../c]\n",
		"a/kustomization.yaml":     "namePrefix: a-\nresources: [../c]\n",
		"b/.component-config.yaml": "includedKustomizations: [../c]\n",
		"b/kustomization.yaml":     "namePrefix: b-\nresources: [../c]\n",
		"c/x.yaml":                 configMap("x", "1"),
	}, "k", "")
	same(t, names(found), []string{"ConfigMap/a-x", "ConfigMap/b-x"})
}

func TestWhatCannotBeIncludedIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		config string
		more   tree
		want   string
	}{
		"inside":             {"includedFiles: [sub/x]", nil, "lies inside of the kustomization"},
		"itself":             {"includedFiles: [.]", nil, "lies inside of the kustomization"},
		"absolute":           {"includedFiles: [/etc/passwd]", nil, "absolute path"},
		"beyond":             {"includedFiles: [../../x]", nil, "leaves the artifact"},
		"absent":             {"includedFiles: [../nope]", nil, "does not exist"},
		"kustomization in":   {"includedKustomizations: [sub]", nil, "lies inside of the kustomization"},
		"kustomization none": {"includedKustomizations: [../nope]", nil, "has no files"},
		"kustomization up":   {"includedKustomizations: ['..']", nil, "part of another referenced kustomization"},
		"overlap":            {"includedKustomizations: [../b, ../b/c]", tree{"b/c/x.yaml": "", "b/y.yaml": ""}, "path b/c is part of another referenced kustomization (b)"},
		"cycle":              {"includedKustomizations: [../b]", tree{"b/.component-config.yaml": "includedKustomizations: [../k]"}, "part of another referenced kustomization"},
	} {
		t.Run(name, func(t *testing.T) {
			files := tree{"k/.component-config.yaml": test.config, "k/sub/x": "x"}
			for file, content := range test.more {
				files[file] = content
			}
			failure := fails(t, files, "k", "")
			if failure.Kind != wire.InvalidConfig || !strings.Contains(failure.Message, test.want) {
				t.Errorf("%+v", *failure)
			}
		})
	}
}

func TestTwoFilesThatBecomeOneAreRefused(t *testing.T) {
	failure := fails(t, tree{".component-config.yaml": "templateSuffix: .t", "a.yaml": "", "a.yaml.t": "{{ 1 }}"}, "", "")
	if failure.Kind != wire.InvalidConfig || !strings.Contains(failure.Message, "makes a.yaml twice") {
		t.Errorf("%+v", *failure)
	}
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte("templateSuffix: .x\nvalues: {a: [1, {b: c}]}\nincludedFiles: [../x]\n"))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		config, err := readConfig("c", text)
		if err == nil && (config.left == "" || config.right == "") {
			t.Error("a delimiter is empty")
		}
	})
}

func FuzzIgnore(f *testing.F) {
	f.Add([]byte("*.txt\n!a\n/d/**/x\n[!a-z]\n[[:alpha:]]\\ \n"), "d/e/x")
	f.Fuzz(func(t *testing.T, text []byte, file string) { readIgnore(text).matches(file) })
}
