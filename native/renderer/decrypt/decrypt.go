// Package decrypt opens files that SOPS encrypted, with keys that exist in memory only.
//
// SOPS itself looks for keys in the environment, in home folders, in gpg's keyring and on the network. Here, every data
// key is decrypted by one key service in this process, which has only the age identities and PGP keys of the request. A
// missing key is an error.
//
// The MAC over the whole file is always compared. A file without a valid one was changed after its encryption.
package decrypt

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/getsops/sops/v3"
	"github.com/getsops/sops/v3/aes"
	"github.com/getsops/sops/v3/config"
	"github.com/getsops/sops/v3/keyservice"
	"github.com/getsops/sops/v3/logging"
	"github.com/getsops/sops/v3/stores/dotenv"
	"github.com/getsops/sops/v3/stores/ini"
	"github.com/getsops/sops/v3/stores/json"
	"github.com/getsops/sops/v3/stores/yaml"
	"github.com/sirupsen/logrus"

	"stellwerk/renderer/objects"
	"stellwerk/renderer/wire"
)

func init() {
	// SOPS logs comments that it could not decrypt, and standard error goes to the log of the operator.
	logging.SetLevel(logrus.PanicLevel)
}

// Decryptor opens the encrypted files of one request, each once.
type Decryptor struct {
	keys    keyring
	request *wire.Decryption
}

// New reads the keys: *.agekey are age identities, *.asc PGP private keys, other files are ignored.
// Without any key the Decryptor returns every file as it is, and CheckObjects refuses what comes of encrypted ones.
//
// The opened files are recorded in the request, because no message may quote them.
func New(request *wire.Decryption) (*Decryptor, error) {
	ring, err := readKeys(request.Keys)
	if err != nil {
		return nil, err
	}
	if request.Opened == nil {
		request.Opened = map[string]wire.Opened{}
	}
	return &Decryptor{ring, request}, nil
}

// File returns the decrypted content; a file that SOPS did not encrypt is returned unchanged.
func (d *Decryptor) File(path string, content []byte) (clear []byte, err error) {
	if d.keys.empty() {
		return content, nil
	}
	if file, there := d.request.Opened[path]; there {
		return file.Clear, nil
	}
	format := recognise(content)
	if format == plain {
		return content, nil
	}
	defer func() {
		if problem := recover(); problem != nil {
			clear, err = nil, failed(path, "SOPS cannot read the file: its metadata is malformed")
		}
	}()
	return d.open(path, content, format)
}

func (d *Decryptor) open(path string, content []byte, format format) ([]byte, error) {
	if err := objects.CheckAliases(content); err != nil {
		return nil, failed(path, "the file "+err.Error())
	}
	tree, err := format.store().LoadEncryptedFile(content)
	if errors.Is(err, sops.MetadataNotFound) {
		return content, nil // it only mentions SOPS
	}
	if err != nil {
		return nil, failed(path, "the encrypted file cannot be read as "+string(format)+position(err))
	}
	key, err := d.dataKey(path, &tree)
	if err != nil {
		return nil, err
	}
	if err := unlock(path, &tree, key); err != nil {
		return nil, err
	}
	clear, err := emit(path, tree)
	if err == nil {
		d.request.Opened[path] = wire.Opened{Encrypted: content, Clear: clear}
	}
	return clear, err
}

// dataKey follows SOPS for key groups (Shamir) and tries age before PGP, which is slower.
func (d *Decryptor) dataKey(path string, tree *sops.Tree) ([]byte, error) {
	service := keyservice.NewCustomLocalClient(d.keys)
	key, err := tree.Metadata.GetDataKeyWithKeyServices([]keyservice.KeyServiceClient{service}, []string{"age", "pgp"})
	if err == nil {
		return key, nil
	}
	recipients, foreign := recipients(tree)
	switch {
	case len(recipients) == 0 && len(foreign) == 0:
		return nil, failed(path, "the file names no recipient, so no key can open it")
	case len(recipients) == 0:
		return nil, failed(path, fmt.Sprintf("the file is encrypted for %s only; add an age or PGP recipient, "+
			"other key types are not supported", strings.Join(foreign, ", ")))
	case len(tree.Metadata.KeyGroups) > 1:
		return nil, failed(path, fmt.Sprintf("the given keys open too few of the %d key groups, %d are needed; "+
			"recipients are %s", len(tree.Metadata.KeyGroups), tree.Metadata.ShamirThreshold, strings.Join(recipients, ", ")))
	default:
		return nil, failed(path, "none of the given keys opens the file; its recipients are "+strings.Join(recipients, ", "))
	}
}

// recipients lists the keys that could open the file, and the types of keys that are not supported.
func recipients(tree *sops.Tree) (ours, foreign []string) {
	for _, group := range tree.Metadata.KeyGroups {
		for _, key := range group {
			switch kind := key.TypeToIdentifier(); kind {
			case "age", "pgp":
				ours = append(ours, kind+" "+key.ToString())
			default:
				foreign = append(foreign, kind)
			}
		}
	}
	slices.Sort(ours)
	slices.Sort(foreign)
	return ours, slices.Compact(foreign)
}

// unlock decrypts in place and compares the MAC.
func unlock(path string, tree *sops.Tree, key []byte) error {
	cipher := aes.NewCipher()
	computed, err := tree.Decrypt(key, cipher)
	if err != nil {
		return failed(path, "a value cannot be decrypted: it was changed or moved after the encryption; encrypt the file again")
	}
	stamp := tree.Metadata.LastModified.Format(time.RFC3339)
	written, err := cipher.Decrypt(tree.Metadata.MessageAuthenticationCode, key, stamp)
	if err != nil || written != computed {
		return failed(path, "the MAC does not fit: the file was changed after the encryption; encrypt it again with sops")
	}
	return nil
}

func failed(path, message string) *wire.Error {
	return &wire.Error{Kind: wire.DecryptFailed, Message: path + ": " + message, File: path}
}

// format is the format of a file. An encrypted file is recognised by its content and decrypted to the format of its name.
type format string

const (
	plain      format = ""
	formatYAML format = "YAML"
	formatJSON format = "JSON"
	formatEnv  format = "dotenv"
	formatINI  format = "INI"
	formatRaw  format = "binary"
)

// The MAC of each format, which no other text has by chance.
var markers = []struct {
	format  format
	pattern *regexp.Regexp
}{
	{formatJSON, regexp.MustCompile(`"mac"\s*:\s*"ENC\[`)},
	{formatYAML, regexp.MustCompile(`(?m)^\s+['"]?mac['"]?:\s*['"]?ENC\[`)},
	{formatEnv, regexp.MustCompile(`(?m)^\s*sops_mac\s*=\s*['"]?ENC\[`)},
	{formatINI, regexp.MustCompile(`(?ms)^\s*\[sops\]\s*$.*^\s*mac\s*=\s*ENC\[`)},
}

func recognise(content []byte) format {
	if !bytes.Contains(content, []byte("ENC[")) {
		return plain
	}
	for _, marker := range markers {
		if marker.pattern.Match(content) {
			return marker.format
		}
	}
	return plain
}

func formatOf(name string) format {
	switch strings.ToLower(path.Ext(name)) {
	case ".yaml", ".yml":
		return formatYAML
	case ".json":
		return formatJSON
	case ".env":
		return formatEnv
	case ".ini":
		return formatINI
	default:
		return formatRaw
	}
}

type store interface {
	LoadEncryptedFile(content []byte) (sops.Tree, error)
	EmitPlainFile(branches sops.TreeBranches) ([]byte, error)
}

func (f format) store() store {
	defaults := config.NewStoresConfig()
	switch f {
	case formatYAML:
		return yaml.NewStore(&defaults.YAML)
	case formatJSON:
		return json.NewStore(&defaults.JSON)
	case formatEnv:
		return dotenv.NewStore(&defaults.Dotenv)
	case formatINI:
		return ini.NewStore(&defaults.INI)
	default:
		return json.NewBinaryStore(&defaults.JSONBinary)
	}
}

// emit writes the clear tree. SOPS keeps a file of unknown format as one text under the key data.
func emit(name string, tree sops.Tree) ([]byte, error) {
	if text, only := onlyData(tree); only {
		return []byte(text), nil
	}
	target := formatOf(name)
	clear, err := target.store().EmitPlainFile(tree.Branches)
	if err != nil {
		return nil, failed(name, "the decrypted content cannot be written as "+string(target)+
			"; give the file the extension of its format")
	}
	return clear, nil
}

func onlyData(tree sops.Tree) (string, bool) {
	if len(tree.Branches) != 1 || len(tree.Branches[0]) != 1 || tree.Branches[0][0].Key != "data" {
		return "", false
	}
	text, ok := tree.Branches[0][0].Value.(string)
	return text, ok
}

var atLine = regexp.MustCompile(`\bline (\d+)\b`)

// position is the line in the error of a parser, of which the rest may quote the file.
func position(err error) string {
	if found := atLine.FindString(err.Error()); found != "" {
		return " at " + found
	}
	return ""
}
