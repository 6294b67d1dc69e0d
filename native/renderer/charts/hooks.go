package charts

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"stellwerk/renderer/objects"
	"stellwerk/renderer/wire"
)

// The annotations of a chart that Helm reads.
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
	// purgedBefore and purgedAfter are the waves after which a hook that succeeded is deleted: the last wave of the hooks
	// before the other objects, and that of the hooks after them (see purgeLast).
	purgedBefore, purgedAfter = "-1", "201"
)

// How a request may treat hooks for the deletion of a release; any other value refuses them.
const (
	omitDeleteHooks = "omit"
	keepDeleteHooks = "keep"
)

// hooks are the moments of a release at which Helm applies an object, and how it does that.
type hooks struct {
	moments         map[string]bool // pre-install, post-install, pre-upgrade, post-upgrade
	deleteHooks     []string        // pre-delete, post-delete
	weight          int
	recreate, purge bool
}

// annotate replaces the annotations of Helm by those of our engine. Keep is false where the object is left out.
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
	found, err := hooksOf(object, annotations, names, req.DeleteHooks)
	if err != nil {
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

// foreign returns the annotations of an object. A chart may not set ours, because hooks are mapped to them.
func foreign(object objects.Object, prefix string) (map[string]any, error) {
	annotations := objects.Annotations(object.Body)
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

// hooksOf reads the annotations of a hook.
func hooksOf(object objects.Object, annotations map[string]any, names any, deleteHooks string) (*hooks, error) {
	found := &hooks{moments: map[string]bool{}}
	listed := words(names)
	if len(listed) == 0 {
		return nil, unsupported(object, "%s is empty", hookAnnotation)
	}
	for _, name := range listed {
		switch name {
		case "pre-install", "post-install", "pre-upgrade", "post-upgrade":
			found.moments[name] = true
		case "pre-rollback", "post-rollback", "test", "test-success":
		case "pre-delete", "post-delete":
			switch deleteHooks {
			case keepDeleteHooks:
				found.deleteHooks = append(found.deleteHooks, name)
			case omitDeleteHooks:
			default:
				return nil, unsupported(object, "helm hook type %s not supported", name)
			}
		default:
			return nil, unsupported(object, "unknown helm hook type %s", strconv.Quote(name))
		}
	}
	if len(found.moments)+len(found.deleteHooks) == 0 {
		return found, nil // left out, so its other annotations do not matter
	}
	if err := found.readWeight(object, annotations); err != nil {
		return nil, err
	}
	return found, found.readDeletePolicy(object, annotations, deleteHooks)
}

func (h *hooks) readWeight(object objects.Object, annotations map[string]any) error {
	value, isSet := annotations[weightAnnotation]
	if !isSet {
		return nil
	}
	weight, err := strconv.Atoi(strings.TrimSpace(text(value)))
	lowest, highest := -heaviest, heaviest
	if !h.moments["pre-install"] && !h.moments["pre-upgrade"] {
		highest = farthest // nothing comes after it
	}
	if !h.moments["post-install"] && !h.moments["post-upgrade"] {
		lowest = -farthest // nothing comes before it
	}
	if err != nil || weight < lowest || weight > highest {
		return unsupported(object, "%s %q is no whole number from %d to %d", weightAnnotation, text(value), lowest, highest)
	}
	h.weight = weight
	return nil
}

// readDeletePolicy reads when a hook is deleted. A failed hook stays, for its log, until it runs again or the release is
// deleted: where delete hooks are accepted, hook-failed is accepted and has no effect.
func (h *hooks) readDeletePolicy(object objects.Object, annotations map[string]any, deleteHooks string) error {
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
			if deleteHooks != keepDeleteHooks && deleteHooks != omitDeleteHooks {
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
// An object for the deletion only is marked with delete-hook-only, and is no object of the set until then.
func (h *hooks) annotations(revision int) map[string]string {
	before, after, reconcile := h.moments["pre-install"], h.moments["post-install"], "once"
	if revision > 1 && (h.moments["pre-upgrade"] || h.moments["post-upgrade"]) {
		before, after, reconcile = h.moments["pre-upgrade"], h.moments["post-upgrade"], "on-object-or-component-change"
	}
	ours := map[string]string{}
	switch {
	case before || after:
		order, purge := h.weight+afterAll, purgedAfter
		if before {
			order = h.weight + beforeAll
		}
		if before && !after {
			purge = purgedBefore
		}
		ours["reconcile-policy"], ours["apply-order"] = reconcile, strconv.Itoa(order)
		if h.recreate {
			ours["update-policy"] = "recreate"
		}
		if h.purge {
			ours["purge-order"] = purge
		}
	case len(h.deleteHooks) > 0:
		ours["delete-hook-only"] = "true"
	default:
		return nil
	}
	if len(h.deleteHooks) > 0 {
		ours["delete-hook"] = strings.Join(h.deleteHooks, ",")
		ours["delete-hook-weight"] = strconv.Itoa(h.weight)
	}
	return ours
}

// purgeLast postpones the deletion of hooks that succeeded until the heaviest hook is done, where that is later than the
// usual wave: Helm deletes hooks after the last one of their event, and that one may need the others.
func purgeLast(all []objects.Object, prefix string) {
	last, _ := strconv.Atoi(purgedAfter)
	usual := last
	for _, object := range all {
		order, _ := strconv.Atoi(text(objects.Annotations(object.Body)[prefix+"/apply-order"]))
		last = max(last, order)
	}
	if last == usual {
		return
	}
	for _, object := range all {
		if annotations := objects.Annotations(object.Body); annotations[prefix+"/purge-order"] == purgedAfter {
			annotations[prefix+"/purge-order"] = strconv.Itoa(last)
		}
	}
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
	return &wire.Error{
		Kind: wire.UnsupportedHook, File: object.Origin,
		Message: fmt.Sprintf("%v %v: %s", object.Body["kind"], objects.Metadata(object.Body)["name"], fmt.Sprintf(format, args...)),
	}
}
