package decrypt

import (
	"bytes"
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/getsops/sops/v3/keys"
	"sigs.k8s.io/yaml"

	"stellwerk/renderer/wire"
)

const secret = "apiVersion: v1\nkind: Secret\nmetadata:\n    name: s\nstringData:\n    password: canary-value\n    lines: |-\n        one\n        two\nnumbers:\n    - 1\n    - 2.5\n    - true\n    - 123456789012345678\nopen_unencrypted: plain\n"

func TestAFileIsOpenedOnceHoweverOftenItIsRead(t *testing.T) {
	lock, file := ageKey(t)
	locked := encrypt(t, formatYAML, secret, []recipient{lock})
	opener := decryptor(t, map[string][]byte{"a.agekey": file})
	first, err := opener.File("s.yaml", locked)
	given(t, err)
	second, err := opener.File("s.yaml", locked)
	given(t, err)
	if &first[0] != &second[0] {
		t.Error("the file is decrypted again")
	}
}

func TestAFileOpensWithEachKindOfKeyInEachFormat(t *testing.T) {
	ageLock, ageFile := ageKey(t)
	pgpLock, pgpFile := pgpKey(t, "")
	for name, test := range map[string]struct {
		format     format
		path, text string
	}{
		"YAML":    {formatYAML, "s.yaml", secret},
		"yml":     {formatYAML, "s.yml", secret},
		"JSON":    {formatJSON, "s.json", `{"a": {"b": "canary-value"}, "n": 12345678901, "f": 0.5, "l": [1, "x"]}`},
		"dotenv":  {formatEnv, "s.env", "USER=me\nPASSWORD=canary value = with signs\nMULTI=a\\nb\n"},
		"INI":     {formatINI, "s.ini", "[db]\nuser = me\npassword = canary-value\n"},
		"binary":  {formatRaw, "s.bin", "any \x00\xff bytes\r\n"},
		"no name": {formatRaw, "certificate", "-----BEGIN X-----\n"},
	} {
		for kind, lock := range map[string]recipient{"age": ageLock, "pgp": pgpLock} {
			t.Run(name+" "+kind, func(t *testing.T) {
				locked := encrypt(t, test.format, test.text, []recipient{lock})
				if bytes.Contains(locked, []byte("canary")) {
					t.Fatal("the file is not encrypted")
				}
				clear, err := decryptor(t, map[string][]byte{"a.agekey": ageFile, "b.asc": pgpFile, "other": []byte("ignored")}).File(test.path, locked)
				given(t, err)
				if !means(t, test.format, clear, test.text) {
					t.Errorf("got %q", clear)
				}
			})
		}
	}
}

// means compares by content, since stores write numbers and blanks in their own way.
func means(t *testing.T, format format, clear []byte, text string) bool {
	t.Helper()
	switch format {
	case formatYAML, formatJSON:
		one, err := yaml.YAMLToJSON(clear)
		given(t, err)
		other, err := yaml.YAMLToJSON([]byte(text))
		given(t, err)
		return bytes.Equal(one, other)
	case formatINI:
		return strings.ReplaceAll(string(clear), " ", "") == strings.ReplaceAll(text, " ", "")
	default:
		return string(clear) == text
	}
}

func TestAFileEncryptedAsBinaryKeepsItsNameAndItsBytes(t *testing.T) {
	lock, file := ageKey(t)
	text := "not: [yaml at all\n"
	clear, err := decryptor(t, map[string][]byte{"a.agekey": file}).File("broken.yaml", encrypt(t, formatRaw, text, []recipient{lock}))
	given(t, err)
	if string(clear) != text {
		t.Errorf("got %q", clear)
	}
}

func TestAFileThatIsNotEncryptedStaysAsItIs(t *testing.T) {
	_, file := ageKey(t)
	for _, text := range []string{
		"", "a: b\n", `{"a": 1}`, "mac: something\n", "see [sops](https://x) and ENC[ in a README\n", "[sops]\nmac = ENC[ in a text\n"[:7],
		"doc: |\n  mac: ENC[AES256_GCM,data:abc]\n", "a: ENC[AES256_GCM,data:x]\n",
	} {
		clear, err := decryptor(t, map[string][]byte{"a.agekey": file}).File("f.yaml", []byte(text))
		given(t, err)
		if string(clear) != text {
			t.Errorf("%q became %q", text, clear)
		}
	}
}

func TestWithoutKeysNothingIsDecrypted(t *testing.T) {
	lock, _ := ageKey(t)
	locked := encrypt(t, formatYAML, secret, []recipient{lock})
	for _, keys := range []map[string][]byte{nil, {"readme": []byte("no key")}} {
		clear, err := decryptor(t, keys).File("s.yaml", locked)
		given(t, err)
		if !bytes.Equal(clear, locked) {
			t.Error("the file was changed")
		}
	}
}

func TestAWrongKeyIsAnErrorThatNamesTheRecipients(t *testing.T) {
	ageLock, _ := ageKey(t)
	pgpLock, _ := pgpKey(t, "")
	_, otherAge := ageKey(t)
	_, otherPGP := pgpKey(t, "")
	locked := encrypt(t, formatYAML, secret, []recipient{ageLock, pgpLock})
	for name, keys := range map[string]map[string][]byte{
		"both": {"a.agekey": otherAge, "b.asc": otherPGP}, "only age": {"a.agekey": otherAge}, "only PGP": {"b.asc": otherPGP},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := decryptor(t, keys).File("dir/s.yaml", locked)
			problem := failure(t, err)
			if problem.File != "dir/s.yaml" || !strings.Contains(problem.Message, "none of the given keys opens the file; its recipients are age age1") ||
				!strings.Contains(problem.Message, ", pgp ") {
				t.Errorf("%+v", *problem)
			}
		})
	}
}

func TestAFileForOtherKindsOfKeysOnlyIsAnErrorThatSaysSo(t *testing.T) {
	_, file := ageKey(t)
	_, err := decryptor(t, map[string][]byte{"a.agekey": file}).File("s.yaml", encrypt(t, formatYAML, secret, []recipient{cloudKey}))
	if problem := failure(t, err); !strings.Contains(problem.Message, "encrypted for kms only; add an age or PGP recipient") {
		t.Errorf("%+v", *problem)
	}
}

func TestAKeyOfTheCloudBesidesOursIsNotAsked(t *testing.T) {
	lock, file := ageKey(t)
	began := time.Now()
	_, err := decryptor(t, map[string][]byte{"a.agekey": file}).File("s.yaml", encrypt(t, formatYAML, secret, []recipient{cloudKey, lock}))
	given(t, err)
	if time.Since(began) > 2*time.Second {
		t.Error("somebody was asked")
	}
}

func TestSeveralKeysInOneFileAreAllTried(t *testing.T) {
	ageLock, ageFile := ageKey(t)
	_, otherAge := ageKey(t)
	pgpLock, pgpFile := pgpKey(t, "")
	_, otherPGP := pgpKey(t, "")
	keys := map[string][]byte{"a.agekey": append(otherAge, ageFile...), "b.asc": append(append(otherPGP, '\n'), pgpFile...)}
	for _, lock := range []recipient{ageLock, pgpLock} {
		_, err := decryptor(t, keys).File("s.yaml", encrypt(t, formatYAML, secret, []recipient{lock}))
		given(t, err)
	}
}

func TestKeyGroupsNeedOneKeyOfEach(t *testing.T) {
	ageLock, ageFile := ageKey(t)
	pgpLock, pgpFile := pgpKey(t, "")
	locked := encrypt(t, formatYAML, secret, []recipient{ageLock}, []recipient{pgpLock, cloudKey})
	_, err := decryptor(t, map[string][]byte{"a.agekey": ageFile, "b.asc": pgpFile}).File("s.yaml", locked)
	given(t, err)
	_, err = decryptor(t, map[string][]byte{"a.agekey": ageFile}).File("s.yaml", locked)
	if problem := failure(t, err); !strings.Contains(problem.Message, "too few of the 2 key groups, 2 are needed") {
		t.Errorf("%+v", *problem)
	}
}

func TestAFileChangedAfterItsEncryptionIsRefused(t *testing.T) {
	lock, file := ageKey(t)
	for name, change := range map[string]func(text string) string{
		"open value": func(text string) string {
			return strings.Replace(text, "open_unencrypted: plain", "open_unencrypted: evil", 1)
		},
		"added value":   func(text string) string { return "added_unencrypted: evil\n" + text },
		"removed value": func(text string) string { return strings.Replace(text, "open_unencrypted: plain\n", "", 1) },
		"moved value":   func(text string) string { return strings.Replace(text, "password:", "user:", 1) },
		"no MAC":        func(text string) string { return macLine(text, "") },
		"foreign MAC":   func(text string) string { return macLine(text, "ENC[AES256_GCM,data:AAAA,iv:AAAA,tag:AAAA,type:str]") },
		"other time":    func(text string) string { return strings.Replace(text, "lastmodified: \"2", "lastmodified: \"1", 1) },
	} {
		t.Run(name, func(t *testing.T) {
			locked := string(encrypt(t, formatYAML, secret, []recipient{lock}))
			changed := change(locked)
			if changed == locked {
				t.Fatal("nothing was changed")
			}
			clear, err := decryptor(t, map[string][]byte{"a.agekey": file}).File("s.yaml", []byte(changed))
			if name == "no MAC" && err == nil && string(clear) == changed {
				return // without a MAC it is no encrypted file, and no object that anybody takes
			}
			problem := failure(t, err)
			if strings.Contains(problem.Message, "canary") || !strings.Contains(problem.Message, "encrypt") {
				t.Errorf("%+v", *problem)
			}
		})
	}
}

func macLine(text, mac string) string {
	lines := strings.Split(text, "\n")
	for index, line := range lines {
		if strings.HasPrefix(strings.TrimSpace(line), "mac:") {
			lines[index] = strings.Split(line, "mac:")[0] + "mac: " + mac
		}
	}
	return strings.Join(lines, "\n")
}

func TestKeysThatCannotBeUsedAreNamed(t *testing.T) {
	_, locked := pgpKey(t, "a passphrase")
	for name, test := range map[string]struct {
		content []byte
		want    string
	}{
		"bad.agekey":  {[]byte("AGE-SECRET-KEY-1CANARY\n"), "no readable age identity"},
		"none.agekey": {nil, "no readable age identity"},
		"bad.asc":     {[]byte("canary"), "no readable PGP private key"},
		"cut.asc":     {[]byte("-----BEGIN PGP PRIVATE KEY BLOCK-----\n\ncanary\n"), "no readable PGP private key"},
		"locked.asc":  {locked, "protected with a passphrase"},
	} {
		_, err := New(&wire.Decryption{Keys: map[string][]byte{name: test.content}})
		problem := failure(t, err)
		if !strings.Contains(problem.Message, "the decryption key "+name) || !strings.Contains(problem.Message, test.want) ||
			strings.Contains(strings.ToLower(problem.Message), "canary") {
			t.Errorf("%s: %+v", name, *problem)
		}
	}
}

func TestAliasesThatUnfoldToTooMuchInAnEncryptedFileAreRefused(t *testing.T) {
	lock, file := ageKey(t)
	locked := string(encrypt(t, formatYAML, secret, []recipient{lock}))
	bomb := "a_unencrypted: &a " + strings.Repeat("x", 5_000) + "\nb_unencrypted: [" + strings.Repeat("*a, ", 900) + "]\n" + locked
	_, err := decryptor(t, map[string][]byte{"a.agekey": file}).File("s.yaml", []byte(bomb))
	if problem := failure(t, err); !strings.Contains(problem.Message, "aliases") {
		t.Errorf("%+v", *problem)
	}
}

func TestAMessageThatIsNoDataKeyIsRefused(t *testing.T) {
	lock, file := pgpKey(t, "")
	huge := func(t *testing.T, _ []byte) keys.MasterKey { return lock(t, bytes.Repeat([]byte("x"), 1<<20)) }
	_, err := decryptor(t, map[string][]byte{"a.asc": file}).File("s.yaml", encrypt(t, formatYAML, secret, []recipient{huge}))
	failure(t, err)
}

func TestNoKeyIsSearchedElsewhere(t *testing.T) {
	lock, file := ageKey(t)
	identity := string(file[bytes.Index(file, []byte("AGE-SECRET-KEY-")):])
	t.Setenv("SOPS_AGE_KEY", strings.TrimSpace(identity))
	_, other := pgpKey(t, "")
	_, err := decryptor(t, map[string][]byte{"a.asc": other}).File("s.yaml", encrypt(t, formatYAML, secret, []recipient{lock}))
	failure(t, err)
}

func TestADecryptorMayBeUsedManyTimes(t *testing.T) {
	lock, file := ageKey(t)
	one := decryptor(t, map[string][]byte{"a.agekey": file})
	locked := encrypt(t, formatJSON, `{"a": "b"}`, []recipient{lock})
	for range 3 {
		clear, err := one.File("s.json", locked)
		given(t, err)
		var value map[string]string
		given(t, json.Unmarshal(clear, &value))
		if !maps.Equal(value, map[string]string{"a": "b"}) {
			t.Errorf("got %v", value)
		}
	}
}

func FuzzFile(f *testing.F) {
	t := &testing.T{}
	lock, file := ageKey(t)
	for _, format := range []format{formatYAML, formatJSON, formatRaw} {
		text := map[bool]string{true: `{"a": "b"}`, false: secret}[format == formatJSON]
		f.Add("s."+strings.ToLower(string(format)), encrypt(t, format, text, []recipient{lock}))
	}
	f.Add("s.env", encrypt(t, formatEnv, "A=b\n", []recipient{lock}))
	f.Add("s.ini", encrypt(t, formatINI, "[a]\nb = c\n", []recipient{lock}))
	opener := decryptor(t, map[string][]byte{"a.agekey": file})
	f.Fuzz(func(t *testing.T, name string, content []byte) {
		if clear, err := opener.File(name, content); err != nil {
			failure(t, err)
		} else if recognise(content) == plain && !bytes.Equal(clear, content) {
			t.Error("a plain file was changed")
		}
	})
}

func FuzzKeys(f *testing.F) {
	t := &testing.T{}
	_, ageFile := ageKey(t)
	_, pgpFile := pgpKey(t, "")
	f.Add(ageFile, pgpFile)
	f.Fuzz(func(t *testing.T, ageFile, pgpFile []byte) {
		for name, content := range map[string][]byte{"a.agekey": ageFile, "a.asc": pgpFile} {
			if _, err := New(&wire.Decryption{Keys: map[string][]byte{name: content}}); err != nil {
				failure(t, err)
			}
		}
	})
}
