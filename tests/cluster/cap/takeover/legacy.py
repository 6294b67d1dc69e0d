"""The identity of the first releases: a label and an annotation made of the global account."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator

from tests.cluster.cap.shop import Shop

from stellwerk.api.core import Secret
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import JsonObject, Kind, metadata_of
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion

ACCOUNT = "account"
LABEL, FORMER_LABEL = "sme.sap.com/app-identifier-hash", "sme.sap.com/btp-app-identifier-hash"
ANNOTATION, FORMER_ANNOTATION = "sme.sap.com/app-identifier", "sme.sap.com/btp-app-identifier"
GUID = "sme.sap.com/subscription-guid"
HOLD = "sme.sap.com/capapplication"

_KINDS: tuple[type[Kind], ...] = (CAPApplication, CAPApplicationVersion, CAPTenant, CAPTenantOperation)


def identity(account: str) -> str:
    """The hash of an account and the application's name."""
    return hashlib.sha1(f"{account}shop".encode(), usedforsecurity=False).hexdigest()


async def objects(shop: Shop) -> AsyncIterator[tuple[type[Kind], ObjectMeta]]:
    """All that belongs to the application and carries its identity."""
    for kind in _KINDS:
        for each in (await shop.client.list(metadata_of(kind), shop.namespace)).items:
            yield kind, each.metadata


async def put_back(shop: Shop) -> None:
    """Bring all objects of the application into the form in which the first releases left them."""
    async for kind, metadata in objects(shop):
        labels: JsonObject = {LABEL: None, FORMER_LABEL: identity(ACCOUNT)}
        annotations: JsonObject = {ANNOTATION: None}
        if kind is not CAPTenantOperation:
            annotations[FORMER_ANNOTATION] = f"{ACCOUNT}.shop"
        if kind is CAPTenant:
            labels[GUID] = f"{metadata.name}-guid"
            annotations[GUID] = None
        marks: JsonObject = {"labels": labels, "annotations": annotations}
        await shop.client.patch(metadata_of(kind), metadata.name, shop.namespace, MergePatch({"metadata": marks}))
    held = MergePatch({"metadata": {"finalizers": [HOLD]}})
    await shop.client.patch(metadata_of(Secret), "uaa-secret", shop.namespace, held)


async def is_migrated(shop: Shop) -> bool:
    """Whether all objects carry the present identity alone, tenants name their subscription, and no Secret is held."""
    async for kind, metadata in objects(shop):
        assert metadata.labels.get(LABEL) == identity("subaccount"), f"{kind.resource.kind} {metadata.labels}"
        assert FORMER_LABEL not in metadata.labels
        assert FORMER_ANNOTATION not in metadata.annotations
        if kind is not CAPTenantOperation:
            assert metadata.annotations.get(ANNOTATION) == "subaccount.shop"
        if kind in (CAPTenant, CAPTenantOperation) and GUID in metadata.labels:
            assert metadata.annotations.get(GUID) == metadata.labels[GUID]
    secret = await shop.client.get(metadata_of(Secret), "uaa-secret", shop.namespace)
    return not secret.metadata.finalizers
