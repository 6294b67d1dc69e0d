package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"

	"stellwerk/renderer/wire"
)

// TestMain is also a worker: what ends a process must not be tried in the process of the tests.
func TestMain(m *testing.M) {
	log.SetOutput(io.Discard)
	slog.SetDefault(slog.New(slog.DiscardHandler))
	if os.Getenv("WORKER") == "" {
		os.Exit(m.Run())
	}
	if os.Getenv("WORKER") == "full" { // any memory is too much
		(&watch{pipe: &pipe{out: os.Stdout}, request: 7}).run(time.Now(), 0)
	}
	if os.Getenv("WORKER") == "asking" {
		slow := &pipe{out: os.Stdout}
		slow.asking.Store(true)
		(&watch{pipe: slow, request: 7}).run(time.Now().Add(-longest), math.MaxUint64)
	}
	if Loop(os.Stdin, os.Stdout) != nil {
		os.Exit(1)
	}
}

// parent is the other side of the pipe.
type parent struct {
	t    *testing.T
	to   *io.PipeWriter
	from *io.PipeReader
	done chan error
}

func start(t *testing.T) *parent {
	requests, to := io.Pipe()
	from, messages := io.Pipe()
	p := &parent{t: t, to: to, from: from, done: make(chan error, 1)}
	go func() {
		p.done <- Loop(requests, messages)
		_ = messages.Close()
	}()
	t.Cleanup(func() { _ = to.Close() })
	return p
}

func (p *parent) send(value any) {
	p.t.Helper()
	frame, err := wire.Frame(value)
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.to.Write(frame); err != nil {
		p.t.Fatal(err)
	}
}

func (p *parent) hear() wire.Message {
	p.t.Helper()
	var message wire.Message
	if err := wire.ReadFrame(p.from, &message); err != nil {
		p.t.Fatal(err)
	}
	return message
}

func (p *parent) ask(req *wire.Request) wire.Message {
	p.t.Helper()
	p.send(req)
	return p.hear()
}

func (p *parent) result(req *wire.Request) *wire.Result {
	p.t.Helper()
	message := p.ask(req)
	if message.Result == nil || message.ID != req.ID {
		p.t.Fatalf("no result: %+v", message.Error)
	}
	return message.Result
}

func (p *parent) refusal(req *wire.Request, kind string, words ...string) {
	p.t.Helper()
	got := p.ask(req)
	if got.Error == nil || got.Error.Kind != kind || got.ID != req.ID {
		p.t.Fatalf("got %+v %+v, want %s", got.Result, got.Error, kind)
	}
	for _, word := range words {
		if !strings.Contains(got.Error.Message, word) {
			p.t.Errorf("%q does not say %q", got.Error.Message, word)
		}
	}
}

func request(generator, path string, files map[string]string) *wire.Request {
	req := &wire.Request{
		ID: 5, Generator: generator, Path: path, Prefix: "example.com", Files: map[string][]byte{},
		Release: wire.Release{Name: "web", Namespace: "apps", Service: "example.com", Revision: 1},
		Values:  map[string]any{"million": 1000000},
	}
	for name, text := range files {
		req.Files[name] = []byte(text)
	}
	return req
}

func configMap(name string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n"
}

func names(made *wire.Result) string {
	var all []string
	for _, object := range made.Objects {
		metadata, _ := object["metadata"].(map[string]any)
		all = append(all, fmt.Sprint(metadata["name"]))
	}
	return strings.Join(all, " ")
}

const chartFile = "apiVersion: v2\nname: small\nversion: 1.0.0\nappVersion: \"2\"\n"

func TestRequestsAreAnsweredOneAfterTheOther(t *testing.T) {
	p := start(t)
	for number := range 3 {
		req := request("manifests", "", map[string]string{"a.yaml": configMap(fmt.Sprint("n", number))})
		req.ID = uint64(number)
		if made := p.result(req); names(made) != fmt.Sprint("n", number) {
			t.Error(names(made))
		}
	}
	_ = p.to.Close()
	if err := <-p.done; err != nil {
		t.Error(err)
	}
}

func TestTheGeneratorIsChosenByWhatLiesInThePath(t *testing.T) {
	p := start(t)
	chart := map[string]string{"x/Chart.yaml": chartFile, "x/templates/a.yaml": configMap("chart")}
	both := map[string]string{"x/Chart.yaml": chartFile, "x/templates/a.yaml": configMap("chart"), "y/a.yaml": configMap("plain")}
	for _, given := range []struct {
		path  string
		files map[string]string
		want  string
	}{
		{"x", chart, "helm chart x/templates/a.yaml"},
		{"", chart, "helm chart x/templates/a.yaml"}, // the only folder
		{"/x/", chart, "helm chart x/templates/a.yaml"},
		{"./y/../x", both, "helm chart x/templates/a.yaml"},
		{"y", both, "kustomize plain y/a.yaml"},
		{"", map[string]string{"a.yaml": configMap("plain")}, "kustomize plain a.yaml"},
		{"", map[string]string{}, "kustomize  "},
	} {
		made := p.result(request("auto", given.path, given.files))
		if got := fmt.Sprint(made.Generator, " ", names(made), " ", strings.Join(made.Origins, " ")); !strings.HasPrefix(got, given.want[:len(given.want)-1]) {
			t.Errorf("%q: got %s, want %s", given.path, got, given.want)
		}
	}
}

func TestAFolderBesideOthersIsNoChartUnlessItIsNamed(t *testing.T) {
	p := start(t)
	files := map[string]string{"x/Chart.yaml": chartFile, "x/templates/a.yaml": configMap("chart"), "README.md": "hello"}
	if made := p.ask(request("auto", "", files)); made.Result != nil && made.Result.Generator == helm {
		t.Error("a chart was chosen")
	}
}

func TestAChartTellsItsName(t *testing.T) {
	made := start(t).result(request("helm", "", map[string]string{"Chart.yaml": chartFile}))
	if !reflect.DeepEqual(*made.Chart, wire.Chart{Name: "small", Version: "1.0.0", AppVersion: "2"}) || len(made.Objects) != 0 {
		t.Error(made.Chart)
	}
}

func TestAPathThatIsNoFolderIsRefused(t *testing.T) {
	p := start(t)
	files := map[string]string{"a/b.yaml": configMap("a")}
	p.refusal(request("auto", "c", files), wire.PathNotFound, "no such file or directory: c")
	p.refusal(request("auto", "a/b.yaml", files), wire.PathNotFound, "not a directory: a/b.yaml")
	p.refusal(request("auto", "a/b", files), wire.PathNotFound, "no such file or directory: a/b")
	p.refusal(request("auto", "../../c", files), wire.PathNotFound, "no such file or directory: c")
}

func TestManifestsAreReadAsTheyAre(t *testing.T) {
	made := start(t).result(request("manifests", "at", map[string]string{
		"at/b.yml": configMap("b"), "at/a.yaml": configMap("a") + "data: {a: \"{{ .Values.x }}\"}",
		"at/deep/c.json":  `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}`,
		"at/.hidden.yaml": "a: [", "at/.git/x.yaml": "a: [", "at/readme.txt": "a: [", "beside.yaml": "a: [",
	}))
	if names(made) != "a b c" || strings.Join(made.Origins, " ") != "at/a.yaml at/b.yml at/deep/c.json" || len(made.Uses) != 0 {
		t.Error(names(made), made.Origins, made.Uses)
	}
}

func TestIntegersComeBackAsIntegers(t *testing.T) {
	text := configMap("a") + "spec: {a: 1000000, b: 1e+06, c: 12345678901}\n"
	written, _ := json.Marshal(start(t).result(request("manifests", "", map[string]string{"a.yaml": text})).Objects[0]["spec"])
	if string(written) != `{"a":1000000,"b":1000000,"c":12345678901}` {
		t.Error(string(written))
	}
}

func TestLimitsHold(t *testing.T) {
	p := start(t)
	many := map[string]string{"a.yaml": strings.Repeat("---\n"+configMap("a"), 3)}
	req := request("manifests", "", many)
	req.Limits.Objects = 2
	p.refusal(req, wire.LimitExceeded, "3 objects, more than 2")
	req = request("manifests", "", many)
	req.Limits.OutputBytes = 100
	p.refusal(req, wire.LimitExceeded, "larger than 100 bytes")
	if made := p.result(request("manifests", "", many)); len(made.Objects) != 3 {
		t.Error("the worker does not go on")
	}
}

func TestAQuestionIsAnsweredInTheMiddleOfARequest(t *testing.T) {
	p := start(t)
	text := configMap("a") + `data: {a: "{{ (lookup "v1" "Secret" "apps" "x").data.a }}"}`
	req := request("helm", "", map[string]string{"Chart.yaml": chartFile, "templates/a.yaml": text})
	for _, given := range []struct {
		answer wire.Answer
		want   string
	}{
		{wire.Answer{ID: 5, Value: json.RawMessage(`{"data":{"a":"hello"}}`)}, "hello"},
		{wire.Answer{ID: 5, NotFound: true}, "nil pointer"},
		{wire.Answer{ID: 5, NoKind: true, Error: "no kind"}, "nil pointer"},
		{wire.Answer{ID: 5, Error: "secrets is forbidden"}, "secrets is forbidden"},
	} {
		call := p.ask(req).Call
		if call == nil || call.Method != "lookup" || call.Args["kind"] != "Secret" || call.Args["where"] != "target" {
			t.Fatalf("%+v", call)
		}
		p.send(given.answer)
		got := p.hear()
		said, _ := json.Marshal(got)
		if !strings.Contains(string(said), given.want) {
			t.Errorf("%+v: %s", given.answer, said)
		}
		if given.answer.Error == "secrets is forbidden" && got.Error.Kind != wire.LookupFailed {
			t.Errorf("%s", said)
		}
	}
}

func TestAnAnswerToAnotherQuestionEndsTheWorker(t *testing.T) {
	p := start(t)
	text := configMap("a") + `data: {a: "{{ lookup "v1" "Secret" "apps" "x" }}"}`
	if p.ask(request("helm", "", map[string]string{"Chart.yaml": chartFile, "templates/a.yaml": text})).Call == nil {
		t.Fatal("no question")
	}
	p.send(wire.Answer{ID: 6})
	if got := p.hear(); got.Error == nil || got.Error.Kind != wire.LookupFailed {
		t.Errorf("%+v", got)
	}
	if err := <-p.done; err == nil {
		t.Error("the worker goes on with frames that it cannot tell apart")
	}
}

func TestABrokenFrameIsToldAndEndsTheWorker(t *testing.T) {
	var said bytes.Buffer
	if err := Loop(strings.NewReader("\x00\x00\x00\x02{]"), &said); err == nil {
		t.Error("the worker goes on")
	}
	var message wire.Message
	if err := wire.ReadFrame(&said, &message); err != nil || message.Error.Kind != wire.InvalidRequest {
		t.Error(err, message)
	}
}

func TestAnUnknownGeneratorIsRefused(t *testing.T) {
	start(t).refusal(request("jsonnet", "", nil), wire.InvalidRequest, "jsonnet")
}

func TestAPanicCostsTheRequestOnly(t *testing.T) {
	var said bytes.Buffer
	broken := &pipe{out: &said, render: func(*wire.Request, wire.Asker) (*wire.Result, error) { panic("hunter2") }}
	if err := broken.serve(request("manifests", "", nil)); err != nil {
		t.Fatal(err)
	}
	var message wire.Message
	if err := wire.ReadFrame(&said, &message); err != nil {
		t.Fatal(err)
	}
	if got := message.Error; got == nil || got.Kind != wire.Internal || !strings.Contains(got.Message, "serve/serve_test.go:") {
		t.Errorf("%+v", got)
	} else if strings.Contains(got.Message, "hunter2") {
		t.Error("what the panic said is quoted")
	}
}

// inProcess sends one request to a worker of its own and returns its last message, how it ends, and its standard error.
func inProcess(t *testing.T, req *wire.Request) (said wire.Message, code int, words string) {
	worker := exec.Command(os.Args[0])
	worker.Env = []string{"WORKER=yes"}
	frame, err := wire.Frame(req)
	if err != nil {
		t.Fatal(err)
	}
	var output, log bytes.Buffer
	worker.Stdin, worker.Stdout, worker.Stderr = bytes.NewReader(frame), &output, &log
	err = worker.Run()
	if err := wire.ReadFrame(&output, &said); err != nil && !errors.Is(err, io.EOF) {
		t.Fatalf("%v: %q", err, output.Bytes())
	}
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		return said, ended.ExitCode(), log.String()
	}
	return said, 0, log.String()
}

func TestAWorkerThatTakesTooMuchSaysSoAndEnds(t *testing.T) {
	for name, text := range map[string]string{
		"recursion": `{{ tpl .Values.again . }}`,
		"output":    `{{ range until 1000 }}{{ range until 1000 }}{{ range until 1000 }}0123456789{{ end }}{{ end }}{{ end }}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := request("helm", "", map[string]string{"Chart.yaml": chartFile, "templates/a.yaml": text})
			req.Values = map[string]any{"again": `{{ tpl .Values.again . }}`}
			began := time.Now()
			said, code, words := inProcess(t, req)
			spoke := code == exceeded && said.Error != nil && said.Error.Kind == wire.LimitExceeded && said.ID == req.ID
			// A buffer that doubles may meet the kernel's bound before the next look; the parent knows it by these words.
			refused := code == 2 && (strings.Contains(words, "out of memory") || strings.Contains(words, "cannot allocate memory"))
			if !spoke && !refused {
				t.Errorf("%+v, code %d: %.200s", said.Error, code, words)
			}
			if time.Since(began) > longest+10*time.Second {
				t.Errorf("after %v", time.Since(began))
			}
		})
	}
}

func TestTheWatchSaysWhatWasTooMuchAndEndsTheWorker(t *testing.T) {
	for how, want := range map[string][2]string{
		"full":   {wire.LimitExceeded, "MiB of memory"},
		"asking": {wire.LookupFailed, "rendering took longer than 10 s, 10.0 s of it for look-ups: the cluster answers slowly"},
	} {
		worker := exec.Command(os.Args[0])
		worker.Env = []string{"WORKER=" + how}
		output, _ := worker.Output() // how it ends is in its state
		var said wire.Message
		if err := wire.ReadFrame(bytes.NewReader(output), &said); err != nil {
			t.Fatalf("%v: %q", err, output)
		}
		if said.Error == nil || said.Error.Kind != want[0] || !strings.Contains(said.Error.Message, want[1]) ||
			said.ID != 7 || worker.ProcessState.ExitCode() != exceeded {
			t.Errorf("%s: %+v, code %d", how, said.Error, worker.ProcessState.ExitCode())
		}
	}
}

func TestALookupWithLargeArgumentsIsNotAsked(t *testing.T) {
	for _, text := range []string{
		`{{ lookup "v1" "Secret" "apps" (repeat 1100000 "x") }}`,
		`{{ lookupWithKubeConfig "v1" "Secret" "apps" "a" (repeat 1100000 "x") }}`,
	} {
		for _, req := range []*wire.Request{
			request("kustomize", "", map[string]string{"a.yaml": text}),
			request("helm", "", map[string]string{"Chart.yaml": chartFile, "templates/a.yaml": text}),
		} {
			start(t).refusal(req, wire.LimitExceeded, "the arguments of a look-up are larger than 1024 KiB")
		}
	}
}

func TestNoMessageRepeatsASecretThatWasLookedUp(t *testing.T) {
	const chart = "apiVersion: v2\nname: a\nversion: 1.0.0\n"
	for _, text := range []string{
		`{{ fail (lookup "v1" "Secret" "a" "known").data.password }}`,
		`{{ fail ((lookup "v1" "Secret" "a" "known").data.password | b64dec) }}`,
		`{{ fail ((lookup "v1" "Secret" "a" "known").data.password | b64dec | quote) }}`,
		`{{ mustToDate "2006" ((lookup "v1" "Secret" "a" "known").data.password | b64dec) }}`,
		`{{ mustRegexMatch (printf "(%s" ((lookup "v1" "Secret" "a" "known").data.password | b64dec)) "x" }}`,
	} {
		for _, req := range []*wire.Request{
			request("kustomize", "", map[string]string{"a.yaml": text}),
			request("helm", "", map[string]string{"Chart.yaml": chart, "templates/a.yaml": text}),
		} {
			p := start(t)
			if asked := p.ask(req); asked.Call == nil {
				t.Fatalf("%s asks nothing: %+v", text, asked.Error)
			}
			p.send(wire.Answer{ID: req.ID, Value: json.RawMessage(`{"kind": "Secret", "data": {"password": "Y2FuYXJ5LXZhbHVl"}}`)})
			got := p.hear()
			if got.Error == nil || strings.Contains(got.Error.Message, "canary") || strings.Contains(got.Error.Message, "Y2FuYXJ5") {
				t.Errorf("%s: %+v", text, got.Error)
			}
		}
	}
}
