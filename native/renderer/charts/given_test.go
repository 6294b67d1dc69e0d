package charts_test

import (
	"errors"
	"io"
	"log"
	"log/slog"
	"maps"
	"os"
	"strings"
	"testing"

	"stellwerk/renderer/charts"
	"stellwerk/renderer/objects"
	"stellwerk/renderer/wire"
)

const prefix = "component-operator.cs.sap.com"

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // Helm's warnings; the worker discards them too
	slog.SetDefault(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}

// small is a chart of one file and what is added to it; a text that is "-" takes a file away.
func small(more map[string]string) map[string][]byte {
	files := map[string][]byte{"Chart.yaml": []byte("apiVersion: v2\nname: small\nversion: 1.0.0\n")}
	for name, text := range more {
		files[name] = []byte(text)
		if text == "-" {
			delete(files, name)
		}
	}
	return files
}

// template is a chart of one template.
func template(text string) map[string][]byte {
	return small(map[string]string{"templates/object.yaml": text})
}

func inFolder(folder string, files map[string][]byte) map[string][]byte {
	moved := map[string][]byte{}
	for name, content := range files {
		moved[folder+"/"+name] = content
	}
	return moved
}

func with(files map[string][]byte, more map[string][]byte) map[string][]byte {
	maps.Copy(files, more)
	return files
}

func mustRender(t *testing.T, req *wire.Request, ask wire.Asker) []objects.Object {
	t.Helper()
	found, _, err := charts.Render(req, req.Files, ask, wire.Uses{})
	if err != nil {
		t.Fatalf("%v %+v", err, err)
	}
	return found
}

func refusalOf(t *testing.T, req *wire.Request, ask wire.Asker) *wire.Error {
	t.Helper()
	found, _, err := charts.Render(req, req.Files, ask, wire.Uses{})
	var known *wire.Error
	if !errors.As(err, &known) {
		t.Fatalf("not refused: %v %v", found, err)
	}
	return known
}

func expect(t *testing.T, got *wire.Error, kind, file string, words ...string) {
	t.Helper()
	if got.Kind != kind || got.File != file {
		t.Errorf("got %+v, want %s in %s", got, kind, file)
	}
	for _, word := range words {
		if !strings.Contains(got.Message, word) {
			t.Errorf("%q does not say %q", got.Message, word)
		}
	}
}

func annotations(object objects.Object) map[string]any {
	metadata, _ := object.Body["metadata"].(map[string]any)
	found, _ := metadata["annotations"].(map[string]any)
	return found
}
