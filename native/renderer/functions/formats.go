package functions

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"text/template"

	"github.com/BurntSushi/toml"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"stellwerk/renderer/objects"
)

// formats are the conversions from and to text. Each is strict, so the must-form is the same function.
func formats() template.FuncMap {
	strict := template.FuncMap{
		"toYaml": toYAML, "fromYaml": fromYAML, "fromYamlArray": fromYAMLArray,
		"toJson": toJSON, "toPrettyJson": toPrettyJSON, "toRawJson": toRawJSON,
		"fromJson": fromJSON, "fromJsonArray": fromJSONArray,
		"toToml": toTOML, "fromToml": fromTOML,
	}
	all := template.FuncMap{}
	for name, function := range strict {
		all[name] = function
		all["must"+strings.ToUpper(name[:1])+name[1:]] = function
	}
	return all
}

func toYAML(value any) (string, error) {
	text, err := yaml.Marshal(value)
	return strings.TrimSuffix(string(text), "\n"), err
}

func fromYAML(text string) (any, error) {
	if err := objects.CheckUnfolding([]byte(text)); err != nil {
		return nil, fmt.Errorf("fromYaml: the text %w", err)
	}
	asJSON, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return nil, err
	}
	return Decode(asJSON)
}

func fromYAMLArray(text string) ([]any, error) {
	value, err := fromYAML(text)
	if err != nil {
		return nil, err
	}
	return asList(value)
}

func toJSON(value any) (string, error) {
	text, err := json.Marshal(value)
	return string(text), err
}

func toPrettyJSON(value any) (string, error) {
	text, err := json.MarshalIndent(value, "", "  ")
	return string(text), err
}

// toRawJSON leaves <, > and & as they are.
func toRawJSON(value any) (string, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return strings.TrimSuffix(text.String(), "\n"), err
}

func fromJSON(text string) (any, error) {
	return Decode([]byte(text))
}

func fromJSONArray(text string) ([]any, error) {
	value, err := fromJSON(text)
	if err != nil {
		return nil, err
	}
	return asList(value)
}

func asList(value any) ([]any, error) {
	list, ok := value.([]any)
	if !ok && value != nil {
		return nil, fmt.Errorf("a list is expected, not %s", objects.KindOf(value))
	}
	return list, nil
}

func toTOML(value any) (string, error) {
	var text bytes.Buffer
	err := toml.NewEncoder(&text).Encode(value)
	return text.String(), err
}

func fromTOML(text string) (map[string]any, error) {
	value := map[string]any{}
	_, err := toml.Decode(text, &value)
	return value, err
}

// Decode reads JSON as templates need it: an integer stays one, so that 1000000 prints as 1000000 and not as 1e+06.
func Decode(text []byte) (any, error) {
	var value any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &value); err != nil {
		return nil, err
	}
	if objects.IsTooDeep(value) {
		return nil, fmt.Errorf("the text is nested deeper than %d levels", objects.MaxDepth)
	}
	return Exact(value), nil
}

// Exact replaces each float64 that is a whole number by an int64. It changes maps and lists in place.
func Exact(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, item := range value {
			value[key] = Exact(item)
		}
	case []any:
		for index, item := range value {
			value[index] = Exact(item)
		}
	case float64:
		if value == math.Trunc(value) && math.Abs(value) < 1<<53 {
			return int64(value)
		}
	}
	return value
}
