package afterwards

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"sigs.k8s.io/kustomize/api/builtins"
	"sigs.k8s.io/kustomize/api/provider"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"

	"stellwerk/renderer/nodes"
	"stellwerk/renderer/objects"
	"stellwerk/renderer/wire"
)

// imageFields are where kustomize looks for images, in addition to every list called containers or initContainers.
var imageFields = []types.FieldSpec{
	{Path: "spec/containers[]/image", CreateIfNotPresent: true},
	{Path: "spec/initContainers[]/image", CreateIfNotPresent: true},
	{Path: "spec/volumes[]/image/reference", CreateIfNotPresent: true},
	{Path: "spec/template/spec/containers[]/image", CreateIfNotPresent: true},
	{Path: "spec/template/spec/initContainers[]/image", CreateIfNotPresent: true},
	{Path: "spec/template/spec/volumes[]/image/reference", CreateIfNotPresent: true},
}

// transform runs kustomize's own transformers on the objects, without a kustomization: it sorts, renames and hashes
// nothing.
func transform(objs []objects.Object, post wire.PostBuild) (result []objects.Object, err error) {
	if len(post.Patches) == 0 && len(post.Images) == 0 {
		return objs, nil
	}
	defer func() {
		if problem := recover(); problem != nil {
			result, err = nil, patchFailed("kustomize cannot work on the objects; one of them or a patch is malformed")
		}
	}()
	bench, err := layOut(objs)
	if err != nil {
		return nil, err
	}
	for index, patch := range post.Patches {
		if err := bench.patch(fmt.Sprintf("postBuild.patches[%d]", index), patch); err != nil {
			return nil, err
		}
	}
	for index, image := range post.Images {
		if err := bench.image(fmt.Sprintf("postBuild.images[%d]", index), image); err != nil {
			return nil, err
		}
	}
	return bench.collect()
}

// workbench has the objects as kustomize knows them.
type workbench struct {
	factory *resmap.Factory
	all     resmap.ResMap
	origins map[*resource.Resource]string
}

func layOut(objs []objects.Object) (*workbench, error) {
	resources := provider.NewDefaultDepProvider().GetResourceFactory()
	bench := &workbench{resmap.NewFactory(resources), resmap.New(), map[*resource.Resource]string{}}
	for _, object := range objs {
		one, err := resources.FromMap(object.Body)
		if err != nil {
			return nil, patchFailed(title(object) + " cannot be patched: kustomize does not take it for an object")
		}
		if err := bench.all.Append(one); err != nil {
			return nil, patchFailed(title(object) + " appears twice, so patches and images cannot tell which is meant")
		}
		bench.origins[one] = object.Origin
	}
	return bench, nil
}

func (w *workbench) patch(field string, patch map[string]any) error {
	text, _ := patch["patch"].(string)
	text = strings.ToValidUTF8(text, "\ufffd")
	if strings.TrimSpace(text) == "" {
		return patchFailed(field + " has no patch")
	}
	if err := objects.CheckAliases([]byte(text)); err != nil {
		return &wire.Error{Kind: wire.LimitExceeded, Message: field + " " + err.Error()}
	}
	settings := map[string]any{"patch": text}
	if target, given := patch["target"]; given && !isEmpty(target) {
		settings["target"] = target
	}
	plugin := builtins.NewPatchTransformerPlugin()
	helpers := resmap.NewPluginHelpers(nil, nil, w.factory, types.DisabledPluginConfig())
	return w.run(field, plugin, helpers, settings)
}

func isEmpty(target any) bool {
	fields, isMapping := target.(map[string]any)
	return target == nil || isMapping && len(fields) == 0
}

func (w *workbench) image(field string, image map[string]any) error {
	if name, _ := image["name"].(string); name == "" {
		return patchFailed(field + " has no name")
	}
	settings := map[string]any{"imageTag": image, "fieldSpecs": imageFields}
	return w.run(field, builtins.NewImageTagTransformerPlugin(), nil, settings)
}

func (w *workbench) run(
	field string, plugin resmap.TransformerPlugin, helpers *resmap.PluginHelpers, settings map[string]any,
) error {
	text, err := json.Marshal(settings)
	if err != nil {
		return patchFailed(field + " cannot be read")
	}
	if err := plugin.Config(helpers, text); err != nil {
		return patchFailed(field + ": " + withoutText(err))
	}
	if err := plugin.Transform(w.all); err != nil {
		return patchFailed(field + ": " + withoutText(err))
	}
	w.all.DropEmpties() // what a patch deleted
	return nil
}

var (
	// texts are where kustomize repeats the patch, which the reader of the message has.
	texts = regexp.MustCompile(`(?s):? ?\[patch: ".*"\]| in\n.*`)
	// contents are where it quotes an object, which may be a Secret.
	contents = regexp.MustCompile("(?s)value: \\{.*?\\}|!![a-z]+ `.*?`|node contents:.*")
)

func withoutText(err error) string {
	return contents.ReplaceAllString(texts.ReplaceAllString(err.Error(), ""), "(content not shown)")
}

func (w *workbench) collect() ([]objects.Object, error) {
	w.all.RemoveBuildAnnotations()
	var result []objects.Object
	for _, one := range w.all.Resources() {
		body, err := nodes.Object(one.YNode())
		if err != nil {
			return nil, patchFailed(fmt.Sprintf("%s %s: %s", one.GetKind(), one.GetName(), err))
		}
		result = append(result, objects.Object{Body: body, Origin: w.origins[one]})
	}
	return result, nil
}

func patchFailed(message string) *wire.Error {
	return &wire.Error{Kind: wire.PatchFailed, Message: message}
}
