package serve

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"stellwerk/renderer/afterwards"
	"stellwerk/renderer/charts"
	"stellwerk/renderer/decrypt"
	"stellwerk/renderer/kustomizations"
	"stellwerk/renderer/nodes"
	"stellwerk/renderer/objects"
	"stellwerk/renderer/wire"
)

// The generators that a request may name.
const (
	auto      = "auto"
	helm      = "helm"
	kustomize = "kustomize"
	manifests = "manifests"
)

const (
	defaultOutput  = 32 << 20
	defaultObjects = 5_000
)

// render answers one request.
func render(req *wire.Request, ask wire.Asker) (*wire.Result, error) {
	uses := wire.Uses{}
	if err := settle(req); err != nil {
		return nil, err
	}
	if err := decrypt.CheckValues(req); err != nil {
		return nil, err
	}
	found, about, err := generate(req, ask, uses)
	if err != nil {
		return nil, decrypt.Explain(req, err)
	}
	found, err = afterwards.Apply(found, req.PostBuild, req.Prefix)
	if err != nil {
		return nil, err
	}
	if err := decrypt.CheckObjects(req, found); err != nil {
		return nil, err
	}
	return result(req, found, about, uses)
}

// settle sets what a request leaves open: the folder, the generator, the numbers' types.
func settle(req *wire.Request) error {
	req.Path = strings.Trim(path.Clean("/"+req.Path), "/")
	wire.Integers(req.Values)
	wire.Integers(req.Cluster.Version)
	if err := checkPath(req); err != nil {
		return err
	}
	if folder, isChart := chartFolder(req); isChart && (req.Generator == helm || req.Generator == auto) {
		req.Path = folder
		req.Generator = helm
	}
	if req.Generator == auto {
		req.Generator = kustomize
	}
	return nil
}

// checkPath refuses a path that is no folder of the artifact. The root always is one, even if it is empty.
func checkPath(req *wire.Request) error {
	if req.Path == "" {
		return nil
	}
	if _, isFile := req.Files[req.Path]; isFile {
		return &wire.Error{Kind: wire.PathNotFound, Message: "not a directory: " + req.Path}
	}
	for name := range req.Files {
		if strings.HasPrefix(name, req.Path+"/") {
			return nil
		}
	}
	return &wire.Error{Kind: wire.PathNotFound, Message: "no such file or directory: " + req.Path}
}

// chartFolder is the folder of the chart: the path itself, or the one folder in it when there is nothing else.
//
// A chart that Flux packs is in a folder of the chart's name, which users often leave out of the path.
func chartFolder(req *wire.Request) (folder string, isChart bool) {
	if _, isChart := req.Files[path.Join(req.Path, "Chart.yaml")]; isChart {
		return req.Path, true
	}
	only := ""
	for name := range req.Files {
		inside, isBelow := strings.CutPrefix("/"+name, path.Join("/", req.Path)+"/")
		if req.Path == "" {
			inside, isBelow = name, true
		}
		if !isBelow {
			continue
		}
		first, _, isFolder := strings.Cut(inside, "/")
		if !isFolder || (only != "" && first != only) {
			return "", false
		}
		only = first
	}
	folder = path.Join(req.Path, only)
	_, isChart = req.Files[path.Join(folder, "Chart.yaml")]
	return folder, isChart
}

func generate(req *wire.Request, ask wire.Asker, uses wire.Uses) ([]objects.Object, *wire.Chart, error) {
	switch req.Generator {
	case helm:
		return charts.Render(req, req.Files, ask, uses)
	case kustomize:
		found, err := kustomizations.Render(req, req.Files, ask, uses)
		return found, nil, err
	case manifests:
		found, err := readManifests(req)
		return found, nil, err
	default:
		return nil, nil, &wire.Error{Kind: wire.InvalidRequest, Message: "unknown generator " + req.Generator}
	}
}

func result(req *wire.Request, found []objects.Object, about *wire.Chart, uses wire.Uses) (*wire.Result, error) {
	most := cmp.Or(req.Limits.Objects, defaultObjects)
	if len(found) > most {
		return nil, tooMuch("the result holds %d objects, more than %d", len(found), most)
	}
	made := &wire.Result{
		Generator: req.Generator, Chart: about,
		Objects: make([]map[string]any, len(found)), Origins: make([]string, len(found)),
		Uses: slices.Sorted(maps.Keys(uses)),
	}
	for index, object := range found {
		made.Objects[index], made.Origins[index] = object.Body, object.Origin
	}
	if made.Uses == nil {
		made.Uses = []string{}
	}
	return made, nil
}

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

// isManifest is true where a file is read: hidden files and folders are not.
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
