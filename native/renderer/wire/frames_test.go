package wire_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"stellwerk/renderer/wire"
)

func frame(body string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	sent := wire.Message{ID: 7, Error: &wire.Error{Kind: wire.TemplateFailed, Message: "<a> & b", File: "x", Line: 3}}
	whole, err := wire.Frame(sent)
	if err != nil {
		t.Fatal(err)
	}
	var got wire.Message
	if err := wire.ReadFrame(iotest.OneByteReader(bytes.NewReader(whole)), &got); err != nil || !reflect.DeepEqual(got, sent) {
		t.Errorf("got %+v, %v", got, err)
	}
	if !strings.Contains(string(whole), "<a> & b") {
		t.Error("text is escaped for HTML, which makes frames larger")
	}
}

func TestTheEndBetweenTwoFramesIsNoError(t *testing.T) {
	if err := wire.ReadFrame(strings.NewReader(""), new(any)); err != io.EOF {
		t.Error(err)
	}
}

func TestAFrameThatIsNotOneIsRefused(t *testing.T) {
	for name, bytes := range map[string][]byte{
		"half a length":  {0, 0},
		"half a body":    frame("{}")[:5],
		"no JSON":        frame("{"),
		"two documents":  frame("{} {}"),
		"empty":          frame(""),
		"too long":       {0xff, 0xff, 0xff, 0xff},
		"a wrong type":   frame(`{"id": "one"}`),
		"not our number": frame(`{"id": -1}`),
	} {
		err := wire.ReadFrame(strings.NewReader(string(bytes)), new(wire.Request))
		if err == nil || errors.Is(err, io.EOF) && err == io.EOF {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAClaimedLengthCostsNoMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	head := binary.BigEndian.AppendUint32(nil, wire.MaxFrame)
	if err := wire.ReadFrame(bytes.NewReader(head), new(any)); err == nil {
		t.Fatal("half a frame is taken for a whole one")
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 4<<20 {
		t.Errorf("%d bytes were taken for a frame that never came", used)
	}
}

func TestIntegersStayIntegers(t *testing.T) {
	var got map[string]any
	text := `{"a": 1000000, "b": [9007199254740993, 1.5, 1e3, 18446744073709551615], "c": "1", "d": null, "e": 1e400}`
	if err := wire.ReadFrame(bytes.NewReader(frame(text)), &got); err != nil {
		t.Fatal(err)
	}
	wire.Integers(got)
	want := []any{int64(9007199254740993), 1.5, 1000.0, 18446744073709551615.0}
	if got["a"] != int64(1000000) || !reflect.DeepEqual(got["b"], want) || got["c"] != "1" || got["d"] != nil {
		t.Errorf("got %#v", got)
	}
	if _, err := json.Marshal(got["e"]); err != nil {
		t.Errorf("a number beyond all bounds cannot be sent on: %v", err)
	}
}

func TestAFrameOfWhatIsNoJSONIsRefused(t *testing.T) {
	if _, err := wire.Frame(map[string]any{"a": func() {}}); err == nil {
		t.Error("a function was sent")
	}
}

// Whatever comes through the pipe, reading it ends with a value or an error.
func FuzzReadFrame(f *testing.F) {
	for _, body := range []string{"{}", `{"id":1,"files":{"a":"eA=="}}`, `[1]`, `{"values":{"a":1e999}}`} {
		f.Add(frame(body))
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		var req wire.Request
		if err := wire.ReadFrame(strings.NewReader(string(bytes)), &req); err != nil {
			return
		}
		wire.Integers(req.Values)
		if _, err := wire.Frame(req); err != nil {
			t.Fatal(err)
		}
	})
}
