package functions

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"text/template"
)

// The bounds. A text of 16 MiB is larger than any object that an API server takes; a list of 100,000 longer than any
// manifest that makes sense; and each key costs up to seconds of computing.
const (
	largestText      = 16 << 20
	longestList      = 100_000
	keysPerRendering = 20
)

// A check looks at the arguments of one call, of which the name is known to the caller.
type check func(arguments []any) error

// bounds are the checks of functions that can make much out of little.
var bounds = map[string]check{
	"repeat":      func(a []any) error { return product(a[0].(int), len(a[1].(string))) },
	"indent":      checkIndent,
	"nindent":     checkIndent,
	"wrapWith":    checkWrap,
	"replace":     func(a []any) error { return checkReplace(a[0].(string), a[1].(string), a[2].(string)) },
	"until":       func(a []any) error { return steps(0, a[0].(int), 1) },
	"untilStep":   func(a []any) error { return steps(a[0].(int), a[1].(int), a[2].(int)) },
	"seq":         checkSeq,
	"randAlpha":   checkCount,
	"randAscii":   checkCount,
	"randNumeric": checkCount, "randAlphaNum": checkCount, "randBytes": checkCount,
	"split": checkSplit, "splitList": checkSplit, "splitn": func(a []any) error { return checkSplit([]any{a[0], a[2]}) },
	"regexReplaceAll": checkRegexReplace, "regexReplaceAllLiteral": checkRegexReplace,
	"mustRegexReplaceAll": checkRegexReplace, "mustRegexReplaceAllLiteral": checkRegexReplace,
	"join":   checkJoin,
	"concat": checkConcat,
	"printf": checkPrintf,
	"set":    func(a []any) error { return checkCycle(a[0], a[2]) },
	"merge":  checkMerge, "mergeOverwrite": checkMerge, "mustMerge": checkMerge, "mustMergeOverwrite": checkMerge,
	"print": checkValues, "println": checkValues, "cat": checkValues, "quote": checkValues, "squote": checkValues,
	"toString": checkValues, "toStrings": checkValues, "deepCopy": checkValues, "mustDeepCopy": checkValues,
	"toYaml": checkValues, "toJson": checkValues, "toPrettyJson": checkValues, "toRawJson": checkValues, "toToml": checkValues,
	"mustToYaml": checkValues, "mustToJson": checkValues, "mustToPrettyJson": checkValues, "mustToRawJson": checkValues,
	"mustToToml": checkValues,
}

// keyMakers are the functions that compute for long, be it for a key or for the hash of a password.
var keyMakers = []string{
	"genPrivateKey", "genCA", "genCAWithKey", "genSelfSignedCert", "genSelfSignedCertWithKey", "genSignedCert",
	"genSignedCertWithKey", "derivePassword", "bcrypt", "htpasswd",
}

// bound puts the checks before the functions of a map. The built-in print family comes with them.
func bound(all template.FuncMap) {
	all["print"], all["printf"], all["println"] = fmt.Sprint, fmt.Sprintf, fmt.Sprintln
	for name, check := range bounds {
		all[name] = guarded(name, all[name], check)
	}
}

// rationed gives one rendering its share of keys.
func rationed(all template.FuncMap) {
	left := keysPerRendering
	take := func([]any) error {
		if left == 0 {
			return fmt.Errorf("one rendering may make %d keys, certificates or password hashes and no more", keysPerRendering)
		}
		left--
		return nil
	}
	for _, name := range keyMakers {
		all[name] = guarded(name, all[name], take)
	}
}

var errorType = reflect.TypeFor[error]()

// guarded returns a function with the same arguments which may fail before it does anything.
func guarded(name string, function any, check check) any {
	inner := reflect.ValueOf(function)
	kind := inner.Type()
	fails := kind.NumOut() == 2
	call := func(arguments []reflect.Value) []reflect.Value {
		if err := check(plainArguments(kind, arguments)); err != nil {
			return []reflect.Value{reflect.Zero(kind.Out(0)), reflect.ValueOf(fmt.Errorf("%s: %w", name, err))}
		}
		results := callWith(inner, kind, arguments)
		if !fails {
			results = append(results, reflect.Zero(errorType))
		}
		return results
	}
	inputs := make([]reflect.Type, kind.NumIn())
	for index := range inputs {
		inputs[index] = kind.In(index)
	}
	outputs := []reflect.Type{kind.Out(0), errorType}
	return reflect.MakeFunc(reflect.FuncOf(inputs, outputs, kind.IsVariadic()), call).Interface()
}

func callWith(inner reflect.Value, kind reflect.Type, arguments []reflect.Value) []reflect.Value {
	if kind.IsVariadic() {
		return inner.CallSlice(arguments)
	}
	return inner.Call(arguments)
}

// plainArguments spreads what a variadic function has in its last argument.
func plainArguments(kind reflect.Type, arguments []reflect.Value) []any {
	plain := make([]any, 0, len(arguments))
	for index, argument := range arguments {
		if !kind.IsVariadic() || index < len(arguments)-1 {
			plain = append(plain, argument.Interface())
			continue
		}
		for item := range argument.Len() {
			plain = append(plain, argument.Index(item).Interface())
		}
	}
	return plain
}

func checkText(name, text string) error {
	if err := size(len(text)); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func size(bytes int) error {
	if bytes > largestText {
		return fmt.Errorf("a text may have %d MiB and no more", largestText>>20)
	}
	return nil
}

func length(items int) error {
	if items > longestList {
		return fmt.Errorf("a list may have %d items and no more", longestList)
	}
	return nil
}

// product checks a size that is a product, of numbers which may be too large to multiply.
func product(one, other int) error {
	if one < 0 {
		return fmt.Errorf("a number from 0 is expected, not %d", one)
	}
	if other > 0 && one > largestText/other {
		return size(largestText + 1)
	}
	return nil
}

// steps counts in floats, and refuses numbers at which sprig's loop would overflow and never end.
func steps(start, stop, step int) error {
	first, last, width := math.Abs(float64(start)), math.Abs(float64(stop)), math.Abs(float64(step))
	if max(first, last, width) > 1<<53 {
		return errors.New("the numbers are too large")
	}
	if step == 0 || math.Abs(float64(stop)-float64(start))/width <= longestList {
		return nil
	}
	return length(longestList + 1)
}

func checkSeq(arguments []any) error {
	numbers := make([]int, len(arguments))
	for index, argument := range arguments {
		numbers[index] = argument.(int)
	}
	switch len(numbers) {
	case 1:
		return steps(1, numbers[0], 1)
	case 2:
		return steps(numbers[0], numbers[1], 1)
	case 3:
		return steps(numbers[0], numbers[2], numbers[1])
	default:
		return nil
	}
}

func checkIndent(arguments []any) error {
	spaces, text := arguments[0].(int), arguments[1].(string)
	return product(spaces, strings.Count(text, "\n")+1)
}

func checkWrap(arguments []any) error {
	width, separator, text := arguments[0].(int), arguments[1].(string), arguments[2].(string)
	return product(len(text)/max(width, 1)+1, len(separator))
}

func checkCount(arguments []any) error { return product(arguments[0].(int), 1) }

func checkReplace(old, replacement, text string) error {
	return product(strings.Count(text, old), len(replacement))
}

// checkRegexReplace counts on every place of the text being replaced only where that could be too much.
func checkRegexReplace(arguments []any) error {
	text, replacement := arguments[1].(string), arguments[2].(string)
	references := strings.Count(replacement, "$")
	if err := product(len(text)+1, len(replacement)); err == nil {
		return product(references, len(text))
	}
	return fmt.Errorf("the text and its replacement are too long for each other")
}

func checkSplit(arguments []any) error {
	return length(strings.Count(arguments[1].(string), arguments[0].(string)))
}

func checkJoin(arguments []any) error {
	list := reflect.ValueOf(arguments[1])
	if list.IsValid() && (list.Kind() == reflect.Slice || list.Kind() == reflect.Array) {
		if err := product(list.Len(), len(arguments[0].(string))); err != nil {
			return err
		}
	}
	return checkValues(arguments)
}

func checkConcat(arguments []any) error {
	total := 0
	for _, argument := range arguments {
		if list := reflect.ValueOf(argument); list.IsValid() && list.Kind() == reflect.Slice {
			total += list.Len()
		}
	}
	return length(total)
}

// checkPrintf knows that a format may name one argument many times: %[1]s%[1]s.
func checkPrintf(arguments []any) error {
	format, _ := arguments[0].(string)
	meter := meter{left: largestText}
	for _, argument := range arguments[1:] {
		if err := meter.take(reflect.ValueOf(argument), 0); err != nil {
			return err
		}
	}
	if strings.Contains(format, "%[") {
		return product(strings.Count(format, "%"), largestText-meter.left)
	}
	return nil
}

func checkValues(arguments []any) error {
	meter := meter{left: largestText}
	for _, argument := range arguments {
		if err := meter.take(reflect.ValueOf(argument), 0); err != nil {
			return err
		}
	}
	return nil
}
