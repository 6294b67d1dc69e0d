package kustomizations

import (
	"bytes"
	"errors"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/kustomize/api/types"

	"stellwerk/renderer/objects"
	"stellwerk/renderer/wire"
)

// inTemplate is a place in the errors of text/template; a failing include adds one.
var inTemplate = regexp.MustCompile(`template: ([^:\n]+):(\d+)(?::(\d+))?: `)

// executing is the description of a place by text/template, after its line.
var executing = regexp.MustCompile(`^executing "[^"]*" at <[^>]*>: (?:error calling [A-Za-z]+: )?`)

// templateFailed names the innermost file of a chain of includes, because that is the one to correct. Where the error
// names none, it is the file that was rendered.
func templateFailed(one *kustomization, rendered string, err error) *wire.Error {
	failure := &wire.Error{Kind: wire.TemplateFailed, File: path.Join(one.base, rendered)}
	text := err.Error()
	reason := text
	for _, at := range inTemplate.FindAllStringIndex(text, -1) {
		place := inTemplate.FindStringSubmatch(text[at[0]:at[1]])
		if _, isFile := one.own[place[1]]; !isFile {
			continue
		}
		failure.File, failure.Column, reason = path.Join(one.base, place[1]), 0, text[at[1]:]
		failure.Line, _ = strconv.Atoi(place[2])
		if column, err := strconv.Atoi(place[3]); err == nil {
			failure.Column = column + 1 // text/template counts from 0
		}
	}
	failure.Message = failure.File + ": " + executing.ReplaceAllString(inTemplate.ReplaceAllString(reason, ""), "")
	var known *wire.Error
	if errors.As(err, &known) {
		failure.Kind = known.Kind
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

// Kustomize reports all steps to a mistake, and both ways in which it tried to read an entry, in one long sentence. The
// steps are removed here until the place and the cause remain.

// step is one layer of such a sentence.
var (
	accumulating = regexp.MustCompile(`^accumulating (?:resources|components): `)
	// attempts are a file and then a folder. The folder counts where there is one.
	attempts = regexp.MustCompile(`(?s)^accumulation err='((?:accumulating|merging) resources from '.*?)': ` +
		`((?:recursed|couldn't make target|cycle detected|must build at directory|not a valid directory|new root|unable|loader|[^:']* (?:does not exist|is not directory)).*)$`)
	intoFolder = regexp.MustCompile(`(?s)^(?:recursed (?:accumulation of|merging from)|couldn't make target for) path '(/[^']*)': (.*)$`)
	fromFile   = regexp.MustCompile(`(?s)^(?:accumulating|merging) resources from '([^']*)': (.*)$`)
)

// explanation is the place and the cause in kustomize's sentence.
type explanation struct {
	folder string // absolute, of the kustomization at fault
	entry  string // the file that it lists, where that is at fault
	cause  string
}

func explain(base, message string) explanation {
	found := explanation{folder: clean(base), cause: message}
	for {
		before := found.cause
		found.cause = accumulating.ReplaceAllString(found.cause, "")
		if both := attempts.FindStringSubmatch(found.cause); both != nil {
			found.cause = both[2]
			if isNoFolder(both[2]) {
				found.cause = both[1]
			}
		}
		if into := intoFolder.FindStringSubmatch(found.cause); into != nil {
			found.folder, found.cause = into[1], into[2]
		}
		if from := fromFile.FindStringSubmatch(found.cause); from != nil {
			found.entry, found.cause = from[1], from[2]
		}
		if found.cause == before {
			return found
		}
	}
}

func isNoFolder(reason string) bool {
	return !strings.HasPrefix(reason, "recursed") && !strings.HasPrefix(reason, "couldn't") && !strings.HasPrefix(reason, "cycle")
}

// rewordings replace errors of kustomize by shorter ones; the text may refer to groups of the pattern.
var rewordings = []struct {
	pattern *regexp.Regexp
	text    string
}{
	{regexp.MustCompile(`(?s)^missing metadata\.name in object \{\{(\S*) (\S*)\}.*`), "holds a $2 without metadata.name"},
	{regexp.MustCompile(`(?s)missing kind in object \{\{.*`), "holds an object without kind"},
	{regexp.MustCompile(`^missing Resource metadata.*`), "holds no object: apiVersion, kind or metadata is missing"},
	{regexp.MustCompile(`(?s)^may not add resource with an already registered id: ([^.]*)\.[^/]*/([^\s']*?)\.([^.\s']*)'?.*`),
		"holds the $1 $2 (namespace $3), which is there already"},
	{regexp.MustCompile(`(?s)^MalformedYAMLError: yaml: (.*) in File: .*`), "is not YAML: $1"},
	{regexp.MustCompile(`(?s)^(?:invalid Kustomization: )?(?:json|yaml): (.*)`), "is no kustomization: $1"},
	{regexp.MustCompile(`(?s).*must specify --enable-helm.*`), "wants a Helm chart, which kustomize cannot render here; use a Component of its own for it"},
	{regexp.MustCompile(`(?s)^.*unable to load external plugin '?([^']*)'?.*`), "wants the plugin $1; only those built into kustomize are there"},
	{regexp.MustCompile(`^trouble configuring builtin (\w+) \(content not shown\): `), "has a mistake in what $1 gets: "},
	{regexp.MustCompile(`^unable to find one of .*`), "is no kustomization: it has no kustomization.yaml"},
	{regexp.MustCompile(`(?s)^Found multiple kustomization files.*`), "has more than one kustomization file"},
}

func reword(cause string) string {
	for _, one := range rewordings {
		cause = one.pattern.ReplaceAllString(cause, one.text)
	}
	return strings.ReplaceAll(strings.TrimSpace(cause), "(namespace [noNs])", "(no namespace)")
}

// buildFailed shortens an error of kustomize, and removes the content that it quotes.
func (s *stage) buildFailed(base string, err error) *wire.Error {
	var known *wire.Error
	if errors.As(err, &known) {
		return known
	}
	found := explain(base, strings.TrimSpace(dumps.ReplaceAllString(err.Error(), "(content not shown)")))
	failure := s.placed(found)
	failure.Message = withoutCredentials(failure.Message)
	if line := lineOf.FindStringSubmatch(found.cause); line != nil && !strings.Contains(found.cause, "error converting") {
		failure.Line, _ = strconv.Atoi(line[1])
	}
	return failure
}

// placed names the file at fault: the one that a kustomization lists, or the kustomization itself.
func (s *stage) placed(found explanation) *wire.Error {
	full := s.kustomizationIn(found.folder)
	kustomization := s.origin(strings.TrimPrefix(full, "/"))
	if kustomization == "" {
		kustomization = shown(found.folder)
	}
	listed := path.Join(found.folder, found.entry)
	_, isFile := s.files.files[listed]
	switch {
	case found.entry == "":
		if entry := s.absentEntry(found.folder); entry != "" {
			return s.notThere(found.folder, entry)
		}
		return kustomizeFailed(kustomization, 0, kustomization+": "+reword(found.cause))
	case isFile:
		file := s.origin(listed[1:])
		if missing := missingKind.FindStringSubmatch(found.cause); missing != nil {
			return s.withoutKind(listed, missing[1], missing[2])
		}
		return kustomizeFailed(file, 0, file+": "+reword(found.cause))
	default:
		return s.notThere(found.folder, found.entry)
	}
}

// notThere is the error about an entry of a kustomization that is no file of the build.
func (s *stage) notThere(folder, entry string) *wire.Error {
	full := s.kustomizationIn(folder)
	kustomization := s.origin(strings.TrimPrefix(full, "/"))
	failure := kustomizeFailed(kustomization, lineWith(s.files.files[full], entry), kustomization+" lists "+entry+", which does not exist")
	failure.Missing = strings.TrimPrefix(path.Join(folder, entry), "/")
	return failure
}

// absentEntry is the first path of a kustomization, besides its resources, that is no file of the build. Kustomize's own
// errors about them name neither the entry nor its line.
func (s *stage) absentEntry(folder string) string {
	var one types.Kustomization
	if one.Unmarshal(s.files.files[s.kustomizationIn(folder)]) != nil {
		return ""
	}
	entries := slices.Concat(one.Components, one.Crds, one.Configurations)
	for _, patch := range one.Patches {
		entries = append(entries, patch.Path)
	}
	for _, replacement := range one.Replacements {
		entries = append(entries, replacement.Path)
	}
	for _, generator := range one.ConfigMapGenerator {
		entries = append(entries, slices.Concat(generator.FileSources, generator.EnvSources)...)
	}
	for _, generator := range one.SecretGenerator {
		entries = append(entries, slices.Concat(generator.FileSources, generator.EnvSources)...)
	}
	for _, entry := range entries {
		_, file, isNamed := strings.Cut(entry, "=")
		if !isNamed {
			file = entry
		}
		if file != "" && !s.files.Exists(path.Join(folder, file)) && !remote.MatchString(file) {
			return file
		}
	}
	return ""
}

// missingKind is the error of kustomize for such an object: a dump of its metadata, after its apiVersion and its name.
var missingKind = regexp.MustCompile(`(?s)^missing kind in object \{\{(\S*) \} \{\{(\S*) .*`)

// withoutKind names the object of a file that has no kind: its document, its line where the file is no template, and
// and other fields that identify it.
func (s *stage) withoutKind(listed, apiVersion, name string) *wire.Error {
	file, source := listed[1:], s.origin(listed[1:])
	number, line := documentWithoutKind(file, s.files.files[listed])
	if file != source {
		line = 0 // the lines of the output are not those of the template
	}
	place := ""
	if number > 0 {
		place = " document " + strconv.Itoa(number)
	}
	return kustomizeFailed(source, line, source+":"+place+" holds an object without kind"+objects.Known(apiVersion, name))
}

// documentWithoutKind is the first document of a file whose object has no kind, and its line, both from 1; 0 where
// there is none.
func documentWithoutKind(file string, content []byte) (number, line int) {
	documents, err := objects.Documents(file, content)
	if err != nil {
		return 0, 0
	}
	for index, document := range documents {
		body, isMapping := document.Value.(map[string]any)
		if kind, isText := body["kind"].(string); isMapping && (!isText || kind == "") {
			return index + 1, document.Line
		}
	}
	return 0, 0
}

func kustomizeFailed(file string, line int, message string) *wire.Error {
	return &wire.Error{Kind: wire.KustomizeFailed, File: file, Line: line, Message: message}
}

// lineWith is the first line that contains a text, or 0.
func lineWith(content []byte, text string) int {
	before, _, found := bytes.Cut(content, []byte(text))
	if !found {
		return 0
	}
	return bytes.Count(before, []byte("\n")) + 1
}
