"""What the Secret of the Gateway needs next: the certificate that it shows, and the authorities that it trusts.

cert-manager renews the authority (`klm-watcher`) at once. Remote clusters learn of a new authority one by one, and show
certificates of the former one meanwhile. So the Gateway (`klm-istio-gateway`) trusts both until the former one has
ended, and shows a certificate of the new one only when remote clusters have had time to trust it.

| the Secret of the Gateway | needs |
| --- | --- |
| does not exist | all that the authority's Secret has; the authority counts as added now |
| lacks the authority | it, before the others; it counts as added now |
| has authorities that have ended | to lose them |
| shows another certificate than the authority's, longer than the period of grace, or one that has ended | that one |

When an authority was added decides which certificates of Kymas are renewed (`certificates`). A Secret that does not
show it counts as having had the authority since it began, so that taking it over renews nothing.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from stellwerk.delivery.step_rights import Use
from stellwerk.kube.types.errors import StatusError
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject
from stellwerk.kube.types.object_meta import Record, rfc3339
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.reasons import WatcherReason
from stellwerk.operators.kyma.settings import Settings
from stellwerk.operators.kyma.watcher.certificates import (
    AUTHORITY_KEY,
    CERTIFICATE_KEY,
    GATEWAY_SECRETS,
    PRIVATE_KEY_KEY,
    ROOT_SECRETS,
    AuthoritySecret,
    added_at,
    decoded,
    gateway_secret,
)
from stellwerk.runtime.certificates import certs
from stellwerk.runtime.control.step import Create, Failure, Patch, Step, Wait
from stellwerk.runtime.reading.known import NotKnown, Present, Unknown
from stellwerk.runtime.reading.loads import SecretData
from stellwerk.runtime.reading.questions import Collection
from stellwerk.runtime.reading.view import View
from stellwerk.runtime.reconciler import Notice, Retry, Severity

GatewayStep: TypeAlias = Step[Record]

USES = (
    Use(ROOT_SECRETS, "no Gateway gets a certificate"),
    Use(GATEWAY_SECRETS, "no Gateway gets a certificate", (Create, Patch)),
)
"""What passes ask about and steps write in the namespace of Istio, for the rights."""

_log = logging.getLogger(__name__)


# ---- the decision


def decide(root: AuthoritySecret, view: View) -> GatewayStep:
    """What the Secret of the Gateway needs next, from that of the authority."""
    authorities = certs.split(decoded(root.data.authorities) or decoded(root.data.certificate))
    if not authorities:
        return _failed(
            f"Secret {root.key} has no certificate of an authority, so the Gateway gets none. Its issuer may show "
            f"why: kubectl describe certificate {labels.CA_CERTIFICATE_NAME} -n {root.key.namespace}"
        )
    key = gateway_secret(view.setting(Settings))
    gateway = view.find(GATEWAY_SECRETS, key)
    if gateway is None:
        return _created(root, key, view)
    if gateway.metadata.is_terminating:
        return Step(waits=(Wait((GATEWAY_SECRETS, key), f"{gateway.ref} is being deleted, and is created again then"),))
    return _kept(root, authorities, gateway, view)


def _created(root: AuthoritySecret, key: ObjectKey, view: View) -> GatewayStep:
    data = _content(root, view)
    metadata: JsonObject = {
        "name": key.name,
        "namespace": key.namespace,
        "labels": {labels.MANAGED_BY_LABEL: labels.OPERATOR_NAME},
        "annotations": {labels.CA_ADDED_AT_ANNOTATION: rfc3339(view.now)},
    }
    body: JsonObject = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
    return Step(writes=(Create(GATEWAY_SECRETS, body, _refused),))


def _kept(root: AuthoritySecret, authorities: Sequence[bytes], gateway: AuthoritySecret, view: View) -> GatewayStep:
    trusted = certs.split(decoded(gateway.data.authorities))
    missing = [each for each in authorities if each not in trusted]
    others = [each for each in trusted if each not in authorities]
    lasting = [each for each in others if not _is_over(each, view)]
    data: JsonObject = {}
    if missing or lasting != others:
        data[AUTHORITY_KEY] = base64.b64encode(b"".join([*authorities, *lasting])).decode()
    said = added_at(gateway)
    added = view.now if missing else said or certs.facts(certs.KeyPair(authorities[0], b"")).begins or view.now
    if _is_due(root, gateway, added, view):
        content = _content(root, view)
        data |= {key: content[key] for key in (CERTIFICATE_KEY, PRIVATE_KEY_KEY)}
    fields: JsonObject = {"data": data} if data else {}
    if missing or said is None:
        fields["metadata"] = {"annotations": {labels.CA_ADDED_AT_ANNOTATION: rfc3339(added)}}
    return Step(writes=(Patch(GATEWAY_SECRETS, gateway, fields, _refused),)) if fields else Step()


def _is_due(root: AuthoritySecret, gateway: AuthoritySecret, added: datetime, view: View) -> bool:
    """Whether the Gateway is to show the certificate of the authority, and shows another one."""
    shown = decoded(gateway.data.certificate)
    if shown == decoded(root.data.certificate):
        return False
    grace = view.setting(Settings).istio_gateway_server_cert_switch_grace_period
    return _is_over(shown, view) or view.is_past(added + grace)


def _is_over(certificate: bytes, view: View) -> bool:
    """Whether a certificate has ended, or cannot be read. The object is awakened at its end."""
    ends = _ends(certificate)
    return ends is None or view.is_past(ends)


def _ends(certificate: bytes) -> datetime | None:
    return certs.facts(certs.KeyPair(certificate, b"")).ends


def _content(root: AuthoritySecret, view: View) -> JsonObject:
    """All of the authority's Secret that the Gateway gets. Raises NotKnown."""
    load = SecretData(root.key, root.metadata.resource_version)
    match view.load(load):
        case Present(content):
            data = content.data
        case Unknown(why):
            raise NotKnown(load.about, why)
        case _:
            raise NotKnown(load.about, "it is gone")
    authority = data.get(AUTHORITY_KEY) or data.get(CERTIFICATE_KEY, "")
    pair: JsonObject = {key: data.get(key, "") for key in (CERTIFICATE_KEY, PRIVATE_KEY_KEY)}
    return {**pair, AUTHORITY_KEY: authority}


def _failed(message: str) -> GatewayStep:
    event = Notice(WatcherReason.GATEWAY_SECRET, message, Severity.WARNING, action=WatcherReason.GATEWAY_SECRET)
    return Step(
        events=(event,),
        failure=Failure(message=message, event_reason=WatcherReason.GATEWAY_SECRET, retry=Retry.WHEN_CHANGED),
    )


def _refused(message: str, _: StatusError | None) -> Failure:
    return Failure(message=message, event_reason=WatcherReason.GATEWAY_SECRET)


@dataclass(slots=True)
class GatewayLogic:
    """The Secret of the authority, for the engine. It has no status: what fails is logged and shown by an Event."""

    collection: Collection[AuthoritySecret] = ROOT_SECRETS

    def decide(self, root: AuthoritySecret, view: View) -> GatewayStep:
        """As `Logic.decide`."""
        return decide(root, view)

    def unknown(self, root: AuthoritySecret, view: View, missing: NotKnown) -> GatewayStep:
        """As `Logic.unknown`."""
        return Step(waits=(Wait(str(missing)),))

    def failed(self, root: AuthoritySecret, failure: Failure) -> None:
        """As `Logic.failed`."""
        _log.error("the Secret of the Gateway is not kept up to date: %s", failure.message)

    def unexpected(self, root: AuthoritySecret, message: str) -> None:
        """As `Logic.unexpected`."""
