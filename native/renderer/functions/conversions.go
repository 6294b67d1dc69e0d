package functions

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"text/template"

	"github.com/BurntSushi/toml"
	"github.com/spf13/cast"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"stellwerk/renderer/objects"
)

// formats are the conversions from and to text. Each is strict, so the must-form is the same function.
func formats() template.FuncMap {
	strict := template.FuncMap{
		"toYaml": toYAML, "fromYaml": fromYAML, "fromYamlArray": listFrom(fromYAML),
		"toJson": toJSON, "toPrettyJson": toPrettyJSON, "toRawJson": toRawJSON,
		"fromJson": fromJSON, "fromJsonArray": listFrom(fromJSON),
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

func toJSON(value any) (string, error) {
	text, err := json.Marshal(value)
	return string(text), err
}

func toPrettyJSON(value any) (string, error) {
	text, err := json.MarshalIndent(value, "", "  ")
	return string(text), err
}

// toRawJSON does not escape <, > and &.
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

// listFrom reads a text that holds a list.
func listFrom(read func(text string) (any, error)) func(text string) ([]any, error) {
	return func(text string) ([]any, error) {
		value, err := read(text)
		if err != nil {
			return nil, err
		}
		return asList(value)
	}
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

// numbers are the functions on bits and addresses.
func numbers() template.FuncMap {
	return template.FuncMap{
		"bitwiseShiftLeft":  bitwiseShiftLeft,
		"bitwiseShiftRight": bitwiseShiftRight,
		"bitwiseAnd":        fold(func(a, b uint64) uint64 { return a & b }),
		"bitwiseOr":         fold(func(a, b uint64) uint64 { return a | b }),
		"bitwiseXor":        fold(func(a, b uint64) uint64 { return a ^ b }),
		"parseIPv4Address":  parseIPv4Address,
		"formatIPv4Address": formatIPv4Address,
	}
}

// The value is the last argument, so that a template can pipe it.
func bitwiseShiftLeft(by, value any) (uint64, error) {
	return fold(func(count, bits uint64) uint64 { return bits << count })(by, value)
}

func bitwiseShiftRight(by, value any) (uint64, error) {
	return fold(func(count, bits uint64) uint64 { return bits >> count })(by, value)
}

func fold(operation func(a, b uint64) uint64) func(first any, others ...any) (uint64, error) {
	return func(first any, others ...any) (uint64, error) {
		result, err := wholeNumber(first)
		for _, other := range others {
			next, problem := wholeNumber(other)
			result, err = operation(result, next), errors.Join(err, problem)
		}
		return result, err
	}
}

func wholeNumber(value any) (uint64, error) {
	number, err := cast.ToUint64E(value)
	if err != nil {
		return 0, fmt.Errorf("a whole number from 0 is expected, not %s", objects.KindOf(value))
	}
	return number, nil
}

func parseIPv4Address(text string) (uint32, error) {
	address, err := netip.ParseAddr(text)
	if err != nil || !address.Is4() {
		return 0, errors.New("the text is no IPv4 address such as 10.0.0.1")
	}
	octets := address.As4()
	return binary.BigEndian.Uint32(octets[:]), nil
}

func formatIPv4Address(number any) (string, error) {
	value, err := cast.ToUint64E(number)
	if err != nil || value > math.MaxUint32 {
		return "", fmt.Errorf("a whole number from 0 to %d is expected", math.MaxUint32)
	}
	var octets [4]byte
	binary.BigEndian.PutUint32(octets[:], uint32(value))
	return netip.AddrFrom4(octets).String(), nil
}

// required accepts 0 and false: both are values.
func required(message string, value any) (any, error) {
	if value == nil || value == "" {
		return nil, errors.New(message)
	}
	return value, nil
}
