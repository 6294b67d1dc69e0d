package kustomizations

import (
	"fmt"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"

	"stellwerk/renderer/nodes"
	"stellwerk/renderer/objects"
)

func (s *stage) krusty(base string) ([]objects.Object, error) {
	options := krusty.MakeDefaultOptions()
	options.LoadRestrictions = types.LoadRestrictionsNone
	result, err := krusty.MakeKustomizer(options).Run(s.files, "/"+base)
	if err != nil {
		return nil, err
	}
	var found []objects.Object
	for _, one := range result.Resources() {
		body, err := nodes.Object(one.YNode())
		if err != nil {
			return nil, fmt.Errorf("%s %s %w", one.GetKind(), one.GetName(), err)
		}
		found = append(found, objects.Object{Body: body})
	}
	return found, nil
}
