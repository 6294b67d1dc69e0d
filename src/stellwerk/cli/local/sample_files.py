"""The samples, with what only this machine knows: where they are, and the logins to the clusters that they are about.

A Secret with the annotation `stellwerk.local/kubeconfig-of: NAME` is the login to a cluster next to the local system
SYSTEM: it is the local system SYSTEM-NAME, without operators. `${samples}` in a file is the folder of samples as a URL.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import stellwerk
from stellwerk.apply.objects.manifests import read_text
from stellwerk.kube.types.model import JsonObject, dig
from stellwerk.local.cluster import LocalCluster, named

KUBECONFIG_OF = "stellwerk.local/kubeconfig-of"
_FOLDER = b"${samples}"


def folder() -> Path:
    """The samples: next to the package in a checkout, inside it when installed."""
    package = Path(stellwerk.__file__).parent
    inside = package / "samples"
    return inside if inside.is_dir() else package.parent.parent / "samples"


def bodies() -> list[JsonObject]:
    """All samples, in the order in which they are applied, without logins."""
    where = folder().as_uri().encode()
    texts = ((file.name, file.read_bytes().replace(_FOLDER, where)) for file in sorted(folder().glob("*/*.yaml")))
    return [document.body for name, text in texts for document in read_text(text, file=name)]


def clusters(system: str) -> list[LocalCluster]:
    """The clusters next to a local system, running or not."""
    return [_beside(system, name) for name in dict.fromkeys(filter(None, map(_cluster_of, bodies())))]


def with_logins(samples: Sequence[JsonObject], system: str) -> Iterator[JsonObject]:
    """The samples as they are applied: each login has the kubeconfig of an administrator of its cluster.

    Raises OSError for a cluster that was never started.
    """
    for body in samples:
        if name := _cluster_of(body):
            login = _beside(system, name).kubeconfig_for("stellwerk-samples", ["system:masters"]).read_text()
            keys = body.get("stringData")
            body = {**body, "stringData": dict.fromkeys(keys if isinstance(keys, dict) else (), login)}
        yield body


def _cluster_of(body: JsonObject) -> str:
    """The cluster that a sample is the login to; empty if it is none."""
    return str(dig(body, "metadata", "annotations", KUBECONFIG_OF) or "")


def _beside(system: str, name: str) -> LocalCluster:
    return named(f"{system}-{name}")
