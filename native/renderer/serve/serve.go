// Package serve is the loop of the worker: it reads a request, sends lookups, and sends a result.
//
// One request at a time, and no state is kept between two: templates of one tenant must not affect those of another. Two
// workers and a parent that distributes work are simpler than threads that share memory, and only a process can be ended
// while a template runs.
package serve

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"stellwerk/renderer/discreet"
	"stellwerk/renderer/expressions"
	"stellwerk/renderer/memory"
	"stellwerk/renderer/texts"
	"stellwerk/renderer/wire"
)

// Loop answers requests until the parent closes the pipe (nil) or breaks the protocol.
func Loop(in io.Reader, out io.Writer) error {
	pipe := &pipe{in: in, out: out, render: render}
	for {
		var req wire.Request
		err := wire.ReadFrame(in, &req)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			// After a wrong frame the next one cannot be found. Report why, and end.
			_ = pipe.send(wire.Message{Error: &wire.Error{Kind: wire.InvalidRequest, Message: err.Error()}})
			return err
		}
		if err := pipe.serve(&req); err != nil {
			return err
		}
		if pipe.broken != nil {
			return pipe.broken
		}
		memory.Trim()
	}
}

// pipe is the connection to the parent.
type pipe struct {
	in      io.Reader
	out     io.Writer
	render  func(*wire.Request, wire.Asker) (*wire.Result, error)
	sending sync.Mutex
	asking  atomic.Bool // whether the parent looks something up
	broken  error       // why the frames of the parent can no longer be read
}

// serve answers one request; an error means that the parent cannot be reached any more.
func (p *pipe) serve(req *wire.Request) error {
	watch := guard(p, req.ID)
	answer := p.answer(req)
	frame, err := wire.Frame(answer)
	watch.stop()
	if most := cmp.Or(req.Limits.OutputBytes, defaultOutput); err == nil && answer.Result != nil && len(frame) > most {
		err = tooMuch("the result is larger than %d bytes", most)
	}
	if err != nil {
		answer = wire.Message{ID: req.ID, Error: asWireError(err)}
		return p.send(answer)
	}
	return p.write(frame)
}

// answer renders, or evaluates a claim or templates of texts. A panic is a bug of ours and fails this request only.
func (p *pipe) answer(req *wire.Request) (message wire.Message) {
	message.ID = req.ID
	defer func() {
		if failure := recover(); failure != nil {
			message.Result = nil
			message.Error = &wire.Error{
				Kind: wire.Internal, Message: fmt.Sprintf("the renderer failed at %s", placeOfPanic(debug.Stack())),
			}
		}
	}()
	witness := &discreet.Witness{Asker: &asker{pipe: p, request: req.ID}}
	if err := p.fill(&message, req, witness); err != nil {
		failure := *asWireError(err)
		failure.Message = discreet.Message(failure.Message, append(discreet.Decrypted(req.Decryption.Opened), witness.Words()...))
		message.Error = &failure
	}
	return message
}

// fill sets the verdict, the texts or the result of a message.
func (p *pipe) fill(message *wire.Message, req *wire.Request, ask wire.Asker) (err error) {
	if req.Claim != nil {
		holds, err := expressions.Holds(req.Claim)
		if err == nil {
			message.Verdict = &holds
		}
		return err
	}
	if req.Texts != nil {
		message.Texts, err = texts.Execute(req.Texts)
		return err
	}
	message.Result, err = p.render(req, ask)
	if err == nil {
		message.Result.Decrypted = slices.Compact(slices.Sorted(slices.Values(discreet.Decrypted(req.Decryption.Opened))))
	}
	return err
}

// asWireError is an error as it is sent to the parent; one without a kind is a bug of ours.
func asWireError(err error) *wire.Error {
	var known *wire.Error
	if errors.As(err, &known) {
		return known
	}
	return &wire.Error{Kind: wire.Internal, Message: err.Error()}
}

func (p *pipe) send(message wire.Message) error {
	frame, err := wire.Frame(message)
	if err != nil {
		return err
	}
	return p.write(frame)
}

func (p *pipe) write(frame []byte) error {
	p.sending.Lock()
	defer p.sending.Unlock()
	_, err := p.out.Write(frame)
	return err
}

// longestCall is the size of the frame of a lookup: it holds a kubeconfig at most.
const longestCall = 1 << 20

// asker asks the parent in the middle of a request.
type asker struct {
	pipe    *pipe
	request uint64
}

// Ask sends a call and waits for its answer. The parent bounds how long that takes.
func (a *asker) Ask(method string, args map[string]any) (json.RawMessage, bool, error) {
	call, err := wire.Frame(wire.Message{ID: a.request, Call: &wire.Call{Method: method, Args: args}})
	if len(call) > longestCall || err != nil {
		return nil, false, tooMuch("the arguments of a look-up are larger than %d KiB", longestCall>>10)
	}
	a.pipe.asking.Store(true)
	defer a.pipe.asking.Store(false)
	if err := a.pipe.write(call); err != nil {
		return nil, false, a.lost(err)
	}
	var answer wire.Answer
	if err := wire.ReadFrame(a.pipe.in, &answer); err != nil {
		return nil, false, a.lost(err)
	}
	if answer.ID != a.request {
		return nil, false, a.lost(fmt.Errorf("the answer is for request %d, not %d", answer.ID, a.request))
	}
	switch {
	case answer.NoKind:
		return nil, false, &wire.NoSuchKind{APIVersion: fmt.Sprint(args["apiVersion"]), Kind: fmt.Sprint(args["kind"])}
	case answer.NotFound:
		return nil, false, nil
	case answer.Error != "":
		return nil, false, &wire.Error{Kind: wire.LookupFailed, Message: answer.Error}
	default:
		return answer.Value, true, nil
	}
}

func (a *asker) lost(err error) *wire.Error {
	a.pipe.broken = err
	return &wire.Error{Kind: wire.LookupFailed, Message: "the parent does not answer: " + err.Error()}
}
