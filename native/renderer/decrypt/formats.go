package decrypt

import (
	"bytes"
	"path"
	"regexp"
	"strings"

	"github.com/getsops/sops/v3"
	"github.com/getsops/sops/v3/config"
	"github.com/getsops/sops/v3/stores/dotenv"
	"github.com/getsops/sops/v3/stores/ini"
	"github.com/getsops/sops/v3/stores/json"
	"github.com/getsops/sops/v3/stores/yaml"
)

// format is how a file is written. A file is recognised by what is in it and written back by what its name says.
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

// position keeps the line of a parser's complaint and nothing else of it: the rest may quote the file.
func position(err error) string {
	if found := atLine.FindString(err.Error()); found != "" {
		return " at " + found
	}
	return ""
}
