package afterwards

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/drone/envsubst"
	"sigs.k8s.io/yaml"

	"stellwerk/renderer/nodes"
	"stellwerk/renderer/objects"
	"stellwerk/renderer/wire"
)

// substitute replaces ${...} in every object that does not opt out. Without any variable the step does not happen, so
// that text which merely looks like one survives.
//
// An object is substituted as text and read again: ${REPLICAS} alone in a field becomes a number where the value is one.
func substitute(objs []objects.Object, variables map[string]string, prefix string) ([]objects.Object, error) {
	if len(variables) == 0 {
		return objs, nil
	}
	result := make([]objects.Object, len(objs))
	for index, object := range objs {
		body, err := substituteObject(object, variables, prefix+"/disableSubstitution")
		if err != nil {
			return nil, err
		}
		result[index] = objects.Object{Body: body, Origin: object.Origin}
	}
	return result, nil
}

func substituteObject(object objects.Object, variables map[string]string, optOut string) (map[string]any, error) {
	if objects.Annotations(object.Body)[optOut] == "true" || !mentions(object.Body) {
		return object.Body, nil
	}
	text, err := written(object.Body)
	if err != nil {
		return nil, &wire.Error{Kind: wire.Internal, Message: title(object) + " cannot be written as YAML"}
	}
	expanded, err := expand(string(text), variables)
	if err != nil {
		return nil, failed(object, err, optOut)
	}
	body, err := reread(object, expanded, optOut)
	if err != nil {
		return nil, err
	}
	nodes.TextAnnotations([]objects.Object{{Body: body}}, []byte(expanded)) // ${ORDER} alone becomes a number
	return body, nil
}

// unprintable are characters that JSON has as they are, and that YAML refuses or reads as a line break.
var unprintable = regexp.MustCompile(`[\x{7f}-\x{9f}\x{feff}\x{fffe}\x{ffff}]`)

// written is an object as YAML that reads as the same.
func written(body map[string]any) ([]byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return yaml.JSONToYAML(unprintable.ReplaceAllFunc(text, func(one []byte) []byte {
		return fmt.Appendf(nil, `\u%04x`, []rune(string(one))[0])
	}))
}

// reread refuses more than one document: a value with a line of dashes would cut the object, and its rest would be lost.
// It does not report the error of the parser: it may quote a value of a Secret.
func reread(object objects.Object, text, optOut string) (map[string]any, error) {
	documents, err := objects.Documents(object.Origin, []byte(text))
	if err == nil && len(documents) == 1 {
		if body, isObject := documents[0].Value.(map[string]any); isObject {
			return body, nil
		}
	}
	return nil, &wire.Error{Kind: wire.SubstituteFailed, File: object.Origin, Message: title(object) +
		" is no valid YAML after the substitution; put quotes around each ${...} whose value has line breaks or special" +
		" characters, double each backslash, or annotate the object with " + optOut + `: "true"`}
}

func failed(object objects.Object, err error, optOut string) *wire.Error {
	return &wire.Error{Kind: wire.SubstituteFailed, File: object.Origin, Message: fmt.Sprintf(
		"%s: %s; write $${ where ${ is meant literally, or annotate the object with %s: \"true\"", title(object), err, optOut)}
}

// mentions is true where substitution could change the object. Most objects have neither a dollar nor a backslash.
func mentions(value any) bool {
	switch value := value.(type) {
	case string:
		return strings.ContainsAny(value, `$\`)
	case []any:
		for _, item := range value {
			if mentions(item) {
				return true
			}
		}
	case map[string]any:
		for key, item := range value {
			if mentions(key) || mentions(item) {
				return true
			}
		}
	}
	return false
}

// expand is envsubst on a text of any size.
//
// The library copies the rest of the text for each escape and recurses for each variable, which takes minutes for a large
// ConfigMap. So it evaluates only the pieces that are substitutions; the text between them is read once here, with the
// same escapes.
func expand(text string, variables map[string]string) (string, error) {
	var result strings.Builder
	for text != "" {
		start := strings.IndexAny(text, `$\`)
		if start < 0 {
			start = len(text)
		}
		result.WriteString(text[:start])
		text = text[start:]
		switch {
		case len(text) < 2:
			result.WriteString(text)
			text = ""
		case isEscape(text):
			result.WriteByte(text[1])
			text = text[2:]
		case strings.HasPrefix(text, "${"):
			value, length, err := expandFirst(text, variables)
			if err != nil {
				return "", err
			}
			result.WriteString(value)
			text = text[length:]
		default:
			result.WriteByte(text[0])
			text = text[1:]
		}
	}
	return result.String(), nil
}

func isEscape(text string) bool {
	pair := text[:2]
	return pair == "$$" || pair == `\\` || pair == `\/`
}

// expandFirst finds where the substitution at the start of the text ends, and evaluates it.
//
// Its end is a closing brace, and defaults may contain others. A prefix that the library accepts ends outside of any
// substitution, so it is right. The number of braces doubles with each try, so that an error is found after a few.
func expandFirst(text string, variables map[string]string) (string, int, error) {
	braces, length := 1, 0
	for {
		length = endOfBrace(text, length, braces)
		piece := text[:length]
		template, err := envsubst.Parse(piece)
		if err == nil {
			value, err := evaluate(template, piece, variables)
			return value, length, err
		}
		if length == len(text) {
			return "", 0, fmt.Errorf("%s is no substitution: %w", beginning.FindString(text), err)
		}
		braces *= 2
	}
}

var beginning = regexp.MustCompile(`^\$\{[\pL\pN_]{0,64}[^\pL\pN_\s]?`)

// endOfBrace returns the place behind so many more closing braces, or the end of the text.
func endOfBrace(text string, from, braces int) int {
	for ; braces > 0; braces-- {
		next := strings.IndexByte(text[from:], '}')
		if next < 0 {
			return len(text)
		}
		from += next + 1
	}
	return from
}

// evaluate runs one piece. The library does not check positions (${v:0:-1}) and panics.
func evaluate(template *envsubst.Template, piece string, variables map[string]string) (value string, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			value, err = "", fmt.Errorf("%s has a position or length outside of the value", beginning.FindString(piece))
		}
	}()
	return template.Execute(func(name string) string { return variables[name] })
}
