package serve

import (
	"os"
	"strings"
	"time"

	"stellwerk/renderer/memory"
	"stellwerk/renderer/wire"
)

const (
	// roomToGrow is how much memory one request may take beyond what its frame did.
	roomToGrow = 256 << 20
	// longest is how long one request may take, questions to the parent included. The parent ends us by its own clock;
	// this one lets us say why.
	longest = 10 * time.Second
	beat    = 5 * time.Millisecond
	// roomForWords is what the last words may take: the kernel's bound lies that much above ours, so that a request that
	// grows in steps is ended by us, with a reason.
	roomForWords = 64 << 20
	// exceeded is the exit code of a worker that took too much.
	exceeded = 3
)

// watch ends the worker when a request takes more than its share.
//
// A template that never ends cannot be interrupted from within, and one that recurses without end would take the stack,
// which no program survives. So the last words are spoken from beside: an error that says what was exceeded.
type watch struct {
	pipe    *pipe
	request uint64
	done    chan struct{}
}

func guard(p *pipe, request uint64) *watch {
	w := &watch{pipe: p, request: request, done: make(chan struct{})}
	memory.Bound(roomToGrow + roomForWords)
	go w.run(time.Now(), memory.Held()+roomToGrow)
	return w
}

func (w *watch) stop() {
	close(w.done)
	memory.Unbound()
}

func (w *watch) run(began time.Time, most uint64) {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		select {
		case <-w.done:
			return
		case <-ticker.C:
		}
		if time.Since(began) > longest {
			w.giveUp(tooMuch("rendering takes longer than %v", longest))
		} else if memory.Held() > most {
			w.giveUp(tooMuch("rendering needs more than %d MiB of memory", roomToGrow>>20))
		}
	}
}

func (w *watch) giveUp(why *wire.Error) {
	_ = w.pipe.send(wire.Message{ID: w.request, Error: why})
	os.Exit(exceeded)
}

// placeOfPanic is the line of our code in which a panic arose; its value may quote a Secret.
func placeOfPanic(stack []byte) string {
	afterPanic := false
	for line := range strings.Lines(string(stack)) {
		if strings.HasPrefix(line, "panic(") {
			afterPanic = true
		}
		place := strings.TrimSpace(line)
		if _, inside, isOurs := strings.Cut(place, "/renderer/"); afterPanic && isOurs && strings.Contains(inside, ".go:") {
			inside, _, _ = strings.Cut(inside, " ")
			return inside
		}
	}
	return "an unknown place"
}
