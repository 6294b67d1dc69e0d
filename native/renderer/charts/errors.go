package charts

import (
	"errors"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"stellwerk/renderer/wire"
)

// rendersBadly is an error about the output of a template: its line is one of the output, not of the template.
func rendersBadly(err error, file string) error {
	var known *wire.Error
	if !errors.As(err, &known) {
		return err
	}
	changed := *known
	changed.Message = strings.Replace(known.Message, file+" ", "what "+file+" renders ", 1)
	changed.Line = 0
	if known.Line > 0 && !strings.Contains(known.Message, "line ") {
		changed.Message += " (line " + strconv.Itoa(known.Line) + " of it)"
	}
	return &changed
}

var (
	// atPlace is the form of most errors of Helm's engine: the place, then the reason.
	atPlace = regexp.MustCompile(`^(?:parse error|execution error) at \(([^()]+?):(\d+)(?::(\d+))?\): (?s:(.*))$`)
	// traced is one step of a trace, from the file that was rendered to the template that failed.
	traced = regexp.MustCompile(`(?m)^([^\s:][^:\n]*):(\d+):(\d+)\n((?:[ \t]+.*\n?)*)`)
	// executing is the line of a trace that names the template.
	executing = regexp.MustCompile(`^\s*executing .* at <.*>:$`)
	// nested is the beginning of an error of text/template; a called template adds one more.
	nested = regexp.MustCompile(`template: ([^\s:][^:\n]*):(\d+)(?::(\d+))?: (?:executing "[^"]*" at <(?s:.*?)>: )?`)
	// givenToTpl quotes a text of the values, which may contain a password.
	givenToTpl = regexp.MustCompile(`(?:error during tpl function execution for|cannot parse template) "(?:[^"\\]|\\.)*"`)
)

// step is one place between the rendered file and the failure, and its reason.
type step struct{ name, line, column, why string }

// failed is an error of Helm's engine with its place in the artifact.
func (t *tree) failed(err error, asked *asker) *wire.Error {
	text := givenToTpl.ReplaceAllString(err.Error(), "in a text given to tpl")
	failure := &wire.Error{Kind: wire.TemplateFailed, Message: text}
	if steps := stepsOf(text); len(steps) > 0 {
		t.locate(failure, steps)
	}
	if asked.failure != nil {
		t.locateFailure(failure, asked.failure)
	}
	return failure
}

func stepsOf(text string) []step {
	if place := atPlace.FindStringSubmatch(text); place != nil {
		return []step{{place[1], place[2], place[3], place[4]}}
	}
	var steps []step
	for _, part := range traced.FindAllStringSubmatch(text+"\n", -1) {
		steps = append(steps, step{part[1], part[2], part[3], reasonOf(part[4])})
	}
	if steps != nil {
		return steps
	}
	for _, place := range nested.FindAllStringSubmatchIndex(text, -1) {
		part := nested.FindStringSubmatch(text[place[0]:place[1]])
		steps = append(steps, step{part[1], part[2], part[3], text[place[1]:]})
	}
	return steps
}

// locate reports the last file of the steps with the last reason: a text given to tpl is in no file.
func (t *tree) locate(failure *wire.Error, steps []step) {
	places, last := t.templates(), steps[len(steps)-1]
	for _, step := range slices.Backward(steps) {
		if places[step.name] == "" {
			continue
		}
		failure.File = places[step.name]
		failure.Line, _ = strconv.Atoi(step.line)
		if offset, err := strconv.Atoi(step.column); err == nil {
			failure.Column = offset + 1 // text/template counts bytes from 0
		}
		failure.Message = failure.File + ":" + step.line + ": " + strings.TrimSpace(last.why)
		return
	}
}

// locateFailure makes the error one of the failed lookup, at the place of the lookup.
func (t *tree) locateFailure(at *wire.Error, why error) {
	at.Kind, at.Message = wire.LookupFailed, why.Error()
	var known *wire.Error
	if errors.As(why, &known) {
		at.Kind = known.Kind
	}
	if at.Line > 0 {
		at.Message = at.File + ":" + strconv.Itoa(at.Line) + ": " + why.Error()
	}
}

// reasonOf is the text of a trace's step without the line that names the template.
func reasonOf(step string) string {
	var kept []string
	for line := range strings.Lines(step) {
		if content := strings.TrimSpace(line); content != "" && !executing.MatchString(content) {
			kept = append(kept, content)
		}
	}
	return strings.Join(kept, " ")
}

// unloadable names the file that Helm's loader could not read.
var unloadable = regexp.MustCompile(`^cannot load (\S+): `)

// notLoaded is an error of Helm's loader about one chart.
func notLoaded(place string, err error) *wire.Error {
	file, why := chartFile, err.Error()
	if named := unloadable.FindStringSubmatch(why); named != nil {
		file, why = named[1], strings.TrimPrefix(why, named[0])
	}
	return broken(path.Join(place, file), 0, "%s", why)
}

// mismatch is how Helm reports values of a subchart that are no mapping; the rest of the error quotes them.
var mismatch = regexp.MustCompile(`type mismatch on (\S+): (?s:.*)`)

// unfitting is an error of Helm about values.
func unfitting(err error) *wire.Error {
	why := mismatch.ReplaceAllString(err.Error(), "the values of subchart $1 are no mapping")
	return &wire.Error{Kind: wire.InvalidValues, Message: why}
}
