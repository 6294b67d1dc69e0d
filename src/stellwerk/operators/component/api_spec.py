"""What a Component asks for: `spec`, field by field.

A spec is read leniently and refused at the door: what the schema forbids, the API server does not let in; what an older
or newer schema let in must still be readable, because one odd Component must not hide all the others from the cache. So
words with a fixed choice are text here, and the code that uses one refuses an unknown word.
"""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import Annotated, Any, ClassVar

import msgspec

from stellwerk.apply.set.model.policy import AdoptionPolicy, DeletePolicy, MissingNamespacesPolicy, UpdatePolicy
from stellwerk.kube.schema.crd import ValidationRule, documented
from stellwerk.kube.types import text_forms
from stellwerk.kube.types.depth import LEVELS, TOO_DEEP, is_deeper
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.object_meta import Record


class ReferenceKind(StrEnum):
    """What values and substitutions may be read from."""

    Secret = "Secret"  # noqa: S105  # a kind
    ConfigMap = "ConfigMap"


# ---- what a spec refers to


class SecretName(Record, frozen=True, kw_only=True):
    """A whole Secret of the Component's namespace."""

    name: Annotated[str, documented("Name of the Secret.", min_length=1, example="sops-keys")]


class SecretKey(Record, frozen=True, kw_only=True):
    """One value of a Secret of the Component's namespace."""

    name: Annotated[str, documented("Name of the Secret.", min_length=1, example="remote-cluster")]
    key: Annotated[
        str,
        documented(
            "Key in the Secret.", otherwise="the first of value, value.yaml and value.yml that exists", min_length=1
        ),
    ] = ""


_KIND = documented(
    "What to read: Secret or ConfigMap.", otherwise="Secret", values=tuple(ReferenceKind), example="ConfigMap"
)


class ValuesReference(Record, frozen=True, kw_only=True):
    """One key of a Secret or ConfigMap of the Component's namespace, holding values as YAML or JSON."""

    kind: Annotated[str, _KIND] = ""
    name: Annotated[str, documented("Name of the Secret or ConfigMap.", min_length=1, example="values")]
    key: Annotated[
        str,
        documented("Key in it.", otherwise="the first of values, values.yaml and values.yml that exists", min_length=1),
    ] = ""


class SubstituteReference(Record, frozen=True, kw_only=True):
    """A whole Secret or ConfigMap of the Component's namespace; its keys are names of variables."""

    kind: Annotated[str, _KIND] = ""
    name: Annotated[str, documented("Name of the Secret or ConfigMap.", min_length=1, example="cluster-settings")]


class KubeConfig(Record, frozen=True, kw_only=True):
    """The way into another cluster."""

    secret_ref: Annotated[
        SecretKey,
        documented(
            "Secret with a kubeconfig. All of it must be inline: plugins (exec, auth-provider), file paths, proxies "
            "and insecure-skip-tls-verify are refused."
        ),
    ]


class Decryption(Record, frozen=True, kw_only=True):
    """How encrypted files of the source are read."""

    provider: Annotated[str, documented("Must be sops, or left out.", otherwise="sops")] = ""
    secret_ref: Annotated[
        SecretName,
        documented("Secret with the keys: age identities under *.agekey, armored PGP private keys under *.asc."),
    ]


class SourceName(Record, frozen=True, kw_only=True):
    """A source object, in any namespace."""

    namespace: Annotated[
        str, documented("Namespace of the source.", otherwise="that of the Component", example="flux-system")
    ] = ""
    name: Annotated[str, documented("Name of the source.", example="podinfo")]

    def key(self, default_namespace: str) -> ObjectKey:
        """Where the object is."""
        return ObjectKey(self.namespace or default_namespace, self.name)


DEFAULT_DIGEST_HEADER = "etag"


class HttpRepository(Record, frozen=True, kw_only=True):
    """An archive on a web server. It is looked at with HEAD every 30 seconds."""

    url: Annotated[
        str, documented("Address of the archive (http or https).", example="https://charts.example.com/app.tar.gz")
    ] = ""
    digest_header: Annotated[
        str, documented("Response header that identifies the content.", otherwise="etag", example="x-checksum")
    ] = ""
    revision_header: Annotated[
        str, documented("Response header with the revision.", otherwise="the digest header", example="last-modified")
    ] = ""
    secret_ref: Annotated[
        SecretName | None,
        documented(
            "Secret with what the server asks for, in the keys that flux uses: username and password, or bearerToken; "
            "ca.crt; tls.crt and tls.key. It is shown to the server of url only, not to one that a redirect leads to.",
            otherwise="nothing",
        ),
    ] = None


_SIX_SOURCES = ("blueprint", "httpRepository", "fluxGitRepository", "fluxOciRepository", "fluxBucket", "fluxHelmChart")
_GIVEN = [f"has(self.{name})" for name in _SIX_SOURCES]
# Rules are evaluated at every write, those of the status too. A sum costs the API server a fraction of a list's macros.
_HOW_MANY = " + ".join(f"({given} ? 1 : 0)" for given in _GIVEN)


class SourceRef(Record, frozen=True, kw_only=True):
    """Where the manifests come from. Exactly one source."""

    crd_rules: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            rule=f"has(self.fluxExternalArtifact) || {_HOW_MANY} == 1",
            message=f"Exactly one of {' or '.join(map(repr, _SIX_SOURCES))} must be provided",
        ),
        ValidationRule(
            rule=f"!has(self.fluxExternalArtifact) || !({' || '.join(_GIVEN)})",
            message="'fluxExternalArtifact' must not be combined with another source",
        ),
    )

    blueprint: Annotated[SourceName | None, documented("A Blueprint: files inside the cluster.")] = None
    http_repository: Annotated[HttpRepository | None, documented("An archive on a web server.")] = None
    flux_git_repository: Annotated[SourceName | None, documented("A GitRepository of flux.")] = None
    flux_oci_repository: Annotated[SourceName | None, documented("An OCIRepository of flux.")] = None
    flux_bucket: Annotated[SourceName | None, documented("A Bucket of flux.")] = None
    flux_helm_chart: Annotated[SourceName | None, documented("A HelmChart of flux.")] = None
    flux_external_artifact: Annotated[
        SourceName | None, documented("An ExternalArtifact of Flux, of any controller.")
    ] = None


class PatchTarget(Record, frozen=True, kw_only=True):
    """Which objects a patch is for. What is given must match; names are regular expressions, anchored on both sides."""

    group: Annotated[str, documented("API group.", otherwise="any", example="apps")] = ""
    version: Annotated[str, documented("API version.", otherwise="any", example="v1")] = ""
    kind: Annotated[str, documented("Kind.", otherwise="any", example="Deployment")] = ""
    name: Annotated[str, documented("Name, as a regular expression.", otherwise="any", example="web-.*")] = ""
    namespace: Annotated[str, documented("Namespace, as a regular expression.", otherwise="any")] = ""
    label_selector: Annotated[str, documented("Labels that it must have.", otherwise="any", example="app=web")] = ""
    annotation_selector: Annotated[str, documented("Annotations that it must have.", otherwise="any")] = ""


class Patch(Record, frozen=True, kw_only=True):
    """One change to the rendered objects."""

    patch: Annotated[
        str, documented("The patch: an object to merge strategically, or a list of JSON 6902 operations, as YAML.")
    ] = ""
    target: Annotated[PatchTarget | None, documented("What is patched.", otherwise="what the patch itself names")] = (
        None
    )


class Image(Record, frozen=True, kw_only=True):
    """Another image for every container that uses a certain one."""

    name: Annotated[str, documented("Name of the image, without tag or digest.", example="nginx")]
    new_name: Annotated[str, documented("Name to use instead.", otherwise="unchanged")] = ""
    new_tag: Annotated[str, documented("Tag to use instead.", otherwise="unchanged", example="1.27")] = ""
    digest: Annotated[str, documented("Digest to use in the place of a tag.", otherwise="none")] = ""


class PostBuild(Record, frozen=True, kw_only=True):
    """What is done with rendered objects before they are applied: substitution, then patches and images."""

    substitute: Annotated[
        dict[str, str], documented("Values of ${variables}; they win over those of substituteFrom.")
    ] = msgspec.field(default_factory=dict)
    substitute_from: Annotated[
        tuple[SubstituteReference, ...], documented("Where further variables come from; later ones win.")
    ] = ()
    patches: Annotated[tuple[Patch, ...], documented("Patches, in this order.")] = ()
    images: Annotated[tuple[Image, ...], documented("Images to replace.")] = ()


class ManagedTypePattern(Record, frozen=True, kw_only=True):
    """Kinds whose controllers this Component brings."""

    group: Annotated[str, documented("API group: exact, `*`, or `*.` and a suffix.", example="*.example.com")]
    kind: Annotated[str, documented("Kind: exact, or `*`.", example="*")]


class Dependency(Record, frozen=True, kw_only=True, gc=False):
    """Another Component that must be ready first, and that is kept until this one is gone."""

    namespace: Annotated[str, documented("Its namespace.", otherwise="that of this Component")] = ""
    name: Annotated[str, documented("Its name.", example="database")]
    ready_expr: Annotated[
        str,
        documented(
            "When it counts as ready: an expression in CEL over `dep`, the other Component, and `self`, this one; of a "
            "dep in another namespace only names, labels and status. It takes the place of all other conditions.",
            otherwise="when it is Ready, for its present spec, and has taken over the revision of a common source",
            example="dep.status.revision > 2",
        ),
    ] = ""

    def key(self, default_namespace: str) -> ObjectKey:
        """Where the Component is."""
        return ObjectKey(self.namespace or default_namespace, self.name)


class DeleteHooks(StrEnum):
    """What becomes of a chart's hooks for the end of its release."""

    Refuse = "Refuse"
    Skip = "Skip"
    Run = "Run"


# ---- the spec

_LEVELS_ABOVE_VALUES = 2
"""The Component and its spec."""


def _interval(text: str, otherwise: str, example: str) -> msgspec.Meta:
    return documented(text, unit="duration", otherwise=otherwise, example=example, form=text_forms.GO_DURATION)


def _words(policy: type[Enum]) -> tuple[str, ...]:
    return tuple(str(word.value) for word in policy)


class ComponentSpec(Record, frozen=True, kw_only=True):
    """What is wanted. Secrets and ConfigMaps are those of the Component's own namespace."""

    namespace: Annotated[
        str, documented("Namespace of the objects that name none.", otherwise="that of the Component", example="shop")
    ] = ""
    name: Annotated[
        str, documented("Name that templates see (Helm's release name).", otherwise="that of the Component")
    ] = ""
    kube_config: Annotated[
        KubeConfig | None, documented("Deploy into another cluster.", otherwise="the cluster of the Component")
    ] = None
    service_account_name: Annotated[
        str,
        documented(
            "Act as this ServiceAccount of the Component's namespace; not with kubeConfig.",
            otherwise="the account of --default-service-account, else the operator's own account",
            example="deployer",
        ),
    ] = ""
    suspend: Annotated[bool, documented("Leave the objects alone. A deletion is still carried out.")] = False
    requeue_interval: Annotated[
        str, _interval("How often a ready Component is looked at without a change.", "10m", "1h30m")
    ] = ""
    retry_interval: Annotated[
        str,
        _interval("How soon it is tried again when something that it needs is not there yet.", "requeueInterval", "3m"),
    ] = ""
    timeout: Annotated[
        str,
        _interval(
            "How long the objects may take to become ready before the state is Error; the work goes on.",
            "requeueInterval",
            "5m",
        ),
    ] = ""
    adoption_policy: Annotated[
        str,
        documented(
            "What to do with objects that exist already: Never fails, IfUnowned takes those that belong to no "
            "Component, Always takes them from other Components too.",
            otherwise="IfUnowned",
            example="Always",
            values=_words(AdoptionPolicy),
        ),
    ] = ""
    update_policy: Annotated[
        str,
        documented(
            "How objects are updated: Recreate deletes and creates, Replace writes the whole object, SsaMerge applies "
            "on the server, SsaOverride also removes what kubectl and Helm have added.",
            otherwise="SsaOverride",
            example="SsaMerge",
            values=_words(UpdatePolicy),
        ),
    ] = ""
    delete_policy: Annotated[
        str,
        documented(
            "What becomes of objects: Orphan and OrphanOnDelete keep them when the Component is deleted, OrphanOnApply "
            "keeps those that the manifests no longer have.",
            otherwise="Delete",
            example="Orphan",
            values=_words(DeletePolicy),
        ),
    ] = ""
    delete_hooks: Annotated[
        str,
        documented(
            "A chart's hooks pre-delete and post-delete: Refuse fails where there are any, Skip leaves them out, Run "
            "runs them when the Component is deleted.",
            otherwise="Refuse",
            example="Run",
            values=_words(DeleteHooks),
        ),
    ] = ""
    missing_namespaces_policy: Annotated[
        str,
        documented(
            "Whether namespaces that objects need are created.",
            otherwise="Create",
            example="DoNotCreate",
            values=_words(MissingNamespacesPolicy),
        ),
    ] = ""
    additional_managed_types: Annotated[
        tuple[ManagedTypePattern, ...],
        documented(
            "Kinds that the Component brings beyond its own CustomResourceDefinitions and APIServices. While others "
            "have instances of them, it is not deleted."
        ),
    ] = ()
    reapply_interval: Annotated[
        str,
        documented("How often unchanged objects are applied again.", unit="duration", otherwise="60m", example="4h"),
    ] = ""
    source_ref: Annotated[SourceRef, documented("Where the manifests come from.", required=True)] = SourceRef()
    digest: Annotated[
        str, documented("Only apply an artifact of this digest; wait for it.", otherwise="any", example="sha256:4b14…")
    ] = ""
    revision: Annotated[
        str,
        documented(
            "Only apply an artifact of this revision; wait for it.", otherwise="any", example="main@sha1:4b14dbc37"
        ),
    ] = ""
    sticky: Annotated[bool, documented("Finish a revision before the next one is taken.")] = False
    path: Annotated[
        str, documented("Folder of the chart or kustomization in the artifact.", otherwise="its root", example="deploy")
    ] = ""
    values: Annotated[
        Any,  # any JSON: rendering refuses what is not an object
        documented("Parameters of the manifests, an object. Merged over those of valuesFrom.", free_form=True),
    ] = None
    values_from: Annotated[
        tuple[ValuesReference, ...], documented("Where further parameters come from; later ones win, maps are merged.")
    ] = ()
    decryption: Annotated[Decryption | None, documented("How encrypted files are read.")] = None
    post_build: Annotated[PostBuild | None, documented("Changes to the rendered objects.")] = None
    dependencies: Annotated[
        tuple[Dependency, ...],
        documented("Components that must be ready before this one is applied, and that stay until this one is gone."),
    ] = ()

    def __post_init__(self) -> None:
        """Raises ValueError where the values are nested too deep; decoding makes an unreadable object of it."""
        if self.values is not None and is_deeper(self.values, LEVELS - _LEVELS_ABOVE_VALUES):
            raise ValueError(f"values are {TOO_DEEP}")
