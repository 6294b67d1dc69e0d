package charts_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"stellwerk/renderer/charts"
	"stellwerk/renderer/wire"
)

func named(name string) string { return strings.Replace(configMap, "name: a", "name: "+name, 1) }

func kindsAndNames(t *testing.T, req *wire.Request) string {
	t.Helper()
	var all []string
	for _, object := range mustRender(t, req, nil) {
		metadata, _ := object.Body["metadata"].(map[string]any)
		all = append(all, fmt.Sprint(metadata["name"]))
	}
	return strings.Join(all, " ")
}

func TestEveryFileOfTemplatesIsAManifestButNotesAndPartials(t *testing.T) {
	req := request(small(map[string]string{
		"templates/a.yaml": named("a"), "templates/b.yml": named("b"), "templates/c.tpl": named("c"),
		"templates/d.json":      `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "d"}}`,
		"templates/deep/e.yaml": named("e"), "templates/_f.yaml": named("f"), "templates/NOTES.txt": "Hello: {{ .Release.Name }}: !",
		"templates/deep/NOTES.txt": "a: b: c", "templates/.g.yaml": "a: [", "other/h.yaml": named("h"), "crds/deep/i.yaml": named("i"),
		"crds/j.yml": named("j"), "crds/k.txt": "no manifest", "templates/empty.yaml": "{{ if false }}x{{ end }}",
	}), "")
	if got := kindsAndNames(t, req); got != "i j a b c d e" {
		t.Error(got)
	}
}

func TestIgnoredFilesAreNotRead(t *testing.T) {
	req := request(inFolder("at", small(map[string]string{
		".helmignore":      "# nothing\n\n*.bak\nsecret/\n/templates/old.yaml\ncharts/*.tgz\n",
		"templates/a.yaml": configMap + `data: {a: "{{ .Files.Get "x.bak" }}{{ .Files.Get "deep/secret/y" }}{{ .Files.Get "z" }}"}`,
		"x.bak":            "x", "deep/secret/y": "y", "z": "z", "templates/old.yaml": "{{", "charts/broken.tgz": "text",
	})), "at")
	if got := mustRender(t, req, nil)[0].Body["data"].(map[string]any)["a"]; got != "z" {
		t.Error(got)
	}
}

func TestFilesBeyondThePathAreNotPartOfTheChart(t *testing.T) {
	files := inFolder("at/chart", template(configMap+`data: {a: "{{ .Files.Get "../x" }}{{ .Files.Glob "**" | len }}"}`))
	req := request(with(files, map[string][]byte{"at/x": []byte("x"), "at/chartist/y": []byte("y")}), "at/chart")
	if got := mustRender(t, req, nil)[0].Body["data"].(map[string]any)["a"]; got != "0" {
		t.Error(got)
	}
}

func TestAPackedChartMayHoldAnother(t *testing.T) {
	inner := pack(t, "inner/", small(map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: inner\nversion: 1.0.0\n", "templates/a.yaml": named("inner"),
	}))
	outer := pack(t, "outer/", with(small(map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: outer\nversion: 1.0.0\n", "templates/a.yaml": named("outer"),
	}), map[string][]byte{"charts/inner-1.0.0.tgz": inner}))
	req := request(with(small(nil), map[string][]byte{"charts/outer-1.0.0.tgz": outer}), "")
	if got := kindsAndNames(t, req); got != "inner outer" && got != "outer inner" {
		t.Error(got)
	}
	for _, object := range mustRender(t, req, nil) {
		if !strings.HasPrefix(object.Origin, "charts/outer-1.0.0.tgz/") {
			t.Error(object.Origin)
		}
	}
}

// entries makes an archive of headers, each with as many bytes as its size.
func entries(headers ...tar.Header) []byte {
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zipped)
	for _, header := range headers {
		_ = archive.WriteHeader(&header)
		_, _ = archive.Write(make([]byte, header.Size))
	}
	_ = archive.Close()
	_ = zipped.Close()
	return packed.Bytes()
}

func TestAHarmfulPackedChartIsRefused(t *testing.T) {
	chart := tar.Header{Name: "a/Chart.yaml", Typeflag: tar.TypeReg, Size: 1}
	whole := pack(t, "a/", small(nil))
	for want, packed := range map[string][]byte{
		"references parent directory":        entries(chart, tar.Header{Name: "a/../../x", Typeflag: tar.TypeReg}),
		"outside the base directory":         entries(tar.Header{Name: "Chart.yaml", Typeflag: tar.TypeReg, Size: 1}),
		`"a/big" is larger than the maximum`: entries(tar.Header{Name: "a/big", Typeflag: tar.TypeReg, Size: 6 << 20}),
		"no files in chart archive":          entries(),
		"can read: EOF":                      nil,
		"unexpected EOF":                     whole[:len(whole)-20],
	} {
		req := request(inFolder("at", with(small(nil), map[string][]byte{"charts/sub.tgz": packed})), "at")
		got := refusalOf(t, req, nil)
		expect(t, got, wire.InvalidChart, "at/charts/sub.tgz", want)
	}
}

func TestALinkInAPackedChartIsAnEmptyFile(t *testing.T) {
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zipped)
	for name, content := range map[string]string{
		"a/Chart.yaml":       "apiVersion: v2\nname: sub\nversion: 1.0.0\n",
		"a/templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\ndata: {link: {{ .Files.Get \"link\" | quote }}}\n",
	} {
		_ = archive.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: int64(len(content))})
		_, _ = archive.Write([]byte(content))
	}
	_ = archive.WriteHeader(&tar.Header{Name: "a/link", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"})
	_, _ = archive.Close(), zipped.Close()
	files := with(small(map[string]string{"templates/object.yaml": ""}), map[string][]byte{"charts/sub.tgz": packed.Bytes()})
	found := mustRender(t, request(files, ""), nil)
	if link := found[0].Body["data"].(map[string]any)["link"]; link != "" {
		t.Errorf("a link is followed: %v", link)
	}
}

func TestATooLargeFileIsRefused(t *testing.T) {
	files := with(small(nil), map[string][]byte{"big": make([]byte, 6<<20)})
	expect(t, refusalOf(t, request(files, ""), nil), wire.InvalidChart, "big", "larger than 5 MiB")
}

func TestEndlessNestingIsRefused(t *testing.T) {
	chart := func(number int) []byte {
		return fmt.Appendf(nil, "apiVersion: v2\nname: c%d\nversion: 1.0.0\n", number)
	}
	files, folder := map[string][]byte{"Chart.yaml": chart(0)}, ""
	for number := range 30 {
		folder += fmt.Sprintf("charts/c%d/", number+1)
		files[folder+"Chart.yaml"] = chart(number + 1)
	}
	if got := refusalOf(t, request(files, ""), nil); !strings.Contains(got.Message, "more than 20 charts") {
		t.Error(got)
	}
}

// inTime lets the test fail when what comes before its result is called takes too long.
func inTime(what string) (done func()) {
	slow := time.AfterFunc(10*time.Second, func() { panic("takes too long: " + what) })
	return func() { slow.Stop() }
}

// Whatever a chart is made of, there is a result or an error of ours.
func FuzzChart(f *testing.F) {
	about := "apiVersion: v2\nname: a\nversion: 1.0.0\n"
	for _, seed := range [][3]string{
		{about, "a: 1\n", "a: {{ .Values.a }}"},
		{about + "dependencies: [null, {name: b, import-values: [a, {child: x}, null], tags: [1]}]\n", "", "{{ .Chart }}"},
		{"dependencies: {}\n", "[1]", "{{ .Subcharts }}"},
		{about + "maintainers: [null]\nannotations: {a: 1}\n", "global: 1\ntags: 1\nb: null", "{{ include \"x\" . }}"},
		{about + "type: library\nkubeVersion: '*'\n", "b: 1", "{{ .Files.Lines \"x\" }}"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, about, values, text string) {
		files := small(map[string]string{
			"Chart.yaml": about, "values.yaml": values, "templates/a.yaml": text,
			"charts/b/Chart.yaml": "apiVersion: v2\nname: b\nversion: 1.0.0\n", "charts/b/values.yaml": values,
			".helmignore": values, "requirements.yaml": about, "values.schema.json": values,
		})
		defer inTime(fmt.Sprintf("%q %q %q", about, values, text))()
		req := request(files, "")
		_, _, err := charts.Render(req, req.Files, noObjects{}, wire.Uses{})
		var known *wire.Error
		if err != nil && !errors.As(err, &known) {
			t.Fatalf("%T: %v", err, err)
		}
	})
}

// Whatever a packed chart is made of, it is unpacked within limits or refused.
func FuzzPackedChart(f *testing.F) {
	f.Add(pack(f, "a/", small(nil)))
	f.Add(entries(tar.Header{Name: "a/b", Typeflag: tar.TypeReg, Size: 3}))
	f.Fuzz(func(t *testing.T, packed []byte) {
		req := request(with(small(nil), map[string][]byte{"charts/a.tgz": packed}), "")
		_, _, err := charts.Render(req, req.Files, noObjects{}, wire.Uses{})
		var known *wire.Error
		if err != nil && !errors.As(err, &known) {
			t.Fatalf("%T: %v", err, err)
		}
	})
}
