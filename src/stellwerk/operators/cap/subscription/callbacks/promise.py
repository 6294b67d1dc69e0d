"""A promise to a registry as the cluster stores it, and when it is due (pure).

A promise is a Secret of its own. It is written before the request is answered, so a crash at any later moment loses
nothing. Its name is made of what the registry asked for, so the same request again means the same promise. The answer
is stored before it is sent for the first time, and is sent as it is stored: every attempt sends the same. A promise
begins again with a request that it does not cover (`plan.is_covered`), and gets an answer of its own then. Where it
ended as failed before that request was answered, the registry may receive the failure first and the true answer later.

After its end a promise stays for a day: by it, a request that is replayed after the end of its subscription is known.
One that was given up stays until it is acknowledged, because its registry does not know the result: without the payload
(`remains`), and owned by what it is about. The API server deletes it with its owner, whether a server runs or not.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import ClassVar

import msgspec

from stellwerk.api.core import Secret
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import UNREADABLE, JsonObject, Kind, decode_json, owner_reference
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.tenant import CAPTenant, Operation, TenantState
from stellwerk.operators.cap.subscription.registries import Protocol
from stellwerk.runtime import conditions

PENDING, DELIVERED, FAILED, ACKNOWLEDGED = "pending", "delivered", "failed", "acknowledged"
"""The values of `names.CALLBACK_LABEL`. Failed: refused or given up, and not acknowledged yet."""
KEY = "promise"
"""Of the Secret."""
KEPT = timedelta(days=1)
"""How long a promise stays after its end; tokens live for half a day."""
LEAST_DELIVERY = timedelta(minutes=15)
"""How long delivering an answer is tried at least."""
MOST_GIVEN_UP = 100
"""Of an application, so many stay for longer than a day: the newest."""
_LONGEST_PROBLEM = 200
_DIGITS = 16


class PromiseUnreadable(ValueError):
    """A Secret with the label of promises has none that can be read."""


class PromiseSecret(Kind, frozen=True, kw_only=True):
    """The Secret of a promise. Its repr shows no content."""

    resource: ClassVar[Resource] = Secret.resource

    data: dict[str, str] = msgspec.field(default_factory=dict)

    def __repr__(self) -> str:
        return f"PromiseSecret({self.key})"

    @property
    def state(self) -> str:
        """Whether the callback is pending, delivered, failed or acknowledged."""
        return self.metadata.labels.get(names.CALLBACK_LABEL, "")


class Promise(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a registry was promised, and how far the promise is kept."""

    operation: Operation
    protocol: Protocol
    path: str
    """Where the answer goes, at the server of the registry; empty where the registry wants none."""
    application: str
    tenant_id: str
    guid: str
    secret: str
    """The binding Secret of the registry at the time of the request."""
    service: str
    """The service of that binding."""
    accepted: datetime
    deadline: datetime
    """When the answer is that the operation has failed, if it has not ended."""
    tenant: str = ""
    uid: str = ""
    """The tenant that is deprovisioned."""
    subdomain: str = ""
    domain: str = ""
    """The URL of a new tenant."""
    body: str = ""
    """The answer, once it is known."""
    concluded: datetime | None = None
    """Since when it is known."""
    attempts: int = 0
    not_before: datetime | None = None
    """When delivering is tried again."""
    problem: str = ""
    """Why the last attempt failed."""
    ended: datetime | None = None
    """When the last attempt was made."""

    @property
    def name(self) -> str:
        """Of the Secret. It begins like the other objects of the application."""
        identity = "\n".join((self.operation, self.protocol, self.tenant_id, self.guid, self.uid, self.path))
        return f"{self.application[:36].rstrip('-.')}-callback-{names.sha1(identity)[:_DIGITS]}"

    @property
    def gives_up(self) -> datetime:
        """When delivering is given up."""
        return max(self.deadline, (self.concluded or self.accepted) + LEAST_DELIVERY)


_decoder = msgspec.json.Decoder(Promise)


def stored(promise: Promise, namespace: str) -> JsonObject:
    """The Secret of a new promise."""
    return {
        "metadata": {
            "name": promise.name,
            "namespace": namespace,
            "labels": {
                names.CALLBACK_LABEL: PENDING,
                names.TENANT_ID_LABEL: promise.tenant_id,
                names.SUBSCRIPTION_GUID: promise.guid,
            },
        },
        "data": data_of(promise),
    }


def renewed(ended: PromiseSecret, body: JsonObject) -> MergePatch:
    """The patch that makes a new promise (`body`, see `stored`) of one that has ended, unless it has changed since.

    The new one has no owner: it is kept although what it is about goes.
    """
    metadata = body["metadata"]
    assert isinstance(metadata, dict)
    labels = metadata["labels"]
    assert isinstance(labels, dict)
    condition: JsonObject = {"uid": ended.metadata.uid, "resourceVersion": ended.metadata.resource_version}
    former: JsonObject = {"labels": {**labels, names.OWNER_HASH_LABEL: None}, "ownerReferences": None}
    return MergePatch({**body, "metadata": {**metadata, **former, **condition}})


def data_of(promise: Promise) -> JsonObject:
    """The data of the Secret."""
    return {KEY: base64.b64encode(msgspec.json.encode(promise)).decode()}


def read(secret: PromiseSecret) -> Promise:
    """The promise of a Secret. Raises PromiseUnreadable."""
    try:
        return _decoder.decode(base64.b64decode(secret.data.get(KEY, ""), validate=True))
    except (ValueError, *UNREADABLE):
        raise PromiseUnreadable(f"Secret {secret.key} has no promise that can be read") from None


def has_succeeded(concluded: Promise) -> bool:
    """Whether the answer is that the operation has succeeded."""
    try:
        return decode_json(concluded.body).get("status") == "SUCCEEDED"
    except UNREADABLE:
        return False


# ---- when it was given up


def remains(given_up: Promise) -> Promise:
    """What is stored of a promise that was given up: no payload, no address, nothing of the subscriber but ids.

    Equal for what remains already.
    """
    result = "SUCCEEDED" if has_succeeded(given_up) else "FAILED"
    return msgspec.structs.replace(
        given_up,
        path="",
        secret="",
        service="",
        subdomain="",
        domain="",
        body=msgspec.json.encode({"status": result}).decode(),
        not_before=None,
        problem=conditions.truncated(given_up.problem, _LONGEST_PROBLEM),
    )


def shown_by(secret: PromiseSecret) -> ObjectKey | None:
    """The application that shows a promise which was given up; None for any other. Raises PromiseUnreadable."""
    application = read(secret).application
    return ObjectKey(secret.metadata.namespace, application) if secret.state == FAILED else None


def owner_of(given_up: Promise, application: CAPApplication, tenant: CAPTenant | None) -> JsonObject:
    """The reference by which a promise that was given up goes with its tenant, or else with its application. The end of
    a tenant is about one that is gone."""
    owner = tenant if tenant is not None and given_up.operation is Operation.PROVISIONING else application
    reference: JsonObject = msgspec.to_builtins(owner_reference(owner))
    return {**reference, "blockOwnerDeletion": False}  # True needs a right to finalizers of applications


def is_known(given_up: Promise, delivered: Iterable[Promise]) -> bool:
    """Whether the registry has got to know later what has become of the tenant."""
    return any(
        bool(other.path)  # without one, nothing was sent
        and other.accepted > given_up.accepted
        and (other.application, other.tenant_id, other.protocol)
        == (given_up.application, given_up.tenant_id, given_up.protocol)
        for other in delivered
    )


# ---- when it is due


def judge(promise: Promise, tenant: CAPTenant | None, now: datetime, *, is_over: bool = False) -> bool | None:
    """Whether the operation of a promise has succeeded or failed; None while it has not ended.

    `tenant`: the subscriber's tenant as it is. `is_over`: the end of the subscription was asked for later.
    """
    ended: bool | None = None
    if promise.operation is not Operation.PROVISIONING:
        ended = True if tenant is None or tenant.metadata.uid != promise.uid else None
    elif tenant is None:
        ended = False if is_over else None
    elif tenant.metadata.is_terminating or tenant.status.state == TenantState.PROVISIONING_ERROR:
        ended = False
    elif tenant.status.state == TenantState.READY:
        ended = True
    return False if ended is None and now >= promise.deadline else ended


def is_replay(issued_at: float, ended: Promise) -> bool:
    """Whether a token is older than the end of the subscription for which it is shown again."""
    return ended.operation is Operation.DEPROVISIONING and issued_at <= ended.accepted.timestamp()
