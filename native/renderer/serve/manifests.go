package serve

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"stellwerk/renderer/decrypt"
	"stellwerk/renderer/nodes"
	"stellwerk/renderer/objects"
	"stellwerk/renderer/wire"
)

// readManifests reads every .yaml, .yml and .json file below the path as it is, in the order of their names.
func readManifests(req *wire.Request) ([]objects.Object, error) {
	keys, err := decrypt.New(&req.Decryption)
	if err != nil {
		return nil, err
	}
	var all []objects.Object
	for _, name := range slices.Sorted(maps.Keys(req.Files)) {
		if !isManifest(req.Path, name) {
			continue
		}
		content, err := keys.File(name, req.Files[name])
		if err != nil {
			return nil, err
		}
		found, err := objects.Parse(name, content)
		if err != nil {
			return nil, err
		}
		nodes.TextAnnotations(found, content)
		all = append(all, found...)
	}
	return all, nil
}

// isManifest tells whether a file is to be read: hidden files and folders are not.
func isManifest(folder, name string) bool {
	inside, isBelow := name, true
	if folder != "" {
		inside, isBelow = strings.CutPrefix(name, folder+"/")
	}
	if !isBelow || strings.HasPrefix(inside, ".") || strings.Contains(inside, "/.") {
		return false
	}
	return slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name))
}

func tooMuch(format string, args ...any) *wire.Error {
	return &wire.Error{Kind: wire.LimitExceeded, Message: fmt.Sprintf(format, args...)}
}
