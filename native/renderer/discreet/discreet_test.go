package discreet

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
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

func TestAWordIsHiddenWhereAMessageEscapesItTwiceOrForAURL(t *testing.T) {
	word := `p"ss\wörd/1`
	once, _ := json.Marshal(word)
	twice, _ := json.Marshal(string(once))
	for _, message := range []string{
		"cannot use " + string(twice), "cannot use https://host/?token=" + url.QueryEscape(word),
		`cannot use p\"ss\\w\u00f6rd/1`,
	} {
		if got := Message(message, []string{word}); strings.Contains(got, "ss") || !strings.Contains(got, mask) {
			t.Errorf("%q became %q", message, got)
		}
	}
}

func TestAMessageIsCutBeforeItIsComparedAndTheCutShowsNoPart(t *testing.T) {
	for room := 4; room < 14; room++ {
		message := strings.Repeat(".", longestMessage-len(cut)-room) + "canary-word" + strings.Repeat("x", 1<<20)
		if got := Message(message, []string{"canary-word"}); strings.Contains(got, "cana") || len(got) > longestMessage {
			t.Errorf("%d: %d bytes end with %q", room, len(got), got[len(got)-30:])
		}
	}
	if got := Message(strings.Repeat("é", longestMessage), nil); !utf8.ValidString(got) || len(got) > longestMessage {
		t.Errorf("%d bytes", len(got))
	}
}

func TestComparingTakesAMomentWhateverTheWordsAre(t *testing.T) {
	numbered, nested := make([]string, 0, 60_000), make([]string, 0, 4_000)
	for number := range 60_000 {
		numbered = append(numbered, fmt.Sprintf("word%06d", number))
	}
	for length := 4; length < 4_000; length++ {
		nested = append(nested, strings.Repeat("a", length))
	}
	for _, words := range [][]string{numbered, nested, {strings.Repeat("line of text\n", 100_000)}} {
		for _, message := range []string{
			strings.Repeat("a", 1<<20), strings.Repeat("word000017 ", 400), strings.Repeat("'`", 3_000),
			strings.Repeat("'xxxxxxxx'", 400) + "...",
		} {
			began := time.Now()
			Message(message, words)
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("%d words, %.20q: %v", len(words), message, took)
			}
		}
	}
}

// Whatever the message and the words are, no word is left, and nothing ends the process.
func FuzzMessage(f *testing.F) {
	f.Add("cannot use hunter2", "hunter2")
	f.Add(`"\ud83d\ude00%c3%a9''\`, "😀é'")
	f.Add("a...", "abcdef")
	f.Fuzz(func(t *testing.T, message, word string) {
		got := Message(message, []string{word})
		if len(word) >= shortest && !strings.Contains(mask, word) && strings.Contains(got, word) &&
			!strings.Contains(mask+word+mask, mask) {
			t.Errorf("%q became %q", message, got)
		}
	})
}
