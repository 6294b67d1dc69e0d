package decrypt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	agelib "filippo.io/age"
	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/getsops/sops/v3/age"
	"github.com/getsops/sops/v3/keyservice"

	"stellwerk/renderer/wire"
)

// largestDataKey is far more than the 32 bytes that SOPS uses.
const largestDataKey = 4096

// keyring is the key service that SOPS asks. It answers from memory.
type keyring struct {
	keyservice.UnimplementedKeyServiceServer
	age age.ParsedIdentities
	pgp openpgp.EntityList
}

func (k keyring) empty() bool { return len(k.age) == 0 && len(k.pgp) == 0 }

// Decrypt opens one data key.
func (k keyring) Decrypt(_ context.Context, request *keyservice.DecryptRequest) (*keyservice.DecryptResponse, error) {
	var clear []byte
	var err error
	switch key := request.GetKey().GetKeyType().(type) {
	case *keyservice.Key_AgeKey:
		clear, err = k.openAge(key.AgeKey.GetRecipient(), request.GetCiphertext())
	case *keyservice.Key_PgpKey:
		clear, err = k.openPGP(request.GetCiphertext())
	default:
		err = errors.New("only age and PGP are supported")
	}
	if err != nil {
		return nil, err
	}
	return &keyservice.DecryptResponse{Plaintext: clear}, nil
}

func (k keyring) openAge(recipient string, locked []byte) ([]byte, error) {
	if len(k.age) == 0 {
		return nil, errors.New("no age identity was given") // SOPS would search the machine for one
	}
	key := &age.MasterKey{Recipient: recipient, EncryptedKey: string(locked)}
	k.age.ApplyToMasterKey(key)
	return key.Decrypt()
}

func (k keyring) openPGP(locked []byte) ([]byte, error) {
	if len(k.pgp) == 0 {
		return nil, errors.New("no PGP key was given")
	}
	block, err := armor.Decode(bytes.NewReader(locked))
	if err != nil {
		return nil, err
	}
	message, err := openpgp.ReadMessage(block.Body, k.pgp, nil, nil)
	if err != nil {
		return nil, err
	}
	// Reading to the end is what checks the integrity of the message.
	clear, err := io.ReadAll(io.LimitReader(message.UnverifiedBody, largestDataKey+1))
	if err == nil && len(clear) > largestDataKey {
		err = errors.New("the message is larger than a data key")
	}
	return clear, err
}

func readKeys(files map[string][]byte) (keyring, error) {
	var ring keyring
	for _, name := range slices.Sorted(maps.Keys(files)) {
		switch {
		case strings.HasSuffix(name, ".agekey"):
			identities, err := agelib.ParseIdentities(bytes.NewReader(files[name]))
			if err != nil {
				return ring, badKey(name, "has no readable age identity (a line that begins with AGE-SECRET-KEY-)")
			}
			ring.age = append(ring.age, identities...)
		case strings.HasSuffix(name, ".asc"):
			entities, err := readPGP(files[name])
			if err != nil {
				return ring, badKey(name, err.Error())
			}
			ring.pgp = append(ring.pgp, entities...)
		}
	}
	return ring, nil
}

var errNoPGP = errors.New("has no readable PGP private key; export it with gpg --export-secret-keys --armor")

// readPGP reads every armored block of a file, as gpg --import does.
func readPGP(content []byte) (openpgp.EntityList, error) {
	var entities openpgp.EntityList
	for _, block := range armorBlocks(content) {
		found, err := openpgp.ReadArmoredKeyRing(bytes.NewReader(block))
		if err != nil {
			return nil, errNoPGP
		}
		entities = append(entities, found...)
	}
	private := slices.DeleteFunc(entities, func(entity *openpgp.Entity) bool { return entity.PrivateKey == nil })
	if len(private) == 0 {
		return nil, errNoPGP
	}
	for _, entity := range private {
		if isLocked(entity) {
			return nil, errors.New("is protected with a passphrase; export the key without one")
		}
	}
	return private, nil
}

const armorStart = "-----BEGIN PGP "

func armorBlocks(content []byte) [][]byte {
	var blocks [][]byte
	for {
		start := bytes.Index(content, []byte(armorStart))
		if start < 0 {
			return blocks
		}
		content = content[start:]
		next := bytes.Index(content[len(armorStart):], []byte(armorStart))
		if next < 0 {
			return append(blocks, content)
		}
		end := next + len(armorStart)
		blocks, content = append(blocks, content[:end]), content[end:]
	}
}

// isLocked looks at the subkeys: the primary key signs, and may be absent or locked while a subkey decrypts.
func isLocked(entity *openpgp.Entity) bool {
	for _, subkey := range entity.Subkeys {
		if subkey.PrivateKey != nil && !subkey.PrivateKey.Encrypted {
			return false
		}
	}
	return entity.PrivateKey.Encrypted
}

func badKey(name, problem string) *wire.Error {
	return &wire.Error{Kind: wire.DecryptFailed, Message: fmt.Sprintf("the decryption key %s %s", name, problem)}
}
