package functions

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"text/template"

	"github.com/spf13/cast"

	"stellwerk/renderer/objects"
)

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

// required lets 0 and false pass: both are answers.
func required(message string, value any) (any, error) {
	if value == nil || value == "" {
		return nil, errors.New(message)
	}
	return value, nil
}
