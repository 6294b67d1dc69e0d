package kustomizations

import (
	"errors"
	"path"
	"regexp"
	"strconv"
	"strings"

	"stellwerk/renderer/functions"
	"stellwerk/renderer/wire"
)

// inTemplate is a place in the errors of text/template; a failing include puts one behind the other.
var inTemplate = regexp.MustCompile(`template: ([^:\n]+):(\d+)(?::(\d+))?: `)

// executing is what text/template says about a place beyond its line.
var executing = regexp.MustCompile(`^executing "[^"]*" at <[^>]*>: (?:error calling [A-Za-z]+: )?`)

// templateFailed names the innermost file of a chain of includes, since that is the one to mend. Where the error names
// none, as when the output gets too large, it is the file that was being rendered.
func templateFailed(one *kustomization, rendered string, err error) *wire.Error {
	failure := &wire.Error{Kind: wire.TemplateFailed, File: path.Join(one.base, rendered)}
	reason := err.Error()
	for _, at := range inTemplate.FindAllStringSubmatchIndex(err.Error(), -1) {
		name := err.Error()[at[2]:at[3]]
		if _, isFile := one.own[name]; !isFile {
			continue
		}
		failure.File = path.Join(one.base, name)
		failure.Line, _ = strconv.Atoi(err.Error()[at[4]:at[5]])
		failure.Column = 0
		if at[6] >= 0 {
			column, _ := strconv.Atoi(err.Error()[at[6]:at[7]])
			failure.Column = column + 1 // text/template counts from 0
		}
		reason = err.Error()[at[1]:]
	}
	reason = executing.ReplaceAllString(inTemplate.ReplaceAllString(reason, ""), "")
	failure.Message = failure.File + ": " + reason
	return asKnown(failure, err)
}

// asKnown takes the kind from the cause where that is one of ours.
func asKnown(failure *wire.Error, err error) *wire.Error {
	var known *wire.Error
	switch {
	case errors.As(err, &known):
		failure.Kind = known.Kind
	case errors.Is(err, functions.ErrDepth):
		failure.Kind = wire.LimitExceeded
	}
	return failure
}

var (
	// dumps are places where kustomize and its YAML library print content, which may be that of a Secret.
	dumps = regexp.MustCompile("(?s)" + strings.Join([]string{
		`value: \{.*?\}`, "with config: `.*?`", "!![a-z]+ `.*?`", `\[patch: ".*"\]`, `node contents:.*`,
		`[*]{4} Too many possible referral targets.*`, `invalid document separator: [^\n]*`, `invalid literal source .*, expected`,
		`line \[[0-9 ]*\] has invalid utf8 bytes.*`,
	}, "|"))
	lineOf = regexp.MustCompile(`\bline (\d+)\b`)
)

func (s *stage) origin(file string) string {
	if source, changed := s.sources[file]; changed {
		return source
	}
	return file
}
