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
	// longest is how long one request may take, lookups included. The parent has the same bound and kills the worker.
	longest  = 10 * time.Second
	interval = 5 * time.Millisecond
	// roomForError is how much the kernel's bound is above ours, so that the worker can still send its error.
	roomForError = 64 << 20
	// exceeded is the exit code of a worker that exceeded a bound.
	exceeded = 3
)

// watch ends the worker when a request exceeds its time or memory.
//
// This is the bound of everything that a request can ask for: loops, recursion, functions and formats that make a large
// result out of a small input. Nothing can interrupt a running template, and no Go program survives a stack overflow, so
// a goroutine of its own sends the error and ends the process. Where that is too slow, the kernel refuses the memory and
// the parent reports the same error.
type watch struct {
	pipe    *pipe
	request uint64
	done    chan struct{}
}

func guard(p *pipe, request uint64) *watch {
	w := &watch{pipe: p, request: request, done: make(chan struct{})}
	memory.Bound(roomToGrow + roomForError)
	go w.run(time.Now(), memory.Held()+roomToGrow)
	return w
}

func (w *watch) stop() {
	close(w.done)
	memory.Unbound()
}

func (w *watch) run(began time.Time, most uint64) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	asked, before := time.Duration(0), began
	for {
		select {
		case <-w.done:
			return
		case <-ticker.C:
		}
		if w.pipe.asking.Load() {
			asked += time.Since(before)
		}
		before = time.Now()
		if time.Since(began) > longest && asked > longest/2 {
			slow := tooMuch("rendering took longer than %g s, %.1f s of it for look-ups: the cluster answers slowly",
				longest.Seconds(), asked.Seconds())
			slow.Kind = wire.LookupFailed
			w.end(slow)
		} else if time.Since(began) > longest {
			w.end(tooMuch("rendering took longer than %g s and was ended; look for endless loops in templates", longest.Seconds()))
		} else if memory.Held() > most {
			w.end(tooMuch("rendering needs more than %d MiB of memory", roomToGrow>>20))
		}
	}
}

func (w *watch) end(reason *wire.Error) {
	_ = w.pipe.send(wire.Message{ID: w.request, Error: reason})
	os.Exit(exceeded)
}

// placeOfPanic is the line of our code that panicked. The value of the panic is not reported: it may quote a Secret.
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
