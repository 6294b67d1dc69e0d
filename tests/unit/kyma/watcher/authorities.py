"""Certificates of the watcher, and the Secrets that they are in, as values."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec
from tests.unit.kyma.objects import metadata

from stellwerk.api.core import Secret
from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import rfc3339
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.watcher.certificates import AuthoritySecret, CertificateSecret
from stellwerk.runtime.certificates import certs
from stellwerk.runtime.certificates.certs import KeyPair, Wish
from stellwerk.runtime.reading.loads import PlainLoads, SecretData

K = TypeVar("K", bound=Kind)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
SKEW = timedelta(hours=2)
"""Certificates of the tests begin this much before they are issued."""
ISTIO = "istio-system"


def an_authority(begins: datetime = NOW, days: float = 90) -> KeyPair:
    """An authority that begins at a moment."""
    wish = Wish(common_name="klm", names=["klm"], lifetime=days * DAY - SKEW, now=begins + SKEW)
    return certs.new_authority(wish)


def a_leaf(authority: KeyPair, begins: datetime = NOW, days: float = 60) -> KeyPair:
    """A certificate of a Kyma that begins at a moment."""
    return certs.issue(authority, Wish(common_name="r", names=["r"], lifetime=days * DAY - SKEW, now=begins + SKEW))


def text(content: bytes) -> str:
    """As Secrets have it."""
    return base64.b64encode(content).decode()


def content(pair: KeyPair, *authorities: bytes) -> dict[str, str]:
    """The data of a Secret."""
    bundle = b"".join(authorities) or pair.certificate
    return {"tls.crt": text(pair.certificate), "tls.key": text(pair.key), "ca.crt": text(bundle)}


def a_root(pair: KeyPair, **fields: Any) -> AuthoritySecret:
    """The Secret of the authority."""
    return a_secret(AuthoritySecret, labels.ROOT_SECRET_NAME, content(pair), **fields)


def a_gateway(pair: KeyPair, *authorities: bytes, added: datetime | None = NOW, **fields: Any) -> AuthoritySecret:
    """The Secret of the Gateway."""
    annotations = {"caAddedToBundleAt": rfc3339(added)} if added is not None else {}
    data = content(pair, *authorities)
    return a_secret(AuthoritySecret, labels.GATEWAY_SECRET_NAME, data, annotations=annotations, **fields)


def a_certificate_secret(pair: KeyPair, kyma: str = "k", **fields: Any) -> CertificateSecret:
    """The Secret of the certificate of a Kyma."""
    marks = {labels.PURPOSE_LABEL: "klm-watcher-cert-manager"}
    return a_secret(CertificateSecret, f"{kyma}-webhook-tls", content(pair), labels=marks, **fields)


def a_secret(kind: type[K], name: str, data: dict[str, str], **fields: Any) -> K:
    """A Secret, as a cache decodes it."""
    body = {"metadata": metadata(name, ISTIO, **fields), "data": data}
    return msgspec.json.decode(msgspec.json.encode(body), type=kind)


def loads(**contents: KeyPair) -> PlainLoads:
    """The content of Secrets by their names, with `_` for `-`, as they can be loaded."""
    found = {name.replace("_", "-"): pair for name, pair in contents.items()}
    secrets = [a_secret(Secret, name, content(pair)) for name, pair in found.items()]
    return PlainLoads({SecretData(each.key, each.metadata.resource_version): each for each in secrets})
