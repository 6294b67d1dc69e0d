package afterwards

import (
	"strings"
	"testing"

	"stellwerk/renderer/objects"
	"stellwerk/renderer/wire"
)

func deployment(name, image string) objects.Object {
	return objects.Object{Origin: name + ".yaml", Body: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": name, "labels": map[string]any{"app": name}},
		"spec": map[string]any{"replicas": int64(1), "big": int64(12345678901234567), "template": map[string]any{"spec": map[string]any{
			"initContainers": []any{map[string]any{"name": "init", "image": image}},
			"containers":     []any{map[string]any{"name": "main", "image": image, "args": []any{"a"}}, map[string]any{"name": "side", "image": "busybox"}},
		}}},
	}}
}

func apply(t *testing.T, objs []objects.Object, post wire.PostBuild) []objects.Object {
	t.Helper()
	found, err := Apply(objs, post, prefix)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func patches(entries ...map[string]any) wire.PostBuild { return wire.PostBuild{Patches: entries} }

func spec(object objects.Object) map[string]any { return object.Body["spec"].(map[string]any) }

func containers(object objects.Object) []any {
	return spec(object)["template"].(map[string]any)["spec"].(map[string]any)["containers"].([]any)
}

func TestAPatchMergesByTheRulesOfItsKind(t *testing.T) {
	text := "spec:\n  template:\n    spec:\n      containers:\n      - name: main\n        image: other\n      - name: third\n        image: new\n"
	found := apply(t, []objects.Object{deployment("web", "nginx")}, patches(map[string]any{
		"patch": "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: any\n" + text, "target": map[string]any{"kind": "Deployment"},
	}))
	same(t, containers(found[0]), []any{
		map[string]any{"name": "main", "image": "other", "args": []any{"a"}}, map[string]any{"name": "third", "image": "new"}, map[string]any{"name": "side", "image": "busybox"},
	})
	same(t, found[0].Origin, "web.yaml")
	same(t, spec(found[0])["big"], int64(12345678901234567))
	same(t, found[0].Body["metadata"], map[string]any{"name": "web", "labels": map[string]any{"app": "web"}})
}

func TestAPatchOfAnUnknownKindReplacesLists(t *testing.T) {
	object := objects.Object{Body: map[string]any{"apiVersion": "x/v1", "kind": "X", "metadata": map[string]any{"name": "x"}, "list": []any{"a"}, "keep": "k", "drop": "d"}}
	found := apply(t, []objects.Object{object}, patches(map[string]any{"patch": "{apiVersion: x/v1, kind: X, metadata: {name: x}, list: [b], drop: null}"}))
	same(t, found[0].Body, map[string]any{"apiVersion": "x/v1", "kind": "X", "metadata": map[string]any{"name": "x"}, "list": []any{"b"}, "keep": "k"})
}

func TestAJSONPatchChangesEveryTarget(t *testing.T) {
	patch := map[string]any{"patch": "- op: replace\n  path: /spec/replicas\n  value: 5\n"}
	for name, test := range map[string]struct {
		target map[string]any
		want   []int64
	}{
		"kind":           {map[string]any{"kind": "Deployment"}, []int64{5, 5, 5}},
		"anchored":       {map[string]any{"name": "web"}, []int64{5, 1, 1}},
		"regex":          {map[string]any{"name": "web.*"}, []int64{5, 5, 1}},
		"group":          {map[string]any{"group": "apps", "version": "v1", "name": "api"}, []int64{1, 1, 5}},
		"label":          {map[string]any{"labelSelector": "app in (api, web)"}, []int64{5, 1, 5}},
		"nothing at all": {map[string]any{"kind": "StatefulSet"}, []int64{1, 1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			patch["target"] = test.target
			found := apply(t, []objects.Object{deployment("web", "n"), deployment("web2", "n"), deployment("api", "n")}, patches(patch))
			var got []int64
			for _, one := range found {
				got = append(got, spec(one)["replicas"].(int64))
			}
			same(t, got, test.want)
		})
	}
}

func TestAnnotationSelectorsAndOurOwnAnnotationsWork(t *testing.T) {
	one := deployment("web", "n")
	one.Body["metadata"].(map[string]any)["annotations"] = map[string]any{"pick": "me"}
	found := apply(t, []objects.Object{one, deployment("api", "n")}, patches(map[string]any{
		"patch":  "[{\"op\": \"add\", \"path\": \"/metadata/annotations/component-operator.cs.sap.com~1apply-order\", \"value\": \"-1\"}]",
		"target": map[string]any{"annotationSelector": "pick=me"},
	}))
	same(t, found[0].Body["metadata"].(map[string]any)["annotations"], map[string]any{"pick": "me", prefix + "/apply-order": "-1"})
	same(t, found[1].Body, deployment("api", "n").Body)
}

func TestAPatchWithoutTargetFindsItsObjectByName(t *testing.T) {
	text := "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: api}\nspec: {replicas: 3}\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 2}\n"
	for _, target := range []any{nil, map[string]any{}} {
		patch := map[string]any{"patch": text}
		if target != nil {
			patch["target"] = target
		}
		found := apply(t, []objects.Object{deployment("web", "n"), deployment("api", "n")}, patches(patch))
		same(t, []any{spec(found[0])["replicas"], spec(found[1])["replicas"]}, []any{2, 3})
	}
}

func TestAPatchCanDeleteAnObject(t *testing.T) {
	found := apply(t, []objects.Object{deployment("web", "n"), deployment("api", "n")}, patches(map[string]any{
		"patch": "$patch: delete\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n",
	}))
	if len(found) != 1 || found[0].Origin != "api.yaml" {
		t.Errorf("%v", found)
	}
}

func TestPatchesFollowEachOtherAndTheSubstitution(t *testing.T) {
	object := deployment("web", "n")
	spec(object)["replicas"] = "${n}"
	post := patches(
		map[string]any{"patch": "- {op: test, path: /spec/replicas, value: 42}\n- {op: add, path: /spec/text, value: \"${v}\"}", "target": map[string]any{"name": "web"}},
		map[string]any{"patch": "- {op: copy, from: /spec/text, path: /spec/copy}", "target": map[string]any{"name": "web"}},
	)
	post.Substitute = variables
	found := apply(t, []objects.Object{object}, post)
	same(t, []any{spec(found[0])["replicas"], spec(found[0])["copy"]}, []any{42, "${v}"})
}

func TestAPatchThatDoesNotFitIsNamed(t *testing.T) {
	for name, test := range map[string]struct {
		patch map[string]any
		want  string
	}{
		"no text":          {map[string]any{}, "has no patch"},
		"no YAML":          {map[string]any{"patch": "a: ["}, "unable to parse SM or JSON patch"},
		"no target":        {map[string]any{"patch": "- {op: remove, path: /spec}"}, "must specify a target for JSON patch"},
		"no object":        {map[string]any{"patch": "{apiVersion: v1, kind: X, metadata: {name: y}}"}, "no resource matches"},
		"no path":          {map[string]any{"patch": "- {op: remove, path: /nope}", "target": map[string]any{"name": "web"}}, "/nope"},
		"no operation":     {map[string]any{"patch": "- {op: nope, path: /spec}", "target": map[string]any{"name": "web"}}, "nope"},
		"no regex":         {map[string]any{"patch": "- {op: remove, path: /spec}", "target": map[string]any{"name": "("}}, "regexp"},
		"no selector":      {map[string]any{"patch": "- {op: remove, path: /spec}", "target": map[string]any{"labelSelector": "a b"}}, "b"},
		"two and a target": {map[string]any{"patch": "{apiVersion: v1, kind: X, metadata: {name: y}}\n---\n{apiVersion: v1, kind: X, metadata: {name: z}}", "target": map[string]any{"name": "web"}}, "Multiple"},
		"target is no map": {map[string]any{"patch": "- {op: remove, path: /spec}", "target": "web"}, "target"},
		"text is no text":  {map[string]any{"patch": 7}, "has no patch"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Apply([]objects.Object{deployment("web", "n")}, patches(map[string]any{"patch": "[]", "target": map[string]any{"name": "web"}}, test.patch), prefix)
			problem := failure(t, err)
			if problem.Kind != wire.PatchFailed || !strings.HasPrefix(problem.Message, "postBuild.patches[1]") || !strings.Contains(problem.Message, test.want) ||
				strings.Contains(problem.Message, "[patch") {
				t.Errorf("%+v", *problem)
			}
		})
	}
}

func TestImagesAreReplacedWhereverContainersAre(t *testing.T) {
	image := func(entry map[string]any, before string) any {
		found := apply(t, []objects.Object{deployment("web", before)}, wire.PostBuild{Images: []map[string]any{entry}})
		return containers(found[0])[0].(map[string]any)["image"]
	}
	for want, test := range map[string]struct {
		entry  map[string]any
		before string
	}{
		"nginx:2":             {map[string]any{"name": "nginx", "newTag": "2"}, "nginx:1"},
		"mirror/nginx:1":      {map[string]any{"name": "nginx", "newName": "mirror/nginx"}, "nginx:1"},
		"mirror/nginx:3":      {map[string]any{"name": "nginx", "newName": "mirror/nginx", "newTag": "3"}, "nginx"},
		"nginx@sha256:abc":    {map[string]any{"name": "nginx", "digest": "sha256:abc"}, "nginx:1"},
		"nginx:2@sha256:def":  {map[string]any{"name": "nginx", "newTag": "2", "digest": "sha256:def"}, "nginx:1"},
		"other/nginx:1":       {map[string]any{"name": "nginx", "newTag": "2"}, "other/nginx:1"},
		"host:5000/a/nginx:9": {map[string]any{"name": "host:5000/a/nginx", "newTag": "9"}, "host:5000/a/nginx:1"},
	} {
		same(t, image(test.entry, test.before), want)
	}
}

func TestImagesInCustomKindsAndCronJobsAreReplacedToo(t *testing.T) {
	pod := map[string]any{"containers": []any{map[string]any{"name": "m", "image": "nginx:1"}}}
	objs := []objects.Object{
		{Body: map[string]any{"apiVersion": "batch/v1", "kind": "CronJob", "metadata": map[string]any{"name": "c"},
			"spec": map[string]any{"jobTemplate": map[string]any{"spec": map[string]any{"template": map[string]any{"spec": pod}}}}}},
		{Body: map[string]any{"apiVersion": "x/v1", "kind": "X", "metadata": map[string]any{"name": "x"}, "spec": map[string]any{"deep": pod}}},
	}
	for _, one := range apply(t, objs, wire.PostBuild{Images: []map[string]any{{"name": "nginx", "newTag": "2"}}}) {
		if text := string(mustJSON(one.Body)); !strings.Contains(text, "nginx:2") || strings.Contains(text, "nginx:1") {
			t.Error(text)
		}
	}
}

func TestAnImageWithoutANameIsRefused(t *testing.T) {
	_, err := Apply([]objects.Object{deployment("web", "n")}, wire.PostBuild{Images: []map[string]any{{"newTag": "2"}}}, prefix)
	if problem := failure(t, err); problem.Kind != wire.PatchFailed || problem.Message != "postBuild.images[0] has no name" {
		t.Errorf("%+v", *problem)
	}
}

func TestOneObjectTwiceCannotBePatched(t *testing.T) {
	_, err := Apply([]objects.Object{deployment("web", "n"), deployment("web", "n")}, wire.PostBuild{Images: []map[string]any{{"name": "n", "newTag": "2"}}}, prefix)
	if problem := failure(t, err); !strings.Contains(problem.Message, "Deployment web (web.yaml) appears twice") {
		t.Errorf("%+v", *problem)
	}
}

func TestObjectsKeepTheirOrderAndStringsStayStrings(t *testing.T) {
	objs := []objects.Object{
		deployment("z", "n"), {Origin: "ns.yaml", Body: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "a"}}},
		configMap(map[string]any{"yes": "yes", "n": "n", "number": "007", "date": "2026-01-02", "null": "null", "float": "1e3", "tilde": "~", "bool": "true", "empty": "", "multi": "a\n b\n\n"}),
	}
	found := apply(t, objs, wire.PostBuild{Images: []map[string]any{{"name": "other", "newTag": "2"}}})
	for index := range objs {
		same(t, found[index], objs[index])
	}
}

func TestNoMessageOfAPatchQuotesTheObject(t *testing.T) {
	object := objects.Object{Body: map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "s"}, "data": map[string]any{"p": "canary"}}}
	for _, text := range []string{
		"- {op: test, path: /data/p, value: x}", "- {op: add, path: /data/p/q, value: x}", "- {op: remove, path: /data/p/0}", "{apiVersion: v1, kind: Secret, metadata: {name: s}, data: {p: {q: 1}}}",
	} {
		_, err := Apply([]objects.Object{object}, patches(map[string]any{"patch": text, "target": map[string]any{"kind": "Secret"}}), prefix)
		if err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func FuzzPatch(f *testing.F) {
	for _, text := range []string{"- {op: remove, path: /spec/replicas}", "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {$patch: replace}}", "a: &a [*a]", "[]"} {
		f.Add(text, true)
	}
	f.Fuzz(func(t *testing.T, text string, aimed bool) {
		patch := map[string]any{"patch": text}
		if aimed {
			patch["target"] = map[string]any{"kind": "Deployment"}
		}
		if _, err := Apply([]objects.Object{deployment("web", "n")}, patches(patch), prefix); err != nil {
			failure(t, err)
		}
	})
}

func TestAListOfOperationsRoundsLargeNumbersAsKustomizeDoes(t *testing.T) {
	patch := map[string]any{"patch": "- op: replace\n  path: /spec/replicas\n  value: 5\n", "target": map[string]any{"kind": "Deployment"}}
	found := apply(t, []objects.Object{deployment("web", "nginx")}, patches(patch))
	same(t, spec(found[0])["big"], 12345678901234568)
}
