package charts_test

import (
	"bytes"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	agelib "filippo.io/age"
	"github.com/getsops/sops/v3"
	"github.com/getsops/sops/v3/aes"
	"github.com/getsops/sops/v3/age"
	"github.com/getsops/sops/v3/config"
	sopsyaml "github.com/getsops/sops/v3/stores/yaml"

	"stellwerk/renderer/wire"
)

// locked is a YAML text encrypted for a new age key, and the file with that key.
func locked(t *testing.T, text string) (encrypted, key []byte) {
	t.Helper()
	identity, err := agelib.GenerateX25519Identity()
	fine(t, err)
	store := sopsyaml.NewStore(&config.YAMLStoreConfig{})
	branches, err := store.LoadPlainFile([]byte(text))
	fine(t, err)
	dataKey := make([]byte, 32)
	_, _ = rand.Read(dataKey)
	master, err := age.MasterKeyFromRecipient(identity.Recipient().String())
	fine(t, err)
	fine(t, master.Encrypt(dataKey))
	tree := sops.Tree{Branches: branches, Metadata: sops.Metadata{
		Version: "3.13.3", LastModified: time.Now().UTC(), KeyGroups: []sops.KeyGroup{{master}},
	}}
	mac, err := tree.Encrypt(dataKey, aes.NewCipher())
	fine(t, err)
	tree.Metadata.MessageAuthenticationCode, err = aes.NewCipher().Encrypt(
		mac, dataKey, tree.Metadata.LastModified.Format(time.RFC3339))
	fine(t, err)
	encrypted, err = store.EmitEncryptedFile(tree)
	fine(t, err)
	return encrypted, []byte(identity.String())
}

func fine(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const secretChart = configMap + `data: {a: "{{ .Values.password }} {{ .Values.plain }}"}`

func TestEncryptedFilesOfAChartAreDecryptedBeforeTheyAreRead(t *testing.T) {
	encrypted, key := locked(t, "password: hunter2\nplain: text\n")
	for _, folder := range []string{"", "at/some/place"} {
		files := small(map[string]string{"templates/a.yaml": secretChart})
		files["values.yaml"] = encrypted
		if folder != "" {
			files = inFolder(folder, files)
		}
		req := request(files, folder)
		req.Decryption.Keys = map[string][]byte{"a.agekey": key}
		if got := mustRender(t, req, nil)[0].Body["data"].(map[string]any)["a"]; got != "hunter2 text" {
			t.Errorf("in %q: %v", folder, got)
		}
	}
}

func TestAPackedChartIsDecryptedToo(t *testing.T) {
	encrypted, key := locked(t, "password: hunter2\nplain: text\n")
	packed := pack(t, "sub/", with(small(map[string]string{"templates/a.yaml": secretChart}), map[string][]byte{"values.yaml": encrypted}))
	files := small(map[string]string{"Chart.yaml": "apiVersion: v2\nname: outer\nversion: 1.0.0\n"})
	req := request(with(files, map[string][]byte{"charts/small.tgz": packed}), "")
	req.Decryption.Keys = map[string][]byte{"a.agekey": key}
	if got := mustRender(t, req, nil)[0].Body["data"].(map[string]any)["a"]; got != "hunter2 text" {
		t.Error(got)
	}
	opened, there := req.Decryption.Opened["charts/small.tgz/values.yaml"]
	if !there || !bytes.Equal(opened.Encrypted, encrypted) || !bytes.Contains(opened.Clear, []byte("hunter2")) {
		t.Error("what was opened is not noted, so no message can hide it:", req.Decryption.Opened)
	}
}

func TestAKeyThatDoesNotFitIsNamedByItsFile(t *testing.T) {
	encrypted, _ := locked(t, "password: hunter2\n")
	_, other := locked(t, "a: b\n")
	files := inFolder("at", with(small(nil), map[string][]byte{"values.yaml": encrypted}))
	req := request(files, "at")
	req.Decryption.Keys = map[string][]byte{"a.agekey": other}
	got := refusalOf(t, req, nil)
	expect(t, got, wire.DecryptFailed, "at/values.yaml")
	if strings.Contains(got.Message, string(bytes.TrimSpace(other))) {
		t.Error("the key is quoted")
	}
}

func TestWithoutKeysEncryptedValuesAreRefused(t *testing.T) {
	encrypted, _ := locked(t, "password: hunter2\n")
	files := with(small(map[string]string{"templates/a.yaml": secretChart}), map[string][]byte{"values.yaml": encrypted})
	got := refusalOf(t, request(files, ""), nil)
	expect(t, got, wire.DecryptFailed, "values.yaml", "was not decrypted", "is encrypted for age")
}
