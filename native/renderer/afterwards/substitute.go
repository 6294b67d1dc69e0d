package afterwards

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/drone/envsubst"
	yaml3 "go.yaml.in/yaml/v3"

	"stellwerk/renderer/objects"
	"stellwerk/renderer/wire"
)

// substitute replaces ${...} in every object that does not opt out. Without any variable the step does not happen, so
// that text which merely looks like one survives.
//
// Each text is substituted by itself, so that no variable changes the text around it. Text that was written without quotes
// becomes what it means: the number 3, true, or a list in brackets. A value that such a reading would change stays text
// (0777001, 1.10, 72044e0, off), and so does text in quotes.
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
	one := &substitution{variables: variables, quoted: object.Quoted, texts: alwaysText(object.Body)}
	body, err := one.mapping(object.Body, "")
	if err != nil {
		return nil, failed(object, err, optOut)
	}
	if objects.IsTooDeep(body) {
		return nil, failed(object, errTooDeep, optOut)
	}
	return body, nil
}

var errTooDeep = fmt.Errorf("a variable makes it deeper than %d levels", objects.MaxDepth)

// substitution works on one object.
type substitution struct {
	variables map[string]string
	quoted    objects.Quotes
	texts     []string // places below which there is only text
}

// alwaysText are the places of an object that hold text and nothing else.
func alwaysText(body map[string]any) []string {
	metadata := objects.Place("", "metadata")
	places := []string{metadata}
	apiVersion, _ := body["apiVersion"].(string)
	kind, _ := body["kind"].(string)
	if apiVersion == "v1" && (kind == "ConfigMap" || kind == "Secret") {
		for _, field := range []string{"data", "stringData", "binaryData"} {
			places = append(places, objects.Place("", field))
		}
	}
	return places
}

func (s *substitution) isText(place string) bool {
	return s.quoted[place] || slices.ContainsFunc(s.texts, func(above string) bool {
		return strings.HasPrefix(place, above+"\x00")
	})
}

func (s *substitution) value(value any, place string) (any, error) {
	switch value := value.(type) {
	case string:
		expanded, err := expand(value, s.variables)
		if err != nil || !strings.Contains(value, "${") {
			return expanded, err
		}
		if line, ended := strings.CutSuffix(expanded, "\n"); ended && !strings.Contains(value+line, "\n") {
			expanded = line // Secrets made of files end in a line break, which never was part of the text
		}
		if s.isText(place) || strings.ContainsAny(value[:1], `'"[{`) {
			return expanded, nil // to write such a text takes quotes
		}
		return meaning(expanded), nil
	case []any:
		items := make([]any, len(value))
		for index, item := range value {
			var err error
			if items[index], err = s.value(item, objects.Place(place, strconv.Itoa(index))); err != nil {
				return nil, err
			}
		}
		return items, nil
	case map[string]any:
		return s.mapping(value, place)
	default:
		return value, nil
	}
}

func (s *substitution) mapping(mapping map[string]any, place string) (map[string]any, error) {
	result := make(map[string]any, len(mapping))
	for _, key := range slices.Sorted(maps.Keys(mapping)) {
		name, err := expand(key, s.variables)
		if err != nil {
			return nil, err
		}
		if _, twice := result[name]; twice {
			return nil, fmt.Errorf("two keys of one mapping are the same after the substitution, of which one is %s", beginning.FindString(key))
		}
		if result[name], err = s.value(mapping[key], objects.Place(place, key)); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// meaning is what text without quotes is to YAML, if the value is printed as that text.
func meaning(text string) any {
	var document yaml3.Node
	if objects.CheckAliases([]byte(text)) != nil || yaml3.Unmarshal([]byte(text), &document) != nil {
		return text
	}
	if strings.Trim(text, blanks) == "" {
		return nil
	} else if len(document.Content) == 0 {
		return text // a comment
	}
	node := document.Content[0]
	if node.Kind == yaml3.ScalarNode {
		return scalar(node, text)
	}
	if node.Style&yaml3.FlowStyle == 0 {
		return text
	}
	value, err := objects.Value("", []byte("value: "+text))
	if wrapped, isMapping := value.(map[string]any); err == nil && isMapping {
		return wrapped["value"]
	}
	return text
}

// blanks are what YAML leaves out around text without quotes.
const blanks = " \t\r\n"

// scalar keeps a number as text if it would be printed in another way, and every word but true, false and null.
func scalar(node *yaml3.Node, text string) any {
	const quoted = yaml3.DoubleQuotedStyle | yaml3.SingleQuotedStyle
	switch plain := strings.Trim(text, blanks); {
	case node.Style&quoted != 0 && plain[0] == plain[len(plain)-1]: // a comment may follow
		return node.Value
	case plain == "true", plain == "false":
		return plain == "true"
	case plain == "null", plain == "~":
		return nil
	default:
		if number, err := strconv.ParseInt(plain, 10, 64); err == nil && strconv.FormatInt(number, 10) == plain {
			return number
		}
		if number, err := strconv.ParseFloat(plain, 64); err == nil && strconv.FormatFloat(number, 'f', -1, 64) == plain &&
			strings.Contains(plain, ".") {
			return number
		}
		if !strings.Contains(text, "\n") {
			return plain
		}
		return text
	}
}

func failed(object objects.Object, err error, optOut string) *wire.Error {
	return &wire.Error{Kind: wire.SubstituteFailed, File: object.Origin, Message: fmt.Sprintf(
		"%s: %s; write $${ where ${ is meant literally, or annotate the object with %s: \"true\"", title(object), err, optOut)}
}

// mentions is true where substitution could change the object. Most objects have no variable.
func mentions(value any) bool {
	switch value := value.(type) {
	case string:
		return strings.Contains(value, "${")
	case []any:
		return slices.ContainsFunc(value, mentions)
	case map[string]any:
		for key, item := range value {
			if mentions(key) || mentions(item) {
				return true
			}
		}
	}
	return false
}

// expand is envsubst on a text of any size. Backslashes stay outside of substitutions, and text without any stays as it is.
//
// The library copies the rest of the text for each escape and recurses for each variable, which takes minutes for a large
// ConfigMap. So it evaluates only the pieces that are substitutions; the text between them is read once here.
func expand(text string, variables map[string]string) (string, error) {
	if !strings.Contains(text, "${") {
		return text, nil
	}
	var result strings.Builder
	for text != "" {
		start := strings.IndexByte(text, '$')
		if start < 0 {
			start = len(text)
		}
		result.WriteString(text[:start])
		text = text[start:]
		switch {
		case len(text) < 2:
			result.WriteString(text)
			text = ""
		case strings.HasPrefix(text, "$$"):
			result.WriteByte('$')
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
