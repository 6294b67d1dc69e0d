package serve

import (
	"testing"

	"stellwerk/renderer/wire"
)

func TestAPathOutsideOfTheKustomizationIsNamedWithItsLine(t *testing.T) {
	p := start(t)
	for text, entry := range map[string]string{
		"components: [../../part]\n":                                                           "../../part",
		"resources: [own.yaml]\npatches: [{path: ../../base/c.yaml}]\n":                        "../../base/c.yaml",
		"resources: [own.yaml]\nconfigMapGenerator: [{name: x, files: [../../base/c.yaml]}]\n": "../../base/c.yaml",
		"resources: [own.yaml]\nsecretGenerator: [{name: x, files: [a=../../base/c.yaml]}]\n":  "../../base/c.yaml",
		"resources: [own.yaml]\nsecretGenerator: [{name: x, envs: [../../base/c.env]}]\n":      "../../base/c.env",
		"resources: [own.yaml]\ncrds: [../../base/r.json]\n":                                   "../../base/r.json",
		"resources: [own.yaml]\nconfigurations: [../../base/r.yaml]\n":                         "../../base/r.yaml",
		"resources: [own.yaml]\nreplacements: [{path: ../../base/r.yaml}]\n":                   "../../base/r.yaml",
	} {
		req := request(auto, "overlays/prod", map[string]string{"overlays/prod/kustomization.yaml": text, "overlays/prod/own.yaml": configMap("own"), "part/kustomization.yaml": "kind: Component\n"})
		message := p.ask(req)
		if message.Error == nil || message.Error.Kind != wire.KustomizeFailed || message.Error.Line == 0 || message.Error.Missing != entry[6:] ||
			message.Error.Message != "overlays/prod/kustomization.yaml lists "+entry+", which does not exist" {
			t.Errorf("%q: %+v", text, message.Error)
		}
	}
}
