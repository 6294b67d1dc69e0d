package decrypt

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"stellwerk/renderer/objects"
	"stellwerk/renderer/wire"
)

// No ciphertext is applied: a program would read it as its password. A key may be absent, have a name that is no key's,
// or the setting may be forgotten, and the result looks right in each case.
//
// The objects decide, and not the files: an encrypted file that nothing uses is no mistake. Only files of values are looked
// at themselves, because they may have a part in objects without a trace.

var (
	// ciphertext is one value as SOPS writes it.
	ciphertext = regexp.MustCompile(`ENC\[AES256_GCM,data:[A-Za-z0-9+/=]*,iv:[A-Za-z0-9+/=]+,tag:[A-Za-z0-9+/=]+,type:\w+\]`)
	beginning  = "ENC[AES256_GCM,data:"
	// inBase64 are the three forms that the beginning has inside of a longer text in base64.
	inBase64 = []string{"RU5DW0FFUzI1Nl9HQ00sZGF0YT", "VOQ1tBRVMyNTZfR0NNLGRhdGE6", "FTkNbQUVTMjU2X0dDTSxkYXRhO"}
)

// A place is what has ciphertext, and the ciphertext where it can be searched for in files.
type place struct{ what, text string }

// CheckValues refuses values and variables that SOPS encrypted: they come from the spec and from Secrets, which nothing
// decrypts.
func CheckValues(req *wire.Request) error {
	text, found := ciphertextIn(req.Values)
	if !found && !isMetadata(req.Values["sops"]) {
		return nil
	}
	what := "the values have"
	for key := range req.Values {
		if own, here := ciphertextIn(req.Values[key]); here && own == text {
			what = fmt.Sprintf("the values have, under %q,", key)
		}
	}
	next := "keep them in clear in a Secret (spec.valuesFrom), or put the encrypted file into the artifact"
	if req.Decryption.From == nil {
		next = "decrypt the file of values first: sops decrypt --in-place FILE"
	}
	return &wire.Error{Kind: wire.DecryptFailed, Message: what + " text that SOPS encrypted, and values are not decrypted: " + next}
}

// CheckObjects refuses objects with text that SOPS encrypted and nothing decrypted, in clear or in base64.
//
// Two kinds carry it because their own controller decrypts it, and an object may be annotated for the same reason.
func CheckObjects(req *wire.Request, found []objects.Object) error {
	keep := req.Prefix + "/keep-encrypted"
	for _, object := range found {
		place, isEncrypted := encrypted(object.Body)
		if !isEncrypted || takesCiphertext(object.Body) || objects.Annotations(object.Body)[keep] == "true" {
			continue
		}
		kind, _ := object.Body["kind"].(string)
		name, _ := objects.Metadata(object.Body)["name"].(string)
		file := fileWith(req.Files, place.text)
		next := advice(&req.Decryption, file, req.Files[file])
		file = cmp.Or(file, object.Origin)
		message := fmt.Sprintf("%s %s has %s; nothing is applied. %s. If a controller in the cluster decrypts it, annotate it "+
			"with %s: \"true\"", kind, name, place.what, next, keep)
		return &wire.Error{Kind: wire.DecryptFailed, Message: message, File: file}
	}
	return nil
}

// Explain is an error about an encrypted file: that it is encrypted explains more than what is wrong with its content.
func Explain(req *wire.Request, err error) error {
	var failure *wire.Error
	if !errors.As(err, &failure) || failure.Kind == wire.DecryptFailed {
		return err
	}
	content := req.Files[failure.File]
	if _, isOpen := req.Decryption.Opened[failure.File]; isOpen || recognise(content) == plain {
		return err
	}
	return unopened(&req.Decryption, failure.File, content)
}

// Opened is the decrypted content of a file that has a part in the result in any case; an error where it stays encrypted.
func (d *Decryptor) Opened(file string, content []byte) ([]byte, error) {
	clear, err := d.File(file, content)
	if err == nil && recognise(clear) != plain {
		return nil, unopened(d.request, file, content)
	}
	return clear, err
}

func unopened(asked *wire.Decryption, file string, content []byte) *wire.Error {
	return failed(file, "the file is encrypted with SOPS and was not decrypted. "+advice(asked, file, content))
}

// advice is what opens a file, from the keys that it was encrypted for and from those that were given. The content is
// nil where it is not known.
func advice(asked *wire.Decryption, file string, content []byte) string {
	subject := "Its file is encrypted"
	if format := recognise(content); format != plain {
		subject = file + " is encrypted for " + kindsOf(format, content)
	} else if content != nil {
		return "Encrypt the whole of " + file + " again, so that it has the metadata of SOPS, or write the value in clear"
	}
	ring, _ := readKeys(asked.Keys)
	switch {
	case asked.From == nil:
		return subject + ": decrypt it first: sops decrypt --in-place " + cmp.Or(file, "FILE")
	case *asked.From == "":
		return subject + ": name the Secret with the key in spec.decryption.secretRef"
	case ring.empty():
		return fmt.Sprintf("%s, and %s of spec.decryption has no key whose name ends in .agekey (age) or .asc (PGP)%s",
			subject, *asked.From, names(asked.Keys))
	default:
		return subject + ", and it is no file that the keys of " + *asked.From + " can open: encrypt it again with sops"
	}
}

// kindsOf names the types of the keys of a file: age, pgp, or those of a cloud.
func kindsOf(format format, content []byte) (kinds string) {
	const unknown = "keys that its metadata does not name"
	defer func() {
		if recover() != nil { // malformed metadata
			kinds = unknown
		}
	}()
	tree, err := format.store().LoadEncryptedFile(content)
	if err != nil {
		return unknown
	}
	found := map[string]bool{}
	for _, group := range tree.Metadata.KeyGroups {
		for _, key := range group {
			found[key.TypeToIdentifier()] = true
		}
	}
	return cmp.Or(strings.Join(slices.Sorted(maps.Keys(found)), " and "), unknown)
}

// names lists what a Secret has instead of keys; at most three, and no contents.
func names(keys map[string][]byte) string {
	const most = 3
	all := slices.Sorted(maps.Keys(keys))
	switch {
	case len(all) == 0:
		return ""
	case len(all) > most:
		all = append(all[:most:most], "...")
	}
	return "; it has " + strings.Join(all, ", ")
}

// takesCiphertext is true for the kinds whose controllers decrypt: Blueprints hold files of a source, and a SopsSecret is
// an encrypted Secret.
func takesCiphertext(body map[string]any) bool {
	apiVersion, _ := body["apiVersion"].(string)
	kind, _ := body["kind"].(string)
	return kind == "SopsSecret" || kind == "Blueprint" && strings.HasPrefix(apiVersion, "core.cs.sap.com/")
}

func encrypted(body map[string]any) (place, bool) {
	const text = "text that SOPS encrypted and nothing decrypted"
	kind, _ := body["kind"].(string)
	field := map[string]string{"Secret": "data", "ConfigMap": "binaryData"}[kind]
	data, _ := body[field].(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(data)) {
		value, _ := data[key].(string)
		clear, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(value, "\n", ""))
		if err != nil {
			continue
		}
		if found, here := ciphertextIn(string(clear)); here {
			return place{text + " in " + field + "[" + key + "]", found}, true
		}
	}
	if found, here := ciphertextIn(body); here {
		return place{text, found}, true
	}
	return place{"the metadata of SOPS in the field sops", ""}, isMetadata(body["sops"])
}

// isMetadata is true for what SOPS adds to a file.
func isMetadata(value any) bool {
	fields, isMapping := value.(map[string]any)
	_, hasMAC := fields["mac"]
	_, hasTime := fields["lastmodified"]
	return isMapping && (hasMAC || hasTime)
}

// ciphertextIn finds the first ciphertext in a value, in the order of its keys.
func ciphertextIn(value any) (text string, found bool) {
	switch value := value.(type) {
	case string:
		if strings.Contains(value, beginning) {
			text = ciphertext.FindString(value)
			return text, text != ""
		}
		return "", slices.ContainsFunc(inBase64, func(form string) bool { return strings.Contains(value, form) })
	case []any:
		for _, item := range value {
			if text, found = ciphertextIn(item); found {
				return text, true
			}
		}
	case map[string]any:
		found = false
		for key, item := range value {
			own, here := ciphertextIn(item)
			if !here {
				own, here = ciphertextIn(key)
			}
			if here && (!found || own < text) { // the same one in each run
				text, found = own, true
			}
		}
	}
	return text, found
}

// fileWith is the first file with a ciphertext; no two values have the same one.
func fileWith(files map[string][]byte, text string) string {
	if text == "" {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.Contains(string(files[name]), text) {
			return name
		}
	}
	return ""
}
