package kustomizations

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"text/template"
)

// tolerant has the functions that take a whole number as a floating one.
//
// Values come from JSON. Where every number was a float, templates compared with 1.0 and printed with %.0f; they must
// still work now that a whole number is an integer. A chart has Helm's functions instead.
func tolerant() template.FuncMap {
	return template.FuncMap{
		"printf": func(format string, arguments ...any) string {
			return fmt.Sprintf(format, floatArguments(format, arguments)...)
		},
		"eq": equalAny,
		"ne": func(a, b any) (bool, error) {
			equal, err := equal(a, b)
			return !equal, err
		},
		"lt": ordered(func(order int) bool { return order < 0 }),
		"le": ordered(func(order int) bool { return order <= 0 }),
		"gt": ordered(func(order int) bool { return order > 0 }),
		"ge": ordered(func(order int) bool { return order >= 0 }),
	}
}

// verb finds each verb of a format; the group is empty for %%.
var verb = regexp.MustCompile(`%[-+# 0]*(?:\d+|\*)?(?:\.(?:\d+|\*)?)?([a-zA-Z%])`)

// floatArguments turns whole numbers into floats where the verb expects one. Formats with %[1]d or * stay as they are.
func floatArguments(format string, arguments []any) []any {
	result := append([]any(nil), arguments...)
	next := 0
	for _, match := range verb.FindAllStringSubmatch(format, -1) {
		if match[1] == "%" {
			continue
		}
		if next >= len(result) {
			break
		}
		if whole, isWhole := result[next].(int64); isWhole {
			switch match[1] {
			case "e", "E", "f", "F", "g", "G":
				result[next] = float64(whole)
			}
		}
		next++
	}
	return result
}

func equalAny(first any, others ...any) (bool, error) {
	for _, other := range others {
		if same, err := equal(first, other); same || err != nil {
			return same, err
		}
	}
	if len(others) == 0 {
		return false, errors.New("eq needs two values at least")
	}
	return false, nil
}

func equal(a, b any) (bool, error) {
	order, err := compare(a, b)
	switch {
	case err == nil:
		return order == 0, nil
	case a == nil || b == nil:
		return a == b, nil
	case !reflect.ValueOf(a).Comparable() || !reflect.ValueOf(b).Comparable():
		return false, errors.New("maps, lists and functions cannot be compared; deepEqual can")
	case reflect.TypeOf(a).Kind() == reflect.TypeOf(b).Kind():
		return a == b, nil
	default:
		return false, err
	}
}

func ordered(holds func(order int) bool) func(a, b any) (bool, error) {
	return func(a, b any) (bool, error) {
		order, err := compare(a, b)
		return err == nil && holds(order), err
	}
}

// compare orders two texts, or two numbers of any type.
func compare(a, b any) (int, error) {
	one, other := reflect.ValueOf(a), reflect.ValueOf(b)
	switch {
	case one.Kind() == reflect.String && other.Kind() == reflect.String:
		return cmp.Compare(one.String(), other.String()), nil
	case one.CanInt() && other.CanInt():
		return cmp.Compare(one.Int(), other.Int()), nil
	case isNumber(one) && isNumber(other):
		return cmp.Compare(asFloat(one), asFloat(other)), nil
	default:
		return 0, errors.New("the values cannot be compared: only numbers with numbers, and texts with texts")
	}
}

func isNumber(value reflect.Value) bool {
	return value.IsValid() && (value.CanInt() || value.CanUint() || value.CanFloat())
}

func asFloat(value reflect.Value) float64 { return value.Convert(reflect.TypeFor[float64]()).Float() }
