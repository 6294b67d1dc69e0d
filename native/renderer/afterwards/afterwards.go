// Package afterwards changes rendered objects: it substitutes variables, then applies patches and images.
//
// The order is fixed: a patch applies to the result of the substitution, and the content of a patch is not substituted.
package afterwards

import (
	"fmt"

	"stellwerk/renderer/objects"
	"stellwerk/renderer/wire"
)

// Apply returns the objects after substitution, patches and images. The prefix is that of our annotations.
func Apply(objs []objects.Object, post wire.PostBuild, prefix string) ([]objects.Object, error) {
	substituted, err := substitute(objs, post.Substitute, prefix)
	if err != nil {
		return nil, err
	}
	return transform(substituted, post)
}

// title is how messages name an object, without any of its content.
func title(object objects.Object) string {
	kind, _ := object.Body["kind"].(string)
	metadata := objects.Metadata(object.Body)
	name, _ := metadata["name"].(string)
	if namespace, _ := metadata["namespace"].(string); namespace != "" {
		name = namespace + "/" + name
	}
	if object.Origin == "" {
		return fmt.Sprintf("%s %s", kind, name)
	}
	return fmt.Sprintf("%s %s (%s)", kind, name, object.Origin)
}
