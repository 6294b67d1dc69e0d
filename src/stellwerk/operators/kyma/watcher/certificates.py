"""The certificate with which the webhook of a Kyma serves, and reports to the control plane.

It is a Certificate of cert-manager or of Gardener in the namespace of Istio, signed by the authority that the Gateway
trusts, with a Secret of the same name. It is renewed by its issuer before it ends, and on request if the Gateway has
got another authority since it was issued.

Caches hold Secrets with certificates without their private keys, and those of thousands of Kymas as fingerprints. What
must be written is loaded when it is written.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, TypeAlias, cast

import msgspec
from msgspec.structs import force_setattr

from stellwerk.api.cert_manager import CertManagerCertificate
from stellwerk.api.core import Secret
from stellwerk.api.gardener import GardenerCertificate
from stellwerk.apply.objects.desired import Desired, digest_of
from stellwerk.delivery.step_rights import Use
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import JsonObject, JsonValue, Kind
from stellwerk.kube.types.object_meta import Record, rfc3339
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import Kyma
from stellwerk.operators.kyma.kyma import skr
from stellwerk.operators.kyma.settings import CertificateManagement, Settings
from stellwerk.runtime.certificates import certs
from stellwerk.runtime.control.step import Apply, Delete, Patch, Refusal, Wait, Write
from stellwerk.runtime.reading.questions import Collection
from stellwerk.runtime.reading.view import View

CERTIFICATE_KEY, PRIVATE_KEY_KEY, AUTHORITY_KEY = "tls.crt", "tls.key", "ca.crt"
"""In each of the Secrets."""

SUFFIX = "-webhook-tls"
"""Of a Certificate and its Secret, after the name of the Kyma."""
SERVICE = "skr-webhook"
"""The name of the webhook's Service."""

ISSUING = "Issuing"
RENEWED_BY_HAND = "ManuallyTriggered"
"""The reason with which cert-manager is asked for a new certificate."""
_RETRIED_AFTER = timedelta(hours=1)
"""How long after a failure an issuer is asked for another certificate."""
_MARKS: Mapping[str, str] = {
    labels.PURPOSE_LABEL: labels.CERTIFICATE_PURPOSE,
    labels.MANAGED_BY_LABEL: labels.OPERATOR_NAME,
}


@dataclass(frozen=True, slots=True)
class Removal:
    """What is left: what to delete, and the end of what is awaited."""

    writes: tuple[Write, ...] = ()
    waits: tuple[Wait, ...] = ()

    @property
    def is_due(self) -> bool:
        """Whether anything is left."""
        return bool(self.writes or self.waits)


class NotInstalled(Exception):
    """The watcher of a Kyma cannot be installed. The message names the cause and what to do."""


# ---- Secrets in caches


class CertificateSecret(Kind, frozen=True, kw_only=True):
    """A Secret of which only fingerprints and the times of the certificate are kept."""

    resource: ClassVar[Resource] = Secret.resource

    data: dict[str, str] = msgspec.field(default_factory=dict)
    """Empty, once it is decoded."""
    pair: str = ""
    """Of the certificate with its private key; empty if one of them is missing."""
    authorities: str = ""
    """Of the authorities; empty if there are none."""
    begins: datetime | None = None
    ends: datetime | None = None

    def __post_init__(self) -> None:
        if not self.data:
            return
        certificate, key = self.data.get(CERTIFICATE_KEY, ""), self.data.get(PRIVATE_KEY_KEY, "")
        facts = certs.facts(certs.KeyPair(decoded(certificate), b""))
        force_setattr(self, "pair", digest_of([certificate, key]) if certificate and key else "")
        force_setattr(self, "authorities", fingerprint(self.data.get(AUTHORITY_KEY, "")))
        force_setattr(self, "begins", facts.begins)
        force_setattr(self, "ends", facts.ends)
        force_setattr(self, "data", {})


class AuthorityData(Record, frozen=True, kw_only=True):
    """The public part of the content, as base64 text of PEM."""

    certificate: str = msgspec.field(name=CERTIFICATE_KEY, default="")
    authorities: str = msgspec.field(name=AUTHORITY_KEY, default="")


class AuthoritySecret(Kind, frozen=True, kw_only=True):
    """A Secret of which only the public part is kept."""

    resource: ClassVar[Resource] = Secret.resource

    data: AuthorityData = AuthorityData()


def decoded(text: str) -> bytes:
    """Bytes from base64 text of a Secret; empty if it is not base64."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return b""


def fingerprint(text: str) -> str:
    """Of base64 text of a Secret; empty if there is none."""
    return digest_of(text) if text else ""


Certificate: TypeAlias = CertManagerCertificate | GardenerCertificate

CERTIFICATES: Mapping[CertificateManagement, Collection[Certificate]] = {
    CertificateManagement.CERT_MANAGER: cast(
        "Collection[Certificate]",
        Collection(CertManagerCertificate, labels=f"{labels.MANAGED_BY_LABEL}={labels.OPERATOR_NAME}", optional=True),
    ),
    CertificateManagement.GARDENER: cast(
        "Collection[Certificate]",
        Collection(GardenerCertificate, labels=f"{labels.MANAGED_BY_LABEL}={labels.OPERATOR_NAME}", optional=True),
    ),
}
CERTIFICATE_SECRETS = Collection(CertificateSecret, labels=f"{labels.PURPOSE_LABEL}={labels.CERTIFICATE_PURPOSE}")
"""Those of Kymas."""
GATEWAY_SECRETS = Collection(AuthoritySecret, fields=f"metadata.name={labels.GATEWAY_SECRET_NAME}")
ROOT_SECRETS = Collection(AuthoritySecret, fields=f"metadata.name={labels.ROOT_SECRET_NAME}")
ISTIO_COLLECTIONS: tuple[Collection[Any], ...] = (
    *CERTIFICATES.values(),
    CERTIFICATE_SECRETS,
    GATEWAY_SECRETS,
    ROOT_SECRETS,
)
"""What is read and written in the namespace of Istio."""


USES: tuple[Use[Any], ...] = (
    *(
        Use(each, "no webhook of a remote cluster gets a certificate", (Apply, Patch, Delete))
        for each in CERTIFICATES.values()
    ),
    Use(CERTIFICATE_SECRETS, "certificates do not reach the webhooks of remote clusters", (Delete,)),
    Use(GATEWAY_SECRETS, "no webhook of a remote cluster knows the authorities of the Gateway"),
)
"""What is read and written in the namespace of Istio, for the rights."""

# ---- the Gateway


def gateway_secret(settings: Settings) -> ObjectKey:
    """The Secret of the Gateway."""
    return ObjectKey(settings.istio_namespace, labels.GATEWAY_SECRET_NAME)


def added_at(gateway: AuthoritySecret) -> datetime | None:
    """When the newest authority was added; None if the Secret does not show it."""
    return _moment(gateway.metadata.annotations.get(labels.CA_ADDED_AT_ANNOTATION, ""))


def is_close_to_expiry(gateway: AuthoritySecret, window: timedelta, now: datetime) -> bool:
    """Whether the certificate that the Gateway shows ends soon, has ended, or cannot be read."""
    ends = certs.facts(certs.KeyPair(decoded(gateway.data.certificate), b"")).ends
    return ends is None or ends - now < window


# ---- the certificate of a Kyma


def key_of(kyma: str, settings: Settings) -> ObjectKey:
    """The Certificate of a Kyma, and its Secret."""
    return ObjectKey(settings.istio_namespace, f"{kyma}{SUFFIX}")


def overdue(secrets: Iterable[CertificateSecret], settings: Settings, now: datetime) -> Iterator[str]:
    """The Kymas whose certificate should have been renewed long ago, by name."""
    late = settings.self_signed_cert_renew_buffer - settings.self_signed_cert_renew_before
    for each in secrets:
        if each.ends is not None and now - each.ends > late:
            yield each.metadata.name.removesuffix(SUFFIX)


def due(kyma: Kyma, view: View, settings: Settings, refused: Refusal) -> tuple[Write, ...]:
    """What the certificate of a Kyma needs next. Raises NotInstalled, NotKnown."""
    management = settings.cert_management
    collection, key = CERTIFICATES[management], key_of(kyma.metadata.name, settings)
    if not view.serves(collection):
        raise NotInstalled(
            f"the cluster does not serve Certificates of {management.value}; install what issues them, or set "
            "--cert-management"
        )
    live, desired = view.find(collection, key), wanted(kyma, settings)
    if live is None or not (live.metadata.is_terminating or _is_as(desired, live)):
        return (Apply(collection, desired.body, labels.FINALIZER_MANAGER, refused, live),)
    if live.metadata.is_terminating or not _is_outdated(live, view, settings):
        return ()
    if isinstance(live, GardenerCertificate):
        return (Patch(collection, cast("Certificate", live), {"spec": {"renew": True}}, refused),)
    issuing: JsonObject = {
        "type": ISSUING,
        "status": "True",
        "reason": RENEWED_BY_HAND,
        "message": "the Gateway has got another authority",
        "lastTransitionTime": rfc3339(view.now),
        "observedGeneration": live.metadata.generation,
    }
    named = Desired.named(live.resource, key, status={"conditions": [issuing]})
    request = Apply(
        collection, named.body, labels.FINALIZER_MANAGER, refused, cast("Certificate", live), subresource="status"
    )
    return (request,)


def wanted(kyma: Kyma, settings: Settings) -> Desired:
    """The Certificate of a Kyma. Raises NotInstalled."""
    name, key = _common_name(kyma), key_of(kyma.metadata.name, settings)
    host = f"{SERVICE}.{settings.sync_namespace}.svc"
    names = (_domain(kyma), *settings.additional_dns_names, f"{host}.cluster.local", host)
    private_key: JsonObject = {"algorithm": "RSA", "size": settings.self_signed_cert_key_size}
    issuer: JsonObject = {"name": settings.self_signed_cert_issuer_name}
    spec: JsonObject = {
        "commonName": name,
        "dnsNames": [*dict.fromkeys(names)],
        "secretName": key.name,
        "duration": _as_go(settings.self_signed_cert_duration),
        "renewBefore": _as_go(settings.self_signed_cert_renew_before),
    }
    if settings.cert_management is CertificateManagement.GARDENER:
        issuer["namespace"] = settings.self_signed_cert_issuer_namespace
        spec["secretLabels"] = {**_MARKS}
    else:
        private_key["encoding"] = "PKCS1"
        spec["secretTemplate"] = {"labels": {**_MARKS}}
    spec |= {"privateKey": private_key, "issuerRef": issuer}
    return Desired.named(CERTIFICATES[settings.cert_management].resource, key, {"labels": {**_MARKS}}, spec=spec)


def removal(kyma: str, view: View, settings: Settings, refused: Refusal) -> Removal:
    """The end of the certificate of a Kyma. Raises NotKnown.

    The Certificate goes first, since its issuer would make the Secret again.
    """
    key = key_of(kyma, settings)
    writes: list[Write] = []
    waits: list[Wait] = []
    for collection in (CERTIFICATES[settings.cert_management], CERTIFICATE_SECRETS):
        found = view.find(cast("Collection[Kind]", collection), key)
        if found is not None and found.metadata.is_terminating:
            waits.append(Wait((collection, key), f"{found.ref} is being deleted"))
        elif found is not None:
            writes.append(Delete(cast("Collection[Kind]", collection), found, refused, "its Kyma is being deleted"))
    return Removal(tuple(writes), tuple(waits))


def _common_name(kyma: Kyma) -> str:
    name = kyma.metadata.labels.get(labels.RUNTIME_ID_LABEL, "")
    if not name:
        raise NotInstalled(
            f"{kyma.ref} lacks the label {labels.RUNTIME_ID_LABEL}, by which reports are known; set it: kubectl label "
            f"kyma {kyma.metadata.name} -n {kyma.metadata.namespace} {labels.RUNTIME_ID_LABEL}=ID"
        )
    return name


def _domain(kyma: Kyma) -> str:
    domain = kyma.metadata.annotations.get(labels.SKR_DOMAIN_ANNOTATION)
    if not domain:
        what = "missing" if domain is None else "empty"
        raise NotInstalled(
            f"domain annotation is {what}; set it: kubectl annotate kyma {kyma.metadata.name} "
            f"-n {kyma.metadata.namespace} --overwrite {labels.SKR_DOMAIN_ANNOTATION}=DOMAIN"
        )
    return domain


def _is_as(desired: Desired, live: Certificate) -> bool:
    """Whether a Certificate is as wanted. Gardener's releases that know no `renewBefore` drop it."""
    if isinstance(live, GardenerCertificate) and not live.spec.renew_before:
        spec = {**cast("JsonObject", desired.body["spec"])}
        del spec["renewBefore"]
        desired = Desired(desired.address, {**desired.body, "spec": cast("JsonValue", spec)})
    return skr.is_written(desired, live)


def _is_outdated(live: Certificate, view: View, settings: Settings) -> bool:
    """Whether another certificate is to be requested, since the Gateway has got an authority after this one was issued.

    Not while one is requested already, and not right after an issuer has failed.
    """
    secret = view.find(CERTIFICATE_SECRETS, live.key)
    gateway = view.find(GATEWAY_SECRETS, gateway_secret(settings))
    added = added_at(gateway) if gateway is not None else None
    if added is None or secret is None or secret.begins is None:
        return False
    if isinstance(live, GardenerCertificate):
        issued, is_asked = _moment(live.status.issuance_date), live.spec.renew or live.status.state != "Ready"
    else:
        issued = live.status.not_before
        is_asked = any(each.type == ISSUING and each.is_true for each in live.status.conditions)
        failure = live.status.last_failure_time
        is_asked = is_asked or (failure is not None and not view.is_past(failure + _RETRIED_AFTER))
    # The status and the Secret come by two watches, so either may still show the former certificate.
    return not is_asked and max(secret.begins, issued or secret.begins) < added


def _as_go(duration: timedelta) -> str:
    """A duration as Go writes it into objects: with the parts that are zero."""
    minutes, seconds = divmod(round(duration.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m{seconds}s"


def _moment(text: str) -> datetime | None:
    """A moment from RFC 3339; None if the text is none."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None
