package wire_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// words are the field names of the protocol and the kinds of errors, as wire.go spells them.
func words(t *testing.T) []string {
	file, err := parser.ParseFile(token.NewFileSet(), "wire.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.Field:
			if node.Tag != nil {
				tag, _ := strconv.Unquote(node.Tag.Value)
				name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
				found = append(found, name)
			}
		case *ast.ValueSpec:
			for _, value := range node.Values {
				if text, isText := value.(*ast.BasicLit); isText && text.Kind == token.STRING {
					kind, _ := strconv.Unquote(text.Value)
					found = append(found, kind)
				}
			}
		}
		return true
	})
	return found
}

func TestThePageAboutTheProtocolNamesAllOfIt(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reference/renderer.md")
	if err != nil {
		t.Fatal(err)
	}
	all := words(t)
	if len(all) < 40 {
		t.Fatalf("only %d words were found: %v", len(all), all)
	}
	for _, word := range all {
		if !strings.Contains(string(page), word) {
			t.Errorf("%s is not on the page", word)
		}
	}
}
