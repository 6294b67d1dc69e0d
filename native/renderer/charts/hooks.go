package charts

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"stellwerk/renderer/objects"
	"stellwerk/renderer/wire"
)

// The annotations by which a chart tells Helm what an object is for.
const (
	hookAnnotation   = "helm.sh/hook"
	weightAnnotation = "helm.sh/hook-weight"
	deleteAnnotation = "helm.sh/hook-delete-policy"
	policyAnnotation = "helm.sh/resource-policy"
)

const (
	heaviest = 100
	// farthest bounds the weights of hooks that run on one side of the other objects only.
	farthest = 32_000
	// beforeAll and afterAll are the distances that put the lightest and the heaviest hook before and after order 0.
	beforeAll, afterAll = -101, 101
	// purgedBefore and purgedAfter are the waves at whose end a hook that succeeded is removed: the last wave of the
	// hooks before the other objects, and that of the hooks after them (see purgeLast).
	purgedBefore, purgedAfter = "-1", "201"
)

// What may become of hooks for the end of a release.
const (
	omitFarewells = "omit"
	keepFarewells = "keep"
)

// hooks are the moments of a release for which an object is meant.
type hooks struct {
	preInstall, postInstall, preUpgrade, postUpgrade bool
	farewells                                        []string // pre-delete, post-delete
	weight                                           int
	recreate, purge                                  bool
}

// annotate turns what an object tells Helm into what it tells our engine. Keep is false where it is to be left out.
func annotate(object objects.Object, req *wire.Request) (keep bool, err error) {
	prefix := req.Prefix
	annotations, err := foreign(object, prefix)
	if err != nil || annotations == nil {
		return true, err
	}
	names, isHook := annotations[hookAnnotation]
	if !isHook {
		return true, mapPolicy(object, annotations, prefix)
	}
	found, keep, err := hooksOf(object, annotations, names, req.Farewells)
	if err != nil || !keep {
		return false, err
	}
	ours := found.annotations(req.Release.Revision)
	if ours == nil {
		return false, nil
	}
	for suffix, value := range ours {
		annotations[prefix+"/"+suffix] = value
	}
	return true, mapPolicy(object, annotations, prefix)
}

// annotateDefinition is annotate for an object of crds/, where Helm looks for no hooks.
func annotateDefinition(object objects.Object, prefix string) error {
	annotations, err := foreign(object, prefix)
	if err != nil || annotations == nil {
		return err
	}
	return mapPolicy(object, annotations, prefix)
}

// foreign are the annotations of an object; ours may not be among them, because hooks are mapped onto ours.
func foreign(object objects.Object, prefix string) (map[string]any, error) {
	annotations := annotationsOf(object)
	for key := range annotations {
		if strings.HasPrefix(key, prefix+"/") {
			return nil, unsupported(object, "the annotation %s may not be set by a chart (spec.postBuild.patches may add it)", key)
		}
	}
	return annotations, nil
}

func mapPolicy(object objects.Object, annotations map[string]any, prefix string) error {
	policy, isSet := annotations[policyAnnotation]
	if !isSet {
		return nil
	}
	if strings.ToLower(strings.TrimSpace(text(policy))) != "keep" {
		return unsupported(object, "%s %q is not supported, only \"keep\" is", policyAnnotation, text(policy))
	}
	annotations[prefix+"/delete-policy"] = "orphan"
	return nil
}

// hooksOf reads the annotations of a hook. Keep is false where no moment remains in which we would run it.
func hooksOf(
	object objects.Object, annotations map[string]any, names any, farewells string,
) (found hooks, keep bool, err error) {
	for _, name := range words(names) {
		switch name {
		case "pre-install":
			found.preInstall, keep = true, true
		case "post-install":
			found.postInstall, keep = true, true
		case "pre-upgrade":
			found.preUpgrade, keep = true, true
		case "post-upgrade":
			found.postUpgrade, keep = true, true
		case "pre-rollback", "post-rollback", "test", "test-success":
		case "pre-delete", "post-delete":
			switch farewells {
			case keepFarewells:
				found.farewells, keep = append(found.farewells, name), true
			case omitFarewells:
			default:
				return found, false, unsupported(object, "helm hook type %s not supported", name)
			}
		default:
			return found, false, unsupported(object, "unknown helm hook type %s", strconv.Quote(name))
		}
	}
	if len(words(names)) == 0 {
		return found, false, unsupported(object, "%s is empty", hookAnnotation)
	}
	if !keep {
		return found, false, nil
	}
	if err := found.readWeight(object, annotations); err != nil {
		return found, false, err
	}
	return found, true, found.readDeletePolicy(object, annotations, farewells)
}

func (h *hooks) readWeight(object objects.Object, annotations map[string]any) error {
	value, isSet := annotations[weightAnnotation]
	if !isSet {
		return nil
	}
	weight, err := strconv.Atoi(strings.TrimSpace(text(value)))
	lowest, highest := -heaviest, heaviest
	if !h.preInstall && !h.preUpgrade {
		highest = farthest // nothing comes after it
	}
	if !h.postInstall && !h.postUpgrade {
		lowest = -farthest // nothing comes before it
	}
	if err != nil || weight < lowest || weight > highest {
		return unsupported(object, "%s %q is no whole number from %d to %d", weightAnnotation, text(value), lowest, highest)
	}
	h.weight = weight
	return nil
}

// readDeletePolicy reads when a hook is removed. A hook that failed stays, for its log, until it runs again or the
// release goes: where hooks for the end of a release are accepted, hook-failed is accepted and has no effect.
func (h *hooks) readDeletePolicy(object objects.Object, annotations map[string]any, farewells string) error {
	policies := words(annotations[deleteAnnotation])
	if len(policies) == 0 {
		policies = []string{"before-hook-creation"}
	}
	for _, policy := range policies {
		switch policy {
		case "before-hook-creation":
			h.recreate = true
		case "hook-succeeded":
			h.purge = true
		case "hook-failed":
			if farewells != keepFarewells && farewells != omitFarewells {
				return unsupported(object, "%s %q is not supported", deleteAnnotation, policy)
			}
		default:
			return unsupported(object, "%s %q is not supported", deleteAnnotation, policy)
		}
	}
	return nil
}

// annotations are ours for a hook by their suffix; nil where it has no part in this revision.
//
// What is for the end alone says so: until then it is no object of the set.
func (h *hooks) annotations(revision int) map[string]string {
	ours := h.policies(revision)
	if len(h.farewells) == 0 {
		return ours
	}
	if ours == nil {
		ours = map[string]string{"delete-hook-only": "true"}
	}
	ours["delete-hook"] = strings.Join(h.farewells, ",")
	ours["delete-hook-weight"] = strconv.Itoa(h.weight)
	return ours
}

// policies are our annotations for a hook by their suffix; nil where it has no part in this revision.
func (h *hooks) policies(revision int) map[string]string {
	before, after, reconcile := h.preInstall, h.postInstall, "once"
	if revision > 1 && (h.preUpgrade || h.postUpgrade) {
		before, after, reconcile = h.preUpgrade, h.postUpgrade, "on-object-or-component-change"
	}
	if !before && !after {
		return nil
	}
	order, purge := h.weight+afterAll, purgedAfter
	if before {
		order = h.weight + beforeAll
	}
	if before && !after {
		purge = purgedBefore
	}
	ours := map[string]string{"reconcile-policy": reconcile, "apply-order": strconv.Itoa(order)}
	if h.recreate {
		ours["update-policy"] = "recreate"
	}
	if h.purge {
		ours["purge-order"] = purge
	}
	return ours
}

// purgeLast postpones the removal of hooks that succeeded to the end of the heaviest hook, where that comes later than
// hooks usually do: Helm removes hooks when the last one of their event is done, and that one may need the others.
func purgeLast(all []objects.Object, prefix string) {
	last, _ := strconv.Atoi(purgedAfter)
	usual := last
	for _, object := range all {
		order, _ := strconv.Atoi(text(annotationsOf(object)[prefix+"/apply-order"]))
		last = max(last, order)
	}
	if last == usual {
		return
	}
	for _, object := range all {
		if annotations := annotationsOf(object); annotations[prefix+"/purge-order"] == purgedAfter {
			annotations[prefix+"/purge-order"] = strconv.Itoa(last)
		}
	}
}

func annotationsOf(object objects.Object) map[string]any {
	metadata, _ := object.Body["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	return annotations
}

// words are the parts of a list between commas, as Helm reads them: without blanks, in lower case.
func words(list any) []string {
	parts := strings.Split(strings.ToLower(text(list)), ",")
	for index := range parts {
		parts[index] = strings.TrimSpace(parts[index])
	}
	return slices.DeleteFunc(parts, func(part string) bool { return part == "" })
}

// text is an annotation as text; one that YAML took for a number is refused later, and by name.
func text(value any) string {
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}

func unsupported(object objects.Object, format string, args ...any) *wire.Error {
	metadata, _ := object.Body["metadata"].(map[string]any)
	return &wire.Error{
		Kind: wire.UnsupportedHook, File: object.Origin,
		Message: fmt.Sprintf("%v %v: %s", object.Body["kind"], metadata["name"], fmt.Sprintf(format, args...)),
	}
}
