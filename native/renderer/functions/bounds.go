package functions

import (
	"fmt"
	"text/template"

	"github.com/Masterminds/sprig/v3"
	"github.com/spf13/cast"
)

// The bounds. A text of 16 MiB is larger than any object that an API server takes; a list of 100,000 longer than any
// manifest that makes sense; and each key costs up to seconds of computing.
const (
	largestText      = 16 << 20
	longestList      = 100_000
	keysPerRendering = 20
)

// allowance counts down what one rendering may spend on keys.
type allowance struct{ left int }

func (a *allowance) take(name string) error {
	if a.left == 0 {
		return fmt.Errorf("%s: one rendering may make %d keys, certificates or password hashes and no more", name, keysPerRendering)
	}
	a.left--
	return nil
}

func checkText(name, text string) error {
	return checkSize(name, len(text))
}

func checkSize(name string, size int) error {
	if size < 0 || size > largestText {
		return fmt.Errorf("%s: a text may have %d MiB and no more", name, largestText>>20)
	}
	return nil
}

func checkLength(name string, length int) error {
	if length < 0 || length > longestList {
		return fmt.Errorf("%s: a list may have %d items and no more", name, longestList)
	}
	return nil
}

func bounded(*allowance) template.FuncMap {
	_ = sprig.TxtFuncMap
	_ = cast.ToInt
	return template.FuncMap{}
}
