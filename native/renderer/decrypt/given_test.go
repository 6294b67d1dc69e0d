package decrypt

import (
	"bytes"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	agelib "filippo.io/age"
	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/getsops/sops/v3"
	"github.com/getsops/sops/v3/aes"
	"github.com/getsops/sops/v3/age"
	"github.com/getsops/sops/v3/keys"
	"github.com/getsops/sops/v3/kms"
	"github.com/getsops/sops/v3/pgp"
	"github.com/getsops/sops/v3/shamir"

	"stellwerk/renderer/wire"
)

// encrypter is a store that writes encrypted files too, as the sops command does.
type encrypter interface {
	store
	LoadPlainFile(content []byte) (sops.TreeBranches, error)
	EmitEncryptedFile(tree sops.Tree) ([]byte, error)
}

// A recipient locks a data key.
type recipient func(t *testing.T, dataKey []byte) keys.MasterKey

// encrypt writes a file as the sops command would; each group of recipients gets one part of the data key.
func encrypt(t *testing.T, format format, text string, groups ...[]recipient) []byte {
	t.Helper()
	files := format.store().(encrypter)
	branches, err := files.LoadPlainFile([]byte(text))
	given(t, err)
	dataKey := make([]byte, 32)
	_, _ = rand.Read(dataKey)
	parts := [][]byte{dataKey}
	tree := sops.Tree{Branches: branches, Metadata: sops.Metadata{
		UnencryptedSuffix: "_unencrypted", Version: "3.13.3", LastModified: time.Now().UTC(),
	}}
	if len(groups) > 1 {
		parts, err = shamir.Split(dataKey, len(groups), len(groups))
		given(t, err)
		tree.Metadata.ShamirThreshold = len(groups)
	}
	for index, group := range groups {
		var locked sops.KeyGroup
		for _, lock := range group {
			locked = append(locked, lock(t, parts[index]))
		}
		tree.Metadata.KeyGroups = append(tree.Metadata.KeyGroups, locked)
	}
	mac, err := tree.Encrypt(dataKey, aes.NewCipher())
	given(t, err)
	tree.Metadata.MessageAuthenticationCode, err = aes.NewCipher().Encrypt(mac, dataKey, tree.Metadata.LastModified.Format(time.RFC3339))
	given(t, err)
	content, err := files.EmitEncryptedFile(tree)
	given(t, err)
	return content
}

func given(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ageKey is a recipient and the key file that opens what is locked for it.
func ageKey(t *testing.T) (recipient, []byte) {
	t.Helper()
	identity, err := agelib.GenerateX25519Identity()
	given(t, err)
	lock := func(t *testing.T, dataKey []byte) keys.MasterKey {
		key, err := age.MasterKeyFromRecipient(identity.Recipient().String())
		given(t, err)
		given(t, key.Encrypt(dataKey))
		return key
	}
	return lock, []byte("# created: today\n# public key: " + identity.Recipient().String() + "\n" + identity.String() + "\n")
}

// pgpKey is the same with PGP.
func pgpKey(t *testing.T, passphrase string) (recipient, []byte) {
	t.Helper()
	entity, err := openpgp.NewEntity("Somebody", "", "somebody@example.com", nil)
	given(t, err)
	lock := func(t *testing.T, dataKey []byte) keys.MasterKey {
		key := pgp.NewMasterKeyFromFingerprint(fingerprint(entity))
		key.EncryptedKey = pgpMessage(t, entity, dataKey)
		return key
	}
	if passphrase != "" {
		given(t, entity.EncryptPrivateKeys([]byte(passphrase), nil))
	}
	var text bytes.Buffer
	writer, err := armor.Encode(&text, openpgp.PrivateKeyType, nil)
	given(t, err)
	given(t, entity.SerializePrivateWithoutSigning(writer, nil))
	given(t, writer.Close())
	return lock, text.Bytes()
}

func fingerprint(entity *openpgp.Entity) string {
	const digits = "0123456789ABCDEF"
	var text strings.Builder
	for _, octet := range entity.PrimaryKey.Fingerprint {
		text.WriteByte(digits[octet>>4])
		text.WriteByte(digits[octet&15])
	}
	return text.String()
}

func pgpMessage(t *testing.T, entity *openpgp.Entity, clear []byte) string {
	t.Helper()
	var text bytes.Buffer
	armored, err := armor.Encode(&text, "PGP MESSAGE", nil)
	given(t, err)
	writer, err := openpgp.Encrypt(armored, []*openpgp.Entity{entity}, nil, &openpgp.FileHints{IsBinary: true}, nil)
	given(t, err)
	_, err = writer.Write(clear)
	given(t, err)
	given(t, writer.Close())
	given(t, armored.Close())
	return text.String()
}

// cloudKey is a recipient that only Amazon can open.
func cloudKey(_ *testing.T, _ []byte) keys.MasterKey {
	key := kms.NewMasterKeyFromArn("arn:aws:kms:eu-central-1:123456789012:key/00000000-0000-0000-0000-000000000000", nil, "")
	key.EncryptedKey = "bm90IHJlYWxseQ=="
	return key
}

func decryptor(t *testing.T, keys map[string][]byte) *Decryptor {
	t.Helper()
	made, err := New(&wire.Decryption{Keys: keys})
	given(t, err)
	return made
}

func failure(t *testing.T, err error) *wire.Error {
	t.Helper()
	var known *wire.Error
	if !errors.As(err, &known) || known.Kind != wire.DecryptFailed {
		t.Fatalf("a failed decryption is expected, not %v", err)
	}
	return known
}
