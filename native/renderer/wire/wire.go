// Package wire is the protocol between Stellwerk and the renderer: frames on stdin and stdout.
//
// A frame is a length (4 bytes, big endian) and that many bytes of one JSON document. The parent sends a Request and
// reads Messages until one has a Result, a Verdict, Texts or an Error. Before that the worker may send a Call, which the parent
// answers with an Answer. One request at a time; the worker keeps no state between two.
package wire

import (
	"encoding/json"
	"errors"
	"fmt"
)

// MaxFrame is the size in bytes beyond which a frame is refused on either side.
const MaxFrame = 192 << 20

// Request is a request for the objects of files.
type Request struct {
	ID    uint64            `json:"id"`
	Files map[string][]byte `json:"files"` // path inside the artifact, with slashes, to content (base64 in JSON)
	Path  string            `json:"path"`  // the folder to render; empty for the root of the artifact
	// Generator is "auto" (a chart where Path holds Chart.yaml, else a kustomization), "helm", "kustomize", or
	// "manifests" (every .yaml, .yml and .json file as it is).
	Generator string `json:"generator"`
	Prefix    string `json:"prefix"` // of labels and annotations: component-operator.cs.sap.com
	// DeleteHooks is how a chart's hooks for the deletion of a release are treated: "omit" leaves them out, "keep" marks
	// them for a parent that runs them before the deletion. Otherwise they are refused.
	DeleteHooks string `json:"deleteHooks"`

	Values  map[string]any `json:"values"`  // merged; for charts laid over values.yaml
	Release Release        `json:"release"` // where and as what
	// Component is what templates of a kustomization see as `component`: the whole object, or null. It and the resources
	// of the cluster are decoded where a template asks for them: both are larger than the rest of most requests.
	Component       json.RawMessage `json:"component"`
	ComponentDigest string          `json:"componentDigest"`

	Cluster    Cluster    `json:"cluster"`
	Decryption Decryption `json:"decryption"`
	PostBuild  PostBuild  `json:"postBuild"`
	Limits     Limits     `json:"limits"`

	// Claim asks for a Verdict instead of objects; all other fields except the id are left out then.
	Claim *Claim `json:"claim"`

	// Texts asks for texts instead of objects, in the same way.
	Texts *Texts `json:"texts"`
}

// Texts are templates that make one short text each, and the variables of each execution.
type Texts struct {
	Templates []TextTemplate      `json:"templates"`
	Rows      []map[string]string `json:"rows"`
}

// TextTemplate is a template and the name by which an error refers to it.
type TextTemplate struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Claim is an expression in CEL that is true or false for objects, which are variables of the given names.
type Claim struct {
	Text    string                    `json:"text"`
	Objects map[string]map[string]any `json:"objects"`
}

// Release is what a chart knows of its installation.
type Release struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Service   string `json:"service"`
	Revision  int    `json:"revision"` // 1 is an installation, more is an upgrade
}

// Cluster is what the API server serves.
type Cluster struct {
	Version      map[string]any  `json:"version"`      // the answer of /version
	APIVersions  []string        `json:"apiVersions"`  // group/version and group/version/Kind
	APIResources json.RawMessage `json:"apiResources"` // a list: {"GroupVersion":..., "APIResources":[{"Name","Kind","Namespaced","Verbs",...}]}, sorted
}

// Decryption has the keys for files encrypted with SOPS. No object gets text that stays encrypted.
type Decryption struct {
	Keys map[string][]byte `json:"keys"` // *.agekey: age identities; *.asc: PGP private keys; others are ignored

	// From is the Secret with the keys, for messages: empty where none is named, null where none can be.
	From *string `json:"from"`

	// Opened are the encrypted files that this request has opened, by path. The worker fills it.
	Opened map[string]Opened `json:"-"`
}

// Opened is a file before and after its decryption.
type Opened struct {
	Encrypted, Clear []byte
}

// PostBuild is what happens to rendered objects: substitution, then patches and images.
type PostBuild struct {
	Substitute map[string]string `json:"substitute"` // null: no substitution at all
	Patches    []map[string]any  `json:"patches"`    // {"patch": text, "target": {...}|absent}
	Images     []map[string]any  `json:"images"`     // {"name","newName","newTag","digest"}
}

// Limits bound one request. Zero means the default.
type Limits struct {
	OutputBytes int `json:"outputBytes"` // default 32 MiB
	Objects     int `json:"objects"`     // default 5,000
}

// Message is what the worker sends: exactly one of the last five is set.
type Message struct {
	ID      uint64     `json:"id"`
	Call    *Call      `json:"call,omitempty"`
	Result  *Result    `json:"result,omitempty"`
	Verdict *bool      `json:"verdict,omitempty"` // whether a claim holds
	Texts   [][]string `json:"texts,omitempty"`   // for each row, the texts of all templates
	Error   *Error     `json:"error,omitempty"`
}

// Call is a lookup that only the parent can answer, with the rights of the object that it renders for.
type Call struct {
	Method string         `json:"method"` // lookup, lookupList
	Args   map[string]any `json:"args"`   // apiVersion, kind, namespace, name | labelSelector; where: target, local or kubeconfig; kubeconfig
}

// Answer is the answer of the parent. Error is a sentence, empty on success. NotFound means that the object does not
// exist, NoKind that the cluster serves no such kind: a missing object for charts, a failure for other templates.
type Answer struct {
	ID       uint64          `json:"id"`
	Value    json.RawMessage `json:"value"`
	NotFound bool            `json:"notFound,omitempty"`
	NoKind   bool            `json:"noKind,omitempty"`
	Error    string          `json:"error,omitempty"`
}

// Result is the rendered objects.
type Result struct {
	Generator string           `json:"generator"` // helm, kustomize or manifests
	Objects   []map[string]any `json:"objects"`
	Origins   []string         `json:"origins"` // where each object was written, as far as known; same length
	Chart     *Chart           `json:"chart,omitempty"`
	// Uses names what of the request besides files, values and keys had a part in the result: name, namespace,
	// revision, component, componentDigest, cluster, lookup, chance: the clock or random values, and clock: the current
	// time. A parent may give the result again for a request that differs in nothing else, and one with chance to the
	// same Component only. Charts name all but component and componentDigest.
	Uses []string `json:"uses"`
	// Decrypted are the decrypted texts, sorted: a parent masks them in statuses, Events and logs.
	Decrypted []string `json:"decrypted,omitempty"`
}

// Chart is the content of Chart.yaml.
type Chart struct {
	Name       string `json:"name"`
	Version    string `json:"version"`
	AppVersion string `json:"appVersion"`
	// Warnings are sentences about keys that appear twice, which Helm ignores without a warning.
	Warnings []string `json:"warnings,omitempty"`
}

// Error is why there is no result. Kind is a fixed word; Message is a sentence without values of Secrets.
type Error struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`   // from 1; 0 unknown
	Column  int    `json:"column,omitempty"` // from 1; 0 unknown
	// Missing is a path in the artifact that a kustomization lists and does not get. Only the parent knows all files.
	Missing string `json:"missing,omitempty"`
}

// The kinds of errors.
const (
	InvalidRequest    = "InvalidRequest"    // the parent broke the protocol; the worker ends
	InvalidExpression = "InvalidExpression" // a claim that CEL does not understand
	ExpressionFailed  = "ExpressionFailed"  // a claim that has no answer for these objects
	PathNotFound      = "PathNotFound"      // spec.path
	InvalidChart      = "InvalidChart"      // Chart.yaml, dependencies, a schema
	InvalidConfig     = "InvalidConfig"     // .component-config.yaml, .component-ignore
	InvalidValues     = "InvalidValues"     // values that the chart or kustomization refuses
	TemplateFailed    = "TemplateFailed"    // a template does not parse or run
	InvalidManifest   = "InvalidManifest"   // YAML that is no object
	KustomizeFailed   = "KustomizeFailed"   // kustomize build
	SubstituteFailed  = "SubstituteFailed"  // ${...}
	PatchFailed       = "PatchFailed"       // postBuild.patches, postBuild.images
	DecryptFailed     = "DecryptFailed"     // no key fits, MAC wrong, unsupported
	UnsupportedHook   = "UnsupportedHook"   // a Helm hook that cannot be mapped
	LookupFailed      = "LookupFailed"      // the parent could not answer
	LimitExceeded     = "LimitExceeded"     // output, objects, depth
	Internal          = "Internal"          // a bug of ours
)

// AsKind is err with another kind, where it is an *Error of the kind from.
func AsKind(err error, from, to string) error {
	var known *Error
	if !errors.As(err, &known) || known.Kind != from {
		return err
	}
	changed := *known
	changed.Kind = to
	return &changed
}

// Error makes an *Error an error.
func (e *Error) Error() string { return e.Message }

// Asker sends calls to the parent, which answers with the rights of the object that it renders for.
type Asker interface {
	// Ask returns the parent's answer. Found is false where the object does not exist; an error ends the rendering.
	// The error is a *NoSuchKind where the cluster serves no such kind.
	Ask(method string, args map[string]any) (value json.RawMessage, found bool, err error)
}

// NoSuchKind is the answer to a lookup of a kind that the cluster does not serve.
type NoSuchKind struct {
	APIVersion, Kind string
}

// Error names the kind.
func (e *NoSuchKind) Error() string {
	return fmt.Sprintf("the cluster serves no kind %s of %s", e.Kind, e.APIVersion)
}

// Uses records which parts of a request had a part in its result (Result.Uses).
type Uses map[string]bool

// Note records a part.
func (u Uses) Note(part string) { u[part] = true }
