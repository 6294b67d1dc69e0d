// Package texts executes single templates, each of which makes one short text: a DNS name, the target of a record.
//
// They have sprig's text functions that always make the same of the same arguments. Those that read the clock, the
// environment or the network, or make keys and random values, are removed: a caller executes the templates in each pass,
// and a result that changes by itself would be written again and again.
package texts

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"text/template"

	"github.com/Masterminds/sprig/v3"

	shared "stellwerk/renderer/functions"
	"stellwerk/renderer/wire"
)

// longestText is how many bytes one result may have; a DNS name has 253 at most.
const longestText = 4 << 10

// Execute returns for each row the texts of all templates. The keys of a row are the variables.
func Execute(request *wire.Texts) ([][]string, error) {
	parsed := make([]*template.Template, len(request.Templates))
	for index, one := range request.Templates {
		made, err := template.New(one.Name).Option("missingkey=error").Funcs(functions()).Parse(one.Text)
		if err != nil {
			return nil, failed(one.Name, err)
		}
		parsed[index] = made
	}
	rows := make([][]string, len(request.Rows))
	for number, row := range request.Rows {
		texts := make([]string, len(parsed))
		for index, one := range parsed {
			var text bounded
			if err := one.Execute(&text, row); err != nil {
				return nil, failed(one.Name(), err)
			}
			texts[index] = text.String()
		}
		rows[number] = texts
	}
	return rows, nil
}

// functions is shared by all templates, which do not change it.
var functions = sync.OnceValue(func() template.FuncMap {
	all := sprig.HermeticTxtFuncMap()
	for _, name := range shared.Changing() {
		delete(all, name)
	}
	return all
})

// bounded is a text that refuses to grow beyond what a caller can use.
type bounded struct{ strings.Builder }

var errTooLong = fmt.Errorf("the text is longer than %d bytes", longestText)

// Write adds to the text.
func (b *bounded) Write(text []byte) (int, error) {
	if b.Len()+len(text) > longestText {
		return 0, errTooLong
	}
	return b.Builder.Write(text)
}

// failed names the template and the cause. The name of a template is what text/template's own message begins with.
func failed(name string, err error) *wire.Error {
	kind := wire.TemplateFailed
	if errors.Is(err, errTooLong) {
		kind = wire.LimitExceeded
	}
	return &wire.Error{Kind: kind, Message: strings.TrimPrefix(err.Error(), "template: "), File: name}
}
