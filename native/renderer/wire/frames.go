package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"

	kjson "sigs.k8s.io/json"
)

// ReadFrame reads one frame into value. io.EOF means that the other side closed the pipe between two frames.
//
// Numbers without a fraction become int64 where value leaves the type open (see Integers).
func ReadFrame(in io.Reader, value any) error {
	body, err := readBody(in)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(value); err != nil {
		return fmt.Errorf("the frame is no %T: %w", value, err)
	}
	if decoder.More() {
		return fmt.Errorf("the frame holds more than one document")
	}
	return nil
}

func readBody(in io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, err // io.EOF only before the first byte
	}
	size := int64(binary.BigEndian.Uint32(head[:]))
	if size > MaxFrame {
		return nil, fmt.Errorf("a frame of %d bytes is larger than %d", size, MaxFrame)
	}
	var body bytes.Buffer
	if _, err := io.CopyN(&body, in, size); err != nil {
		return nil, fmt.Errorf("the frame ends before its %d bytes: %w", size, io.ErrUnexpectedEOF)
	}
	return body.Bytes(), nil
}

// Frame is value as the bytes of one frame. It fails where value is no JSON or too large.
func Frame(value any) ([]byte, error) {
	var frame bytes.Buffer
	frame.Write(make([]byte, 4))
	encoder := json.NewEncoder(&frame)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	whole := frame.Bytes()
	size := len(whole) - 4
	if size > MaxFrame {
		return nil, fmt.Errorf("a frame of %d bytes is larger than %d", size, MaxFrame)
	}
	binary.BigEndian.PutUint32(whole, uint32(size))
	return whole, nil
}

// Integers is a decoded value with each json.Number made int64 where it is a whole number that fits, else float64.
//
// Templates must print 1000000 as it was written; float64 alone would make it 1e+06.
func Integers(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			value[key] = Integers(inner)
		}
	case []any:
		for index, inner := range value {
			value[index] = Integers(inner)
		}
	case json.Number:
		return number(value)
	}
	return value
}

func number(text json.Number) any {
	if whole, err := text.Int64(); err == nil {
		return whole
	}
	float, err := text.Float64()
	if err != nil {
		return text.String() // beyond all bounds, and JSON knows no infinity
	}
	return float
}

// Decode decodes JSON into value, which stays as it is where there is none. Whole numbers become int64.
func Decode(text json.RawMessage, value any) error {
	if len(text) == 0 {
		return nil
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(text, value)
}
