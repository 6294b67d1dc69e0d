package charts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"

	"stellwerk/renderer/wire"
)

// checkInstallable refuses what Helm refuses before it renders, and a chart without one of its declared subcharts.
func (t *tree) checkInstallable(cluster wire.Cluster) error {
	about := t.root.Metadata
	if about.Type != "" && about.Type != "application" {
		return broken(t.file(chartFile), 0, "%s charts are not installable", about.Type)
	}
	if version := kubeVersion(cluster); about.KubeVersion != "" &&
		!chartutil.IsCompatibleRange(about.KubeVersion, version.String()) {
		return broken(t.file(chartFile), 0, "chart requires kubeVersion: %s which is incompatible with Kubernetes %s",
			about.KubeVersion, version.Version)
	}
	if missing := missingDependencies(t.root); len(missing) > 0 {
		return broken(t.file(chartFile), 0, "dependent chart %s not found in %s",
			strings.Join(missing, ", "), path.Join(t.path, "charts"))
	}
	return checkLibraries(t.root, t.file(chartFile))
}

func missingDependencies(of *chart.Chart) []string {
	present := map[string]bool{}
	for _, dependency := range of.Dependencies() {
		present[dependency.Name()] = true
	}
	var missing []string
	for _, declared := range of.Metadata.Dependencies {
		if declared != nil && !present[declared.Name] {
			missing = append(missing, declared.Name)
		}
	}
	return missing
}

// checkLibraries refuses an application inside a library: a library defines templates for others and has no objects.
func checkLibraries(part *chart.Chart, file string) error {
	for _, dependency := range part.Dependencies() {
		if part.Metadata.Type == "library" && dependency.Metadata.Type != "library" {
			return broken(file, 0, "library chart %s has %s as a subchart, which is no library",
				part.Name(), dependency.Name())
		}
		if err := checkLibraries(dependency, file); err != nil {
			return err
		}
	}
	return nil
}

// topLevel is the dot of the root chart's templates.
func topLevel(t *tree, given map[string]any, req *wire.Request) (common.Values, error) {
	options := common.ReleaseOptions{
		Name: req.Release.Name, Namespace: req.Release.Namespace, Revision: req.Release.Revision,
		IsInstall: req.Release.Revision <= 1, IsUpgrade: req.Release.Revision > 1,
	}
	// Helm's own check of schemas would fetch what they refer to, and quote the values that it refuses.
	const skipSchemas = true
	top, err := util.ToRenderValuesWithSchemaValidation(t.root, given, options, capabilities(req.Cluster), skipSchemas)
	if err != nil {
		return nil, unfitting(err)
	}
	if release, isMap := top["Release"].(map[string]any); isMap && req.Release.Service != "" {
		release["Service"] = req.Release.Service
	}
	values, err := top.Table("Values")
	if err != nil {
		return nil, unfitting(err)
	}
	return top, t.checkSchemas(t.root, values, t.path)
}

// capabilities are those of the cluster, as Helm sees them when it talks to one.
func capabilities(cluster wire.Cluster) *common.Capabilities {
	versions := common.VersionSet(cluster.APIVersions)
	if len(versions) == 0 {
		versions = common.DefaultVersionSet
	}
	return &common.Capabilities{
		KubeVersion: *kubeVersion(cluster),
		APIVersions: versions,
		HelmVersion: common.DefaultCapabilities.HelmVersion,
	}
}

func kubeVersion(cluster wire.Cluster) *common.KubeVersion {
	text := func(key string) string {
		value, _ := cluster.Version[key].(string)
		return value
	}
	if text("gitVersion") == "" {
		return &common.DefaultCapabilities.KubeVersion
	}
	return &common.KubeVersion{Version: text("gitVersion"), Major: text("major"), Minor: text("minor")}
}

// floats is a copy of values with every number a float64, as Helm reads numbers from a file of values.
//
// Helm prints 1000000 as 1e+06 for that reason, and a chart that was written for Helm expects it.
func floats(values map[string]any) (map[string]any, error) {
	text, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	var copied map[string]any
	err = json.Unmarshal(text, &copied)
	return copied, err
}

// withPlacesForNulls adds an empty mapping for each subchart to which a chart above it gives values.
//
// A null there takes a default of the subchart away, and so it does up to Helm 4.1. Helm 4.2 drops the nulls of a chart's
// own values unless the given values have that key as well.
func withPlacesForNulls(part *chart.Chart, given map[string]any) map[string]any {
	if given == nil {
		given = map[string]any{}
	}
	for name, dependency := range subcharts(part) {
		own, isOwn := part.Values[name]
		_, isTable := own.(map[string]any)
		present, isGiven := given[name]
		inner, isInner := present.(map[string]any)
		if isGiven && !isInner || isOwn && !isTable {
			continue // Helm reports what is wrong, if it is
		}
		if inner = withPlacesForNulls(dependency, inner); isTable || len(inner) > 0 {
			given[name] = inner
		}
	}
	return given
}

// subcharts are those of a chart by the key of their values, which is the alias where one is declared.
func subcharts(part *chart.Chart) map[string]*chart.Chart {
	found := map[string]*chart.Chart{}
	for _, dependency := range part.Dependencies() {
		found[dependency.Name()] = dependency
	}
	for _, declared := range part.Metadata.Dependencies {
		if declared != nil && declared.Alias != "" && found[declared.Name] != nil {
			found[declared.Alias] = found[declared.Name]
		}
	}
	return found
}

const (
	schemaFile = "values.schema.json"
	schemaURL  = "file:///" + schemaFile
	// mostComplaints is how many a message lists.
	mostComplaints = 10
)

// checkSchemas checks the values of a chart and of its subcharts against their schemas.
//
// Helm's own check is not used for two reasons: it fetches the schemas that a schema refers to, and its messages quote
// the values that they refuse, which may be passwords.
func (t *tree) checkSchemas(part *chart.Chart, values map[string]any, place string) error {
	if part.Schema != nil {
		if err := checkSchema(part, values, path.Join(place, schemaFile)); err != nil {
			return err
		}
	}
	for _, dependency := range part.Dependencies() {
		inner, isGiven := values[dependency.Name()]
		if !isGiven || inner == nil {
			continue
		}
		table, isTable := inner.(map[string]any)
		if !isTable {
			return refused(path.Join(place, schemaFile), "the values of subchart %s are no mapping", dependency.Name())
		}
		if err := t.checkSchemas(dependency, table, path.Join(place, "charts", dependency.Name())); err != nil {
			return err
		}
	}
	return nil
}

func checkSchema(part *chart.Chart, values map[string]any, file string) (err error) {
	defer func() {
		if failure := recover(); failure != nil { // the library panics on some schemas; so it does under Helm
			err = broken(file, 0, "the schema cannot be used")
		}
	}()
	schema, err := compile(part.Schema)
	if err != nil {
		return broken(file, 0, "the schema cannot be used: %v", err)
	}
	var complaint *jsonschema.ValidationError
	if err := schema.Validate(values); errors.As(err, &complaint) {
		found := complaints(nil, complaint)
		return refused(file, "the values do not fit the schema of chart %s: %s", part.Name(), strings.Join(found, "; "))
	} else if err != nil {
		return broken(file, 0, "the schema cannot be used")
	}
	return nil
}

func compile(text []byte) (*jsonschema.Schema, error) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(unreachable{})
	if err := compiler.AddResource(schemaURL, document); err != nil {
		return nil, err
	}
	return compiler.Compile(schemaURL)
}

// unreachable replaces schemas at other addresses, because the worker has no network. Such a schema allows everything, as
// with Helm for names that it cannot resolve, so that the rest of the schema still counts.
type unreachable struct{}

func (unreachable) Load(url string) (any, error) {
	if strings.HasPrefix(url, "file:") {
		return nil, fmt.Errorf("it refers to %s, which is no part of it", url)
	}
	return true, nil
}

func refused(file, format string, args ...any) *wire.Error {
	return &wire.Error{Kind: wire.InvalidValues, Message: fmt.Sprintf(format, args...), File: file}
}

// complaints appends each violation as place and reason, without the value.
func complaints(found []string, complaint *jsonschema.ValidationError) []string {
	if len(found) >= mostComplaints {
		return found
	}
	if len(complaint.Causes) == 0 {
		return append(found, "/"+strings.Join(complaint.InstanceLocation, "/")+": "+reason(complaint.ErrorKind))
	}
	for _, cause := range complaint.Causes {
		found = complaints(found, cause)
	}
	return found
}

// reason names the broken rule: in the words of the library, as Helm does, where those do not quote the value.
func reason(broken jsonschema.ErrorKind) string {
	switch broken := broken.(type) {
	case *kind.Type, *kind.Required, *kind.AdditionalProperties, *kind.Enum, *kind.Const, *kind.MinLength, *kind.MaxLength:
		return broken.LocalizedString(english)
	case *kind.Pattern:
		return "does not match " + broken.Want
	case *kind.Format:
		return "is no " + broken.Want
	default:
		return "breaks the rule " + strings.Join(broken.KeywordPath(), "/")
	}
}

var english = message.NewPrinter(language.English)
