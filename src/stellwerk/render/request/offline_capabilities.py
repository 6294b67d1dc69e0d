"""The capabilities of a cluster that the user describes, for rendering without a cluster (pure).

It serves what every Kubernetes of the last years does, and what the person adds. Alpha and beta versions are not
assumed: a chart that prefers one where it is there would render to what the cluster may refuse.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from stellwerk.kube.types.model import JsonObject
from stellwerk.render.request.request import ClusterApis

BUILT_IN = (
    "admissionregistration.k8s.io/v1",
    "apiextensions.k8s.io/v1",
    "apiregistration.k8s.io/v1",
    "apps/v1",
    "authentication.k8s.io/v1",
    "authorization.k8s.io/v1",
    "autoscaling/v1",
    "autoscaling/v2",
    "batch/v1",
    "certificates.k8s.io/v1",
    "coordination.k8s.io/v1",
    "discovery.k8s.io/v1",
    "events.k8s.io/v1",
    "flowcontrol.apiserver.k8s.io/v1",
    "networking.k8s.io/v1",
    "node.k8s.io/v1",
    "policy/v1",
    "rbac.authorization.k8s.io/v1",
    "scheduling.k8s.io/v1",
    "storage.k8s.io/v1",
    "v1",
)

_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?([-+][0-9A-Za-z.+-]+)?")


def cluster(version: str = "", api_versions: Iterable[str] = ()) -> ClusterApis:
    """A cluster of this version of Kubernetes (`1.33`, `v1.33.2`; empty: one that Helm takes for granted), and with
    these `group/version` and `group/version/Kind` besides its own. Raises ValueError."""
    return ClusterApis(_version(version) if version else {}, tuple(sorted({*BUILT_IN, *api_versions})))


def _version(text: str) -> JsonObject:
    found = _VERSION.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no version of Kubernetes; expected one like v1.33 or 1.33.2")
    major, minor, patch, rest = found.groups()
    return {"gitVersion": f"v{major}.{minor}.{patch or 0}{rest or ''}", "major": major, "minor": minor}
