// The renderer turns files into Kubernetes objects: charts, templated kustomizations, substitution, decryption.
package main

import (
	_ "filippo.io/age"
	_ "github.com/Masterminds/sprig/v3"
	_ "github.com/ProtonMail/go-crypto/openpgp"
	_ "github.com/drone/envsubst"
	_ "github.com/getsops/sops/v3"
	_ "github.com/getsops/sops/v3/age"
	_ "github.com/getsops/sops/v3/keyservice"
	_ "github.com/getsops/sops/v3/pgp"
	_ "helm.sh/helm/v4/pkg/chart/v2/loader"
	_ "helm.sh/helm/v4/pkg/engine"
	_ "sigs.k8s.io/kustomize/api/krusty"
	_ "sigs.k8s.io/kustomize/kyaml/filesys"
	_ "sigs.k8s.io/yaml"
)

func main() {}
