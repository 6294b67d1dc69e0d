package texts

import (
	"reflect"
	"strings"
	"testing"

	"stellwerk/renderer/wire"
)

func execute(text string, rows ...map[string]string) ([][]string, error) {
	return Execute(&wire.Texts{Templates: []wire.TextTemplate{{Name: "target", Text: text}}, Rows: rows})
}

func TestEachRowHasTheTextsOfAllTemplates(t *testing.T) {
	made, err := Execute(&wire.Texts{
		Templates: []wire.TextTemplate{
			{Name: "name", Text: "{{.subDomain}}.{{.domain}}"},
			{Name: "target", Text: `{{ printf "x.%s" .domain | upper }}`},
		},
		Rows: []map[string]string{
			{"domain": "example.com", "subDomain": "one"},
			{"domain": "example.com", "subDomain": "two"},
		},
	})
	expected := [][]string{{"one.example.com", "X.EXAMPLE.COM"}, {"two.example.com", "X.EXAMPLE.COM"}}
	if err != nil || !reflect.DeepEqual(made, expected) {
		t.Fatalf("%v, %v", made, err)
	}
}

func TestAnErrorNamesTheTemplateAndThePlace(t *testing.T) {
	for text, cause := range map[string]string{
		"{{ .domain":              "unclosed action",
		"{{ .subdomain }}":        "subdomain",
		"{{ fail \"not here\" }}": "not here",
		"{{ nothing .domain }}":   "not defined",
	} {
		_, err := execute(text, map[string]string{"domain": "example.com"})
		known, isKnown := err.(*wire.Error)
		if !isKnown || known.Kind != wire.TemplateFailed || known.File != "target" || !strings.Contains(known.Message, cause) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestALongTextIsRefused(t *testing.T) {
	_, err := execute(`{{ range until 5000 }}x{{ end }}`, map[string]string{})
	if known, isKnown := err.(*wire.Error); !isKnown || known.Kind != wire.LimitExceeded {
		t.Errorf("%v", err)
	}
}

func TestFunctionsWhoseResultChangesByItselfAreNotOffered(t *testing.T) {
	for _, call := range []string{
		"now", "env \"HOME\"", "expandenv \"$HOME\"", "getHostByName \"localhost\"", "uuidv4", "randAlpha 5", "randInt 0 9",
		"shuffle \"abc\"", "genPrivateKey \"rsa\"", "htpasswd \"a\" \"b\"", "bcrypt \"a\"", "encryptAES \"a\" \"b\"",
	} {
		if _, err := execute("{{ "+call+" }}", map[string]string{}); err == nil {
			t.Errorf("%s is offered", call)
		}
	}
}
