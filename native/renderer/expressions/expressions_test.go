package expressions

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"stellwerk/renderer/wire"
)

const self = `{"metadata": {"name": "app", "labels": {"tier": "two"}}, "spec": {"values": {"needs": 2}}}`
const dep = `{
	"metadata": {"name": "base", "generation": 3},
	"status": {"observedGeneration": 3, "revision": 2, "state": "Processing", "load": 0.5,
		"conditions": [{"type": "Ready", "status": "False"}, {"type": "Migrated", "status": "True"}]}
}`

func claim(t *testing.T, text string) *wire.Claim {
	t.Helper()
	made := &wire.Claim{Text: text, Objects: map[string]map[string]any{}}
	for name, body := range map[string]string{"self": self, "dep": dep} {
		decoder := json.NewDecoder(strings.NewReader(body))
		decoder.UseNumber()
		object := map[string]any{}
		if err := decoder.Decode(&object); err != nil {
			t.Fatal(err)
		}
		made.Objects[name] = object
	}
	return made
}

func TestAnExpressionSeesBothObjects(t *testing.T) {
	for text, want := range map[string]bool{
		`dep.status.conditions.exists(c, c.type == "Migrated" && c.status == "True")`: true,
		`dep.status.conditions.all(c, c.status == "True")`:                            false,
		`dep.status.observedGeneration == dep.metadata.generation`:                    true,
		`dep.status.revision >= self.spec.values.needs && dep.status.load < 1`:        true,
		`has(dep.metadata.labels) || self.metadata.labels.tier.startsWith("t")`:       true,
		`dep.?metadata.?annotations[?"done"].orValue("no") == "yes"`:                  false,
		`self.metadata.name.upperAscii() == "APP"`:                                    true,
		"dep.status\n  .state != 'Ready'":                                             true,
	} {
		holds, err := Holds(claim(t, text))
		if err != nil || holds != want {
			t.Errorf("%s: got %v %v, want %v", text, holds, err, want)
		}
	}
}

func refusal(t *testing.T, text, kind string) *wire.Error {
	t.Helper()
	_, err := Holds(claim(t, text))
	var known *wire.Error
	if !errors.As(err, &known) || known.Kind != kind {
		t.Fatalf("%.80s: got %v, want %s", text, err, kind)
	}
	return known
}

func TestAnExpressionThatMeansNothingIsRefusedWithItsPlace(t *testing.T) {
	found := refusal(t, "true &&\n  deb.status.ready", wire.InvalidExpression)
	if found.Line != 2 || found.Column != 3 || !strings.Contains(found.Message, "undeclared reference to 'deb'") {
		t.Errorf("got %d:%d %s", found.Line, found.Column, found.Message)
	}
	found = refusal(t, "dep.status.", wire.InvalidExpression)
	if found.Line != 1 || found.Column == 0 || strings.Contains(found.Message, "\n") {
		t.Errorf("got %d:%d %q", found.Line, found.Column, found.Message)
	}
	for _, text := range []string{"", "'yes'", "1 + 1", "size(dep)", strings.Repeat("(", 200) + "true" + strings.Repeat(")", 200)} {
		refusal(t, text, wire.InvalidExpression)
	}
	refusal(t, "true || "+strings.Repeat(" ", longestText)+"false", wire.InvalidExpression)
}

func TestAnExpressionThatHasNoAnswerSaysWhy(t *testing.T) {
	for text, words := range map[string]string{
		"dep.status.ready":             "no such key: ready",
		"dep.metadata.name":            "must be a bool",
		"dep.status.revision / 0 == 1": "division by zero",
		"dep.spec.values.replicas > 1": "no such key: spec",
		"int(self.metadata.name) > 1":  "type conversion error",
		many:                           "steps",
	} {
		if found := refusal(t, text, wire.ExpressionFailed); !strings.Contains(found.Message, words) {
			t.Errorf("%.80s: got %q, want %q", text, found.Message, words)
		}
	}
}

const list = "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20"

// many is five loops in each other: 3 million steps.
var many = "[" + list + "].all(a, [" + list + "].all(b, [" + list + "].all(c, [" + list + "].all(d, [" + list +
	"].all(e, a + b + c + d + e > 0)))))"

func TestNothingIsLeftForTheNextClaim(t *testing.T) {
	first := claim(t, "other.x == 1")
	first.Objects["other"] = map[string]any{"x": json.Number("1")}
	if holds, err := Holds(first); err != nil || !holds {
		t.Fatal(holds, err)
	}
	refusal(t, "other.x == 1", wire.InvalidExpression)
}
