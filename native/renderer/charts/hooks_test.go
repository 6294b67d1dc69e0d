package charts_test

import (
	"fmt"
	"strings"
	"testing"

	"stellwerk/renderer/objects"
	"stellwerk/renderer/wire"
)

// job is a chart of one object with these annotations, as `key: value` lines.
func job(annotations ...string) map[string][]byte {
	return template("apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: migrate\n  annotations:\n    " +
		strings.Join(annotations, "\n    ") + "\n")
}

// policies are our annotations as one text, or "skipped".
func policies(t *testing.T, files map[string][]byte, revision int) string {
	req := request(files, "")
	req.Release.Revision = revision
	return policiesOf(mustRender(t, req, nil))
}

func policiesOf(found []objects.Object) string {
	if len(found) == 0 {
		return "skipped"
	}
	var all []string
	for _, suffix := range []string{
		"reconcile-policy", "apply-order", "purge-order", "update-policy", "delete-policy", "delete-order", "adoption-policy",
		"delete-hook", "delete-hook-only", "delete-hook-weight",
	} {
		if value, isSet := annotations(found[0])[prefix+"/"+suffix]; isSet {
			all = append(all, fmt.Sprint(suffix, "=", value))
		}
	}
	return strings.Join(all, " ")
}

func TestHooksBecomePolicies(t *testing.T) {
	const (
		again = "reconcile-policy=on-object-or-component-change "
		once  = "reconcile-policy=once "
		fresh = " update-policy=recreate"
	)
	for _, given := range []struct{ hooks, first, later string }{
		{"pre-install", once + "apply-order=-101" + fresh, once + "apply-order=-101" + fresh},
		{"post-install", once + "apply-order=101" + fresh, once + "apply-order=101" + fresh},
		{"pre-install,post-install", once + "apply-order=-101" + fresh, once + "apply-order=-101" + fresh},
		{"pre-upgrade", "skipped", again + "apply-order=-101" + fresh},
		{"post-upgrade", "skipped", again + "apply-order=101" + fresh},
		{"pre-upgrade,post-upgrade", "skipped", again + "apply-order=-101" + fresh},
		{"pre-install,pre-upgrade", once + "apply-order=-101" + fresh, again + "apply-order=-101" + fresh},
		{"post-install, post-upgrade", once + "apply-order=101" + fresh, again + "apply-order=101" + fresh},
		{"pre-install , post-upgrade", once + "apply-order=-101" + fresh, again + "apply-order=101" + fresh},
		{" Pre-Install", once + "apply-order=-101" + fresh, once + "apply-order=-101" + fresh},
		{"test", "skipped", "skipped"},
		{"test-success,pre-rollback,post-rollback", "skipped", "skipped"},
		{"post-install,test", once + "apply-order=101" + fresh, once + "apply-order=101" + fresh},
	} {
		chart := job(`helm.sh/hook: "` + given.hooks + `"`)
		if got := policies(t, chart, 1); got != given.first {
			t.Errorf("%s at first: %s", given.hooks, got)
		}
		if got := policies(t, chart, 2); got != given.later {
			t.Errorf("%s later: %s", given.hooks, got)
		}
	}
}

func TestAHookThatSucceededIsPurgedWhenItsWavesAreOver(t *testing.T) {
	for hooks, want := range map[string]string{
		"pre-install": "-1", "post-install": "201", "pre-install,post-install": "201",
		"pre-upgrade": "-1", "post-upgrade": "201", "pre-upgrade,post-upgrade": "201",
	} {
		got := policies(t, job("helm.sh/hook: "+hooks, "helm.sh/hook-delete-policy: hook-succeeded"), 2)
		if !strings.Contains(got, " purge-order="+want) || strings.Contains(got, "update-policy") {
			t.Errorf("%s: %s", hooks, got)
		}
	}
	both := policies(t, job("helm.sh/hook: pre-install", `helm.sh/hook-delete-policy: "hook-succeeded, before-hook-creation"`), 1)
	if both != "reconcile-policy=once apply-order=-101 purge-order=-1 update-policy=recreate" {
		t.Error(both)
	}
}

func TestAHookThatSucceededStaysUntilTheHeaviestHookIsDone(t *testing.T) {
	hook := func(name, event, weight, policy string) string {
		return "apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: " + name + "\n  annotations:\n    helm.sh/hook: " + event +
			"\n    helm.sh/hook-weight: \"" + weight + "\"\n    helm.sh/hook-delete-policy: " + policy + "\n"
	}
	found := mustRender(t, request(small(map[string]string{
		"templates/a.yaml": hook("early", "post-install", "100", "hook-succeeded"),
		"templates/b.yaml": hook("late", "post-install", "200", "before-hook-creation"),
		"templates/c.yaml": hook("before", "pre-install", "0", "hook-succeeded"),
	}), ""), nil)
	var got []any
	for _, object := range found {
		got = append(got, annotations(object)[prefix+"/apply-order"], annotations(object)[prefix+"/purge-order"])
	}
	if fmt.Sprint(got) != "[201 301 301 <nil> -101 -1]" {
		t.Error(got)
	}
}

func TestWeightsOrderHooksWithoutReachingOrderZero(t *testing.T) {
	for weight, want := range map[string]string{`"-100"`: "-201", `" 5 "`: "-96", "100": "-1", `"+7"`: "-94"} {
		got := policies(t, job("helm.sh/hook: pre-install", "helm.sh/hook-weight: "+weight), 1)
		if !strings.Contains(got, "apply-order="+want+" ") {
			t.Errorf("%s: %s", weight, got)
		}
	}
}

func TestWhatIsToBeKeptIsOrphaned(t *testing.T) {
	if got := policies(t, job(`helm.sh/resource-policy: " Keep"`), 1); got != "delete-policy=orphan" {
		t.Error(got)
	}
	both := policies(t, job("helm.sh/resource-policy: keep", "helm.sh/hook: post-install"), 1)
	if both != "reconcile-policy=once apply-order=101 update-policy=recreate delete-policy=orphan" {
		t.Error(both)
	}
}

func TestWhatCannotBeMappedIsRefusedByName(t *testing.T) {
	for _, given := range []struct {
		annotations []string
		words       []string
	}{
		{[]string{"helm.sh/hook: pre-delete"}, []string{"helm hook type pre-delete not supported"}},
		{[]string{"helm.sh/hook: 'post-install,post-delete'"}, []string{"helm hook type post-delete not supported"}},
		{[]string{"helm.sh/hook: crd-install"}, []string{"crd-install"}},
		{[]string{"helm.sh/hook: test-failure"}, []string{"test-failure"}},
		{[]string{`helm.sh/hook: ""`}, []string{"helm.sh/hook is empty"}},
		{[]string{"helm.sh/hook: pre-install", "helm.sh/hook-delete-policy: hook-failed"}, []string{"hook-failed"}},
		{[]string{"helm.sh/hook: pre-install", "helm.sh/hook-delete-policy: never"}, []string{"never"}},
		{[]string{"helm.sh/hook: pre-install", "helm.sh/hook-weight: '101'"}, []string{`"101"`, "to 100"}},
		{[]string{"helm.sh/hook: pre-install", "helm.sh/hook-weight: heavy"}, []string{`"heavy"`}},
		{[]string{"helm.sh/hook: pre-install", "helm.sh/hook-weight: 1.5"}, []string{`"1.5"`}},
		{[]string{"helm.sh/resource-policy: delete"}, []string{`helm.sh/resource-policy "delete"`, `"keep"`}},
		{[]string{prefix + "/apply-order: '1'"}, []string{prefix + "/apply-order", "postBuild.patches"}},
		{[]string{prefix + "/anything: x", "helm.sh/hook: test"}, []string{prefix + "/anything"}},
	} {
		got := refusalOf(t, request(job(given.annotations...), ""), nil)
		expect(t, got, wire.UnsupportedHook, "templates/object.yaml", append(given.words, "Job migrate")...)
	}
}

func TestHooksForTheEndAreLeftOutWhereTheParentSaysSo(t *testing.T) {
	for hooks, want := range map[string]string{
		"pre-delete":               "skipped",
		"post-delete, pre-delete":  "skipped",
		"post-install,post-delete": "reconcile-policy=once apply-order=101 update-policy=recreate",
	} {
		req := request(job("helm.sh/hook: '"+hooks+"'", "helm.sh/hook-delete-policy: before-hook-creation"), "")
		req.DeleteHooks = "omit"
		if got := policiesOf(mustRender(t, req, nil)); got != want {
			t.Errorf("%s: %s", hooks, got)
		}
	}
}

func TestHooksForTheEndAreMarkedWhereTheParentRunsThem(t *testing.T) {
	for hooks, want := range map[string]string{
		"pre-delete":              "delete-hook=pre-delete delete-hook-only=true delete-hook-weight=7",
		"post-delete, pre-delete": "delete-hook=post-delete,pre-delete delete-hook-only=true delete-hook-weight=7",
		"test":                    "skipped",
	} {
		req := request(job("helm.sh/hook: '"+hooks+"'", "helm.sh/hook-weight: '7'"), "")
		req.DeleteHooks = "keep"
		if got := policiesOf(mustRender(t, req, nil)); got != want {
			t.Errorf("%s: %s", hooks, got)
		}
	}
	req := request(job("helm.sh/hook: 'post-install,post-delete'"), "")
	req.DeleteHooks = "keep"
	got := annotations(mustRender(t, req, nil)[0])
	if got[prefix+"/delete-hook"] != "post-delete" || got[prefix+"/apply-order"] != "101" || got[prefix+"/delete-hook-only"] != nil {
		t.Error(got)
	}
}

func TestADefinitionIsKeptButItsHookIsNotRead(t *testing.T) {
	definition := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: a\n  annotations:\n    "
	chart := small(map[string]string{
		"crds/a.yaml": definition + "helm.sh/hook: crd-install\n    helm.sh/resource-policy: keep\n",
	})
	if got := policies(t, chart, 1); got != "delete-policy=orphan" {
		t.Error(got)
	}
	chart = small(map[string]string{"crds/deep/a.yaml": definition + prefix + "/delete-policy: orphan\n"})
	expect(t, refusalOf(t, request(chart, ""), nil), wire.UnsupportedHook, "crds/deep/a.yaml", "delete-policy")
}

func TestAnnotationsOfOthersStay(t *testing.T) {
	found := mustRender(t, request(job("helm.sh/hook: pre-install", "example.com/a: b"), ""), nil)
	if got := annotations(found[0]); got["example.com/a"] != "b" || got["helm.sh/hook"] != "pre-install" {
		t.Error(got)
	}
}

func TestAHookThatIsToGoWhenItFailsIsAcceptedWithTheHooksForTheEnd(t *testing.T) {
	text := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  annotations: {helm.sh/hook: pre-install, " +
		"helm.sh/hook-delete-policy: 'before-hook-creation,hook-failed'}\n"
	for _, deleteHooks := range []string{"omit", "keep"} {
		req := request(template(text), "")
		req.DeleteHooks = deleteHooks
		found := mustRender(t, req, noObjects{})
		if len(found) != 1 || annotations(found[0])[prefix+"/update-policy"] != "recreate" {
			t.Errorf("%s: %v", deleteHooks, found)
		}
	}
	expect(t, refusalOf(t, request(template(text), ""), noObjects{}), wire.UnsupportedHook, "templates/object.yaml", "hook-failed")
}
