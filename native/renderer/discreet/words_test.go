package discreet

import (
	"strings"
	"testing"

	"stellwerk/renderer/wire"
)

const (
	cipher   = "ENC[AES256_GCM,data:x,type:str]"
	metadata = "sops: {mac: \"ENC[AES256_GCM,data:y,type:str]\"}\n"
	inJSON   = `{"data": "` + cipher + `", "sops": {"mac": "ENC[AES256_GCM,data:y,type:str]"}}`
)

// shownOf is a message about a file after its secret words are hidden.
func shownOf(message, encrypted, clear string) string {
	opened := map[string]wire.Opened{"a": {Encrypted: []byte(encrypted), Clear: []byte(clear)}}
	return Message(message, Decrypted(opened))
}

func TestTheValuesOfEachEncryptedDocumentAreHiddenAndWhatIsInClearTextIsNot(t *testing.T) {
	encrypted := strings.Join([]string{
		"kind: Secret\npassword: " + cipher + "\n" + metadata,
		metadata,
		"kind: ConfigMap\nlist: [open, {name: \"" + cipher + "\"}]\n" + metadata,
	}, "---\n")
	clear := "kind: Secret\npassword: canary-one\n---\n{}\n---\nkind: ConfigMap\nlist: [open, {name: canary-two}]\n"
	got := shownOf("Secret ConfigMap open password canary-one canary-two", encrypted, clear)
	if got != "Secret ConfigMap open password *** ***" {
		t.Error(got)
	}
}

func TestAllOfAFileIsHiddenWhereItsDocumentsCannotBeCompared(t *testing.T) {
	mapping := "password: " + cipher + "\n" + metadata
	for name, test := range map[string]struct{ encrypted, clear string }{
		"more documents":    {mapping, "password: open\n---\npassword: canary-value\n"},
		"fewer documents":   {mapping + "---\n" + mapping, "password: canary-value\n"},
		"no mapping":        {mapping + "---\n" + cipher, "password: open\n---\ncanary-value\n"},
		"encrypted as text": {"password=" + cipher + "\nsops_mac=" + cipher + "\n", "password: canary-value\n"},
		"not readable":      {mapping + "password: " + cipher + "\n", "password: canary-value\n"},
		"nothing to read":   {"# " + cipher, "password: canary-value\n"},
	} {
		if got := shownOf("cannot use canary-value", test.encrypted, test.clear); got != "cannot use ***" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestAllOfAFileThatWasEncryptedAsOneTextIsHiddenAlsoWhereItIsAMapping(t *testing.T) {
	asYAML := "data: " + cipher + "\n" + metadata
	for _, clear := range []string{
		"user: me\npassword: canary-value\n", "{user: me, password: canary-value, port: 80}", `{"auths": {"host": ["canary-value"]}}`,
		"data: canary-value\n", "a: null\nb: \"canary\\u002dvalue\"\n", "[db]\npassword = canary-value\n",
	} {
		for _, encrypted := range []string{inJSON, asYAML} {
			if got := shownOf("cannot use canary-value", encrypted, clear); got != "cannot use ***" {
				t.Errorf("%q: %s", clear, got)
			}
		}
	}
}

func TestTheWordsOfAnEncryptedTextAreHiddenWhateverPunctuationIsNextToThem(t *testing.T) {
	for _, clear := range []string{
		"x = {password: `canary-value`, y: other-value}; foo(bar-baz);", "canary-value; other-value;\nfoo[bar-baz]",
		"<a>canary-value</a><b c=other-value>(bar-baz)</b>", "canary-value:other-value,bar-baz",
	} {
		if got := shownOf("cannot use canary-value, other-value or bar-baz", inJSON, clear); got != "cannot use ***, *** or ***" {
			t.Errorf("%q: %s", clear, got)
		}
	}
	if got := shownOf("cannot use (ca:ary,va;ue", inJSON, "password (ca:ary,va;ue"); got != "cannot use ***" {
		t.Errorf("punctuation in a value: %s", got)
	}
}

func TestADocumentThatHasDataAmongOtherKeysIsComparedValueByValue(t *testing.T) {
	encrypted := "kind: ConfigMap\ndata: " + cipher + "\n" + metadata
	if got := shownOf("ConfigMap canary-value", encrypted, "kind: ConfigMap\ndata: canary-value\n"); got != "ConfigMap ***" {
		t.Error(got)
	}
	documents := "data: " + cipher + "\n" + metadata + "---\nkind: ConfigMap\n" + metadata
	if got := shownOf("ConfigMap canary-value", documents, "data: canary-value\n---\nkind: ConfigMap\n"); got != "ConfigMap ***" {
		t.Error(got)
	}
}
