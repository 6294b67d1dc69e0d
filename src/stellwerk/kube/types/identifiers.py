"""The names Kubernetes gives to things: kinds, resources, and the objects themselves.

A *kind* is the name in a manifest (`apps/v1, Deployment`); a *resource* is a URL path (`/apis/apps/v1/deployments`).
Only discovery knows how one becomes the other, so both live here and the step between them in `discovery.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import quote

SYSTEM_NAMESPACES = ("kube-system", "kube-public", "kube-node-lease")
"""Where the cluster's own parts lie: nothing that data asks for belongs there."""


class GroupVersionKind(NamedTuple):
    """A kind as manifests spell it. The core group is the empty string."""

    group: str
    version: str
    kind: str

    @classmethod
    def parse(cls, api_version: str, kind: str) -> GroupVersionKind:
        """Read the two words of a manifest: `("apps/v1", "Deployment")`."""
        group, _, version = api_version.rpartition("/")
        return cls(group, version, kind)

    @property
    def api_version(self) -> str:
        """The manifest's first word: `apps/v1`, or `v1` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.api_version} {self.kind}"


class ObjectKey(NamedTuple):
    """The namespace and name of an object of a known kind; `namespace` is empty for cluster-scoped kinds."""

    namespace: str
    name: str

    @classmethod
    def parse(cls, text: str) -> ObjectKey:
        """Read `namespace/name` or `name`."""
        namespace, _, name = text.rpartition("/")
        return cls(namespace, name)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class Resource:
    """One served REST resource: all that is needed to build a URL for it."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool

    @property
    def gvk(self) -> GroupVersionKind:
        """The kind that manifests of this resource carry."""
        return GroupVersionKind(self.group, self.version, self.kind)

    @property
    def api_version(self) -> str:
        """`apps/v1`, or `v1` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_resource(self) -> str:
        """`deployments.apps`, or `pods` for the core group: how RBAC and CRD names spell it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path of the collection, of one object, or of its subresource.

        An empty namespace on a namespaced resource is the collection over all namespaces. A namespace on a
        cluster-scoped resource is ignored, as kubectl does: manifests often carry one there.
        """
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        place = f"/namespaces/{_quoted(namespace)}" if namespace and self.namespaced else ""
        one = f"/{_quoted(name)}" if name else ""
        sub = f"/{subresource}" if subresource else ""
        return f"{root}{place}/{self.plural}{one}{sub}"

    def key(self, namespace: str, name: str) -> ObjectKey:
        """The key of an object of this resource; drops a namespace that the scope does not have."""
        return ObjectKey(namespace if self.namespaced else "", name)

    def __str__(self) -> str:
        return f"{self.api_version} {self.kind}"


class ObjectRef(NamedTuple):
    """One object of any kind, as people read it: `Deployment kyma-system/btp-manager`."""

    gvk: GroupVersionKind
    key: ObjectKey

    def __str__(self) -> str:
        return f"{self.gvk.kind} {self.key}"


_PLAIN = re.compile(r"[a-z0-9.-]*")
_LONGEST = 1_024


def segment_complaint(name: str) -> str:
    """Why a name cannot be one segment of a URL path, as Kubernetes rules; empty where it can.

    API servers decode a path before they split it: `x%2Fscale` would reach the subresource `scale` of `x`.
    """
    if name in (".", ".."):
        return f"must not be {name!r}"
    if _PLAIN.fullmatch(name) and len(name) <= _LONGEST:
        return "" if name else "must not be empty"
    if len(name) > _LONGEST:
        return f"must not be longer than {_LONGEST} characters"
    found = next((char for char in name if char in "/%" or not char.isprintable()), "")
    return f"must not contain {found!r}" if found else ""


def _quoted(name: str) -> str:
    """A name as a segment of a path. Nearly all are plain, and to find that out is ten times as fast as to quote."""
    return name if _PLAIN.fullmatch(name) and not name.startswith(".") else quote(name, safe="")
