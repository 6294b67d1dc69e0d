package discreet

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestAWordIsHiddenHoweverItIsSpelled(t *testing.T) {
	word := "hun\"ter'2\n<second> line"
	inJSON, _ := json.Marshal(word)
	for _, message := range []string{
		"cannot use hun\"ter'2\n<second> line",
		`parsing "hun\"ter'2\n<second> line": invalid`,
		"cannot use " + string(inJSON),
		"cannot use 'hun\"ter''2'",
		"on <second> line",
	} {
		got := Message(message, []string{word})
		if strings.Contains(got, "hun") || strings.Contains(got, "second") || !strings.Contains(got, mask) {
			t.Errorf("%q became %q", message, got)
		}
	}
}

func TestAPartOfAWordIsHiddenWhereItIsQuotedOrCut(t *testing.T) {
	for message, want := range map[string]string{
		"cannot unmarshal !!str `canary-...` into int":          "cannot unmarshal !!str `***` into int",
		"error parsing regexp: missing closing ]: `ary-value`":  "error parsing regexp: missing closing ]: `***`",
		`it can't be "other" but is 'canary-val' in 'canary-v'`: `it can't be "other" but is '***' in '***'`,
		"what a long story about canary-...":                    "what a long story about ***...",
		`there is no template "canary"`:                         `there is no template "***"`,
		`there is no template "can"`:                            `there is no template "can"`,
		"the end...":                                            "the end...",
	} {
		if got := Message(message, []string{"canary-value"}); got != want {
			t.Errorf("%q became %q", message, got)
		}
	}
}

func TestShortWordsStay(t *testing.T) {
	if got := Message("on or off", []string{"on", "off", ""}); got != "on or off" {
		t.Error(got)
	}
}

type answer string

func (a answer) Ask(string, map[string]any) (json.RawMessage, bool, error) {
	return json.RawMessage(a), true, nil
}

func TestWhatASecretAnswersIsRememberedAndNothingElse(t *testing.T) {
	said := answer(`{"kind": "Secret", "metadata": {"name": "known"}, "data": {"password": "Y2FuYXJ5LXZhbHVl"}}`)
	witness := &Witness{Asker: said}
	for _, kind := range []string{"ConfigMap", "Secret"} {
		if _, _, err := witness.Ask("lookup", map[string]any{"kind": kind}); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(witness.Words(), " "); got != "Y2FuYXJ5LXZhbHVl canary-value" {
		t.Error(got)
	}
}
