package charts

import (
	"errors"
	"path"
	"regexp"
	"strconv"
	"strings"

	"stellwerk/renderer/wire"
)

// asChartError is an error about a file that makes a chart; what it says stays.
func asChartError(err error) error {
	var known *wire.Error
	if !errors.As(err, &known) || known.Kind != wire.InvalidManifest {
		return err
	}
	changed := *known
	changed.Kind = wire.InvalidChart
	return &changed
}

// rendersBadly is an error about the text that a template made: its line is one of that text, not of the template.
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
	// atPlace is how Helm's engine begins most errors: where, and then why.
	atPlace = regexp.MustCompile(`^(?:parse error|execution error) at \(([^()]+?):(\d+)(?::(\d+))?\): (?s:(.*))$`)
	// traced is one step of a trace, from the file that was rendered to the template that failed.
	traced = regexp.MustCompile(`(?m)^([^\s:][^:\n]*):(\d+):(\d+)\n((?:[ \t]+.*\n?)*)`)
	// executing is the line of a trace that names the template.
	executing = regexp.MustCompile(`^\s*executing .* at <.*>:$`)
	// nested is the beginning of an error of text/template; one lies in another for each template that another called.
	nested = regexp.MustCompile(`template: ([^\s:][^:\n]*):(\d+)(?::(\d+))?: (?:executing "[^"]*" at <(?s:.*?)>: )?`)
	// givenToTpl quotes a text of the values, which may hold a password.
	givenToTpl = regexp.MustCompile(`(?:error during tpl function execution for|cannot parse template) "(?:[^"\\]|\\.)*"`)
)

// failed is an error of Helm's engine with its place in the artifact.
func (t *tree) failed(err error, asked *asker) *wire.Error {
	text := givenToTpl.ReplaceAllString(err.Error(), "in a text given to tpl")
	failure := &wire.Error{Kind: wire.TemplateFailed, Message: text}
	if place := atPlace.FindStringSubmatch(text); place != nil {
		t.locate(failure, place[1], place[2], place[3], place[4])
	} else if steps := traced.FindAllStringSubmatch(text+"\n", -1); steps != nil {
		last := steps[len(steps)-1]
		t.locate(failure, last[1], last[2], last[3], reasonOf(last[4]))
	} else if steps := nested.FindAllStringSubmatchIndex(text, -1); steps != nil {
		last := steps[len(steps)-1]
		part := nested.FindStringSubmatch(text[last[0]:last[1]])
		t.locate(failure, part[1], part[2], part[3], text[last[1]:])
	}
	if asked.failure != nil {
		t.locateFailure(failure, asked.failure)
	}
	return failure
}

// locateFailure makes the error one of the parent that did not answer, where it was asked.
func (t *tree) locateFailure(at *wire.Error, why error) {
	at.Kind, at.Message = wire.LookupFailed, why.Error()
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

func (t *tree) locate(failure *wire.Error, name, line, column, why string) {
	failure.File = t.templates()[name]
	if failure.File == "" {
		failure.File = path.Join(t.path, name)
	}
	failure.Line, _ = strconv.Atoi(line)
	if offset, err := strconv.Atoi(column); err == nil {
		failure.Column = offset + 1 // text/template counts bytes from 0
	}
	failure.Message = failure.File + ":" + line + ": " + strings.TrimSpace(why)
}
