"""What is asked of the renderer, and what it answers, as values.

    Request(files, path, generator, prefix, values, release, component, component_digest, cluster, decryption,
            post_build, limits, tenant, secrets, weight)
    Rendered(generator, objects, origins, chart, uses, digest, size)
    Lookup = async (Query) -> JsonValue | Missing          answers a template's question with the tenant's rights
    Claim(text, objects, tenant)                           an expression that holds for objects, or does not

The wire behind it is described in native/renderer/wire; `protocol` is the only one here who knows its spelling. Nothing
in a request shows values in its repr, because any of them may come from a Secret.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Literal, TypeAlias

import msgspec

from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.render.files.files import NOTHING, Files

Generator = Literal["auto", "helm", "kustomize", "manifests"]
"""`auto`: a chart where the path holds Chart.yaml, else a kustomization. `manifests`: YAML and JSON as they are."""

DeleteHookMode = Literal["refuse", "omit", "keep"]
"""Hooks for the end of a release are refused, left out, or marked by `<prefix>/delete-hook` and its fellows."""

_json = msgspec.json.Encoder(order="sorted")


@dataclass(frozen=True, slots=True)
class ReleaseInfo:
    """Where objects are going, and as what."""

    name: str
    namespace: str
    service: str = "Helm"
    """What templates see as the tool that installs them."""
    revision: int = 1
    """1 is an installation, more is an upgrade."""


@dataclass(frozen=True, eq=False, repr=False)
class ClusterApis:
    """What an API server serves. Make one per discovery and share it: it is encoded once."""

    version: JsonObject = field(default_factory=dict)
    """The answer of /version."""
    api_versions: Sequence[str] = ()
    """`group/version` and `group/version/Kind`."""
    api_resources: Sequence[JsonObject] = ()
    """`{"GroupVersion": ..., "APIResources": [{"Name", "Kind", "Namespaced", "Verbs", ...}]}`, sorted."""
    unknown: Sequence[str] = ()
    """`group/version` of API services that do not answer: what they serve is not known. Templates do not see this."""

    @cached_property
    def encoded(self) -> bytes:
        """As JSON."""
        return _json.encode(
            {"version": self.version, "apiVersions": self.api_versions, "apiResources": self.api_resources}
        )

    @cached_property
    def digest(self) -> bytes:
        """Of what templates can see."""
        return hashlib.sha256(self.encoded).digest()


UNKNOWN_CLUSTER = ClusterApis()


@dataclass(frozen=True, slots=True)
class RenderPostBuild:
    """What happens to objects after they were rendered: substitution, then patches and images."""

    substitute: Mapping[str, str] | None = field(default=None, repr=False)
    """None: no substitution at all, so that `$${a}` stays as it is."""
    patches: Sequence[JsonObject] = ()
    """`{"patch": text, "target": {...}}`; the target may be absent."""
    images: Sequence[JsonObject] = ()
    """`{"name", "newName", "newTag", "digest"}`."""


@dataclass(frozen=True, slots=True)
class OutputLimits:
    """How much one rendering may produce."""

    bytes: int = 32 * 2**20
    objects: int = 5_000


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class RenderRequest:
    """Files, and everything that has a part in what becomes of them."""

    files: Files = NOTHING
    path: str = ""
    """The folder to render; empty for the root."""
    generator: Generator = "auto"
    prefix: str
    """Of labels and annotations that templates and hooks are mapped to."""
    release: ReleaseInfo
    values: JsonObject = field(default_factory=dict)
    """Merged (see `values`); defaults of a chart or kustomization lie below them."""
    component: JsonObject | None = None
    """What templates of a kustomization see as `component`."""
    component_digest: str = ""
    cluster: ClusterApis = UNKNOWN_CLUSTER
    decryption: Mapping[str, bytes] = field(default_factory=dict)
    """Keys for files encrypted with SOPS: `*.agekey`, `*.asc`. None: what is encrypted is refused where it is used."""
    decryption_from: str | None = None
    """The Secret with the keys, for messages: empty if none is named, None if none can be."""
    post_build: RenderPostBuild = RenderPostBuild()
    delete_hooks: DeleteHookMode = "refuse"
    """What becomes of a chart's hooks for the end of a release."""
    limits: OutputLimits = OutputLimits()
    tenant: str = ""
    """The tenant: for a fair share, and for what may be kept decrypted."""
    secrets: Callable[[], Collection[str]] = frozenset
    """Words that must not appear in an error (see `values.secret_words`). Asked for only where something failed."""
    weight: int = 0
    """Bytes of the texts that values, keys and variables were read from: how long it takes to work on them."""

    def __repr__(self) -> str:
        return f"Request({self.release.namespace}/{self.release.name}, {self.files!r}, path={self.path!r})"


@dataclass(frozen=True, slots=True)
class Chart:
    """The metadata of a chart."""

    name: str
    version: str
    app_version: str = ""
    warnings: tuple[str, ...] = ()
    """About keys that appear twice in its files or in what its templates make; the last one counts, as in Helm."""


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False, repr=False)
class Rendered:
    """What files came to. Shared among all who asked for the same: treat objects as read-only."""

    generator: str
    """helm, kustomize or manifests."""
    objects: tuple[JsonObject, ...]
    origins: tuple[str, ...]
    """Where each object was written, as far as known; as many as objects."""
    chart: Chart | None
    uses: frozenset[str]
    """What of the request besides files, values and keys had a part in it."""
    digest: str
    """Of the objects and origins: equal results of any two renderings have the same."""
    size: int = 0
    """Bytes of the result as JSON."""
    decrypted: tuple[str, ...] = ()
    """The texts that decryption brought to light, which must not be shown."""

    def __repr__(self) -> str:
        return f"Rendered({self.generator}, {len(self.objects)} objects, {self.digest[:12]})"


# ---- expressions


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Claim:
    """A boolean expression in CEL about objects."""

    text: str
    objects: Mapping[str, JsonObject]
    """Each by the name that the expression knows it by."""
    tenant: str = ""
    """On whose behalf, for a fair share."""

    def __repr__(self) -> str:
        return f"Claim({self.text!r})"


# ---- texts


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Texts:
    """Templates that make one short text each (a DNS name), executed for each row of variables.

    They have sprig's functions whose result depends on their arguments alone. A text has at most 4 KiB.
    """

    templates: Mapping[str, str]
    """By a name, which errors show."""
    rows: Sequence[Mapping[str, str]]
    """The variables of each execution; at least one row."""
    tenant: str = ""
    """On whose behalf, for a fair share."""

    def __repr__(self) -> str:
        return f"Texts({sorted(self.templates)}, {len(self.rows)} rows)"


# ---- questions of templates


class Missing(Enum):
    """Why there is nothing to answer."""

    OBJECT = "object"
    """The kind is served; such an object does not exist."""
    KIND = "kind"
    """The cluster serves no such kind: absence to a chart, a failure to other templates."""


@dataclass(frozen=True, slots=True)
class TemplateQuery:
    """One object, or the objects of a kind, that a template asks for."""

    api_version: str
    kind: str
    namespace: str = ""
    name: str = ""
    """Empty where `many`."""
    label_selector: str = ""
    many: bool = False
    """Whether objects are listed; the answer then is a list of them."""
    where: Literal["target", "local", "kubeconfig"] = "target"
    """The cluster that is deployed to, the operator's own, or the one of `kubeconfig`."""
    kubeconfig: str = field(default="", repr=False)


Lookup: TypeAlias = Callable[[TemplateQuery], Awaitable[JsonValue | Missing]]
"""Answers with the rights of the rendering's identity. What it raises ends the rendering with `LookupFailed`."""


def decryption_digest(keys: Mapping[str, bytes]) -> bytes:
    """Of keys; names and lengths are part of it."""
    found = hashlib.sha256()
    for name in sorted(keys):
        found.update(b"%d:%d:" % (len(name.encode()), len(keys[name])))
        found.update(name.encode() + keys[name])
    return found.digest()
