package functions

import (
	"errors"
	"reflect"
)

// deepestValue is how deep maps and lists may lie in each other before we take it for a cycle.
const deepestValue = 500

var errDeep = errors.New("the value is nested too deep, or holds itself")

// meter adds up what a value comes to when it is written out. A value may hold another one many times, so that little
// memory prints as gigabytes.
type meter struct{ left int }

func (m *meter) take(value reflect.Value, depth int) error {
	if depth > deepestValue {
		return errDeep
	}
	if err := m.takeText(2); err != nil {
		return err
	}
	switch value.Kind() {
	case reflect.String:
		return m.takeText(value.Len())
	case reflect.Interface, reflect.Pointer:
		if !value.IsNil() {
			return m.take(value.Elem(), depth+1)
		}
	case reflect.Slice, reflect.Array:
		return m.takeList(value, depth)
	case reflect.Map:
		return m.takeMap(value, depth)
	}
	return nil
}

func (m *meter) takeText(bytes int) error {
	if m.left -= bytes; m.left < 0 {
		return size(largestText + 1)
	}
	return nil
}

func (m *meter) takeList(value reflect.Value, depth int) error {
	if value.Type().Elem().Kind() == reflect.Uint8 {
		return m.takeText(value.Len())
	}
	for index := range value.Len() {
		if err := m.take(value.Index(index), depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (m *meter) takeMap(value reflect.Value, depth int) error {
	for entries := value.MapRange(); entries.Next(); {
		if err := m.take(entries.Key(), depth+1); err != nil {
			return err
		}
		if err := m.take(entries.Value(), depth+1); err != nil {
			return err
		}
	}
	return nil
}

// checkCycle refuses to put a map into itself: printing such a value would end the process.
func checkCycle(target, value any) error {
	map0, isMap := target.(map[string]any)
	if !isMap {
		return nil
	}
	search := search{target: reflect.ValueOf(map0).Pointer(), seen: map[place]bool{}}
	return search.in(reflect.ValueOf(value), 0)
}

// search looks for a map within a value, and looks at each part of the value once.
type search struct {
	target uintptr
	seen   map[place]bool
}

type place struct {
	address uintptr
	length  int
}

func (s search) in(value reflect.Value, depth int) error {
	if depth > deepestValue {
		return errDeep
	}
	switch value.Kind() {
	case reflect.Interface:
		return s.in(value.Elem(), depth)
	case reflect.Slice:
		if s.visited(value) {
			return nil
		}
		for index := range value.Len() {
			if err := s.in(value.Index(index), depth+1); err != nil {
				return err
			}
		}
	case reflect.Map:
		if value.Pointer() == s.target {
			return errors.New("a map cannot hold itself")
		}
		if s.visited(value) {
			return nil
		}
		for entries := value.MapRange(); entries.Next(); {
			if err := s.in(entries.Value(), depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s search) visited(value reflect.Value) bool {
	here := place{value.Pointer(), value.Len()}
	known := s.seen[here]
	s.seen[here] = true
	return known
}

func checkMerge(arguments []any) error {
	for _, source := range arguments[1:] {
		if source, isMap := source.(map[string]any); isMap {
			for _, value := range source {
				if err := checkCycle(arguments[0], value); err != nil {
					return err
				}
			}
		}
	}
	return checkValues(arguments)
}
