"""Deployments get the new credentials of their services, by a restart in a safe order, and only where they differ."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import timedelta

import pytest
from tests.cluster.cap.conftest import Running
from tests.cluster.cap.shop import Shop, job, router, server

from stellwerk.api.apps import Deployment
from stellwerk.api.core import Secret
from stellwerk.api.events import Event
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import JsonObject, Unstructured, metadata_of, unstructured
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.version.rollout import secrets_read
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually


@pytest.fixture
async def quick(running: Running) -> Running:
    """The operator, which does not wait before it renews credentials."""
    await running.stop()
    running.settings["rollout_delay"] = timedelta()
    await running.start()
    return running


async def opened(shop: Shop, *, asks: bool = True) -> None:
    await shop.bind()
    await shop.apply(rolloutOnCredentialUpdate=asks)
    bare: JsonObject = {**server("worker", "Additional"), "consumedBTPServices": []}
    await shop.release("1", router(), bare, job("mtxs"))
    await shop.version_shows("WorkloadsReady")


async def rotate(shop: Shop, client_id: str) -> None:
    content = base64.b64encode(f'{{"clientid": "{client_id}"}}'.encode()).decode()
    patch = MergePatch({"data": {"credentials": content}})
    await shop.client.patch(metadata_of(Secret), "uaa-secret", shop.namespace, patch)


async def deployment(shop: Shop, name: str) -> Unstructured:
    found: Unstructured = await shop.client.get(unstructured(Deployment.resource), f"shop-v1-{name}", shop.namespace)
    return found


async def secrets_of_router(shop: Shop) -> set[str]:
    return secrets_read(await shop.client.get(Deployment, "shop-v1-app", shop.namespace))


async def credentials(shop: Shop) -> Sequence[Secret]:
    """The Secrets with credentials of the router."""
    mark = names.sha1(shop.namespace, "shop-v1", "shop-v1-app")
    return (await shop.client.list(Secret, shop.namespace, labels=f"{names.SECRET_OWNER_HASH_LABEL}={mark}")).items


@pytest.mark.req("CAP-54")
async def test_changed_credentials_reach_the_pods_by_a_new_secret_and_the_former_one_goes(
    quick: Running, shop: Shop
) -> None:
    await opened(shop)
    (former,) = await credentials(shop)
    worker = await deployment(shop, "worker")
    await rotate(shop, "other")

    async def renewed() -> bool:
        only, *others = await credentials(shop)
        assert not others
        assert only.metadata.name != former.metadata.name
        assert b'"clientid":"other"' in only.decoded()["VCAP_SERVICES"]
        return True

    await eventually(renewed, within=60)
    (only,) = await credentials(shop)
    app = await deployment(shop, "app")
    containers = app.at("spec", "template", "spec", "containers")
    assert isinstance(containers, list)
    assert [each["envFrom"] for each in containers if isinstance(each, dict)] == [
        [{"secretRef": {"name": only.metadata.name, "optional": True}}]
    ]
    assert (await deployment(shop, "worker")).metadata.generation == worker.metadata.generation
    await shop.version_shows("WorkloadsReady")
    await quick.settled(shop.client)
    await quick.has_sent_events()
    events = (await shop.client.list(Event, shop.namespace)).items
    assert [event.note for event in events if event.reason == "CredentialsRolledOut"] == [
        "credentials of services have changed: restarting Deployments shop-v1-app"
    ]


@pytest.mark.req("CAP-54")
async def test_a_binding_that_is_written_again_with_the_same_content_restarts_nothing(
    quick: Running, shop: Shop
) -> None:
    await opened(shop)
    before = await deployment(shop, "app")
    (former,) = await credentials(shop)
    touch = MergePatch({"metadata": {"annotations": {"touched": "yes"}}})
    await shop.client.patch(metadata_of(Secret), "uaa-secret", shop.namespace, touch)

    async def seen() -> bool:
        (only,) = await credentials(shop)
        assert only.metadata.uid == former.metadata.uid
        key = names.BINDINGS_ANNOTATION
        return only.metadata.annotations[key] != former.metadata.annotations[key]

    await eventually(seen)
    assert (await deployment(shop, "app")).metadata.generation == before.metadata.generation


@pytest.mark.req("CAP-54")
@pytest.mark.parametrize("loss", ["label", "secret"])
async def test_a_deployment_whose_secret_lost_its_label_or_is_gone_gets_changed_credentials(
    running: Running, shop: Shop, loss: str
) -> None:
    await opened(shop)
    await running.stop()
    (former,) = await credentials(shop)
    name = former.metadata.name
    if loss == "label":
        unlabelled = MergePatch({"metadata": {"labels": None, "annotations": None}})
        await shop.client.patch(metadata_of(Secret), name, shop.namespace, unlabelled)
    else:
        await shop.client.delete(metadata_of(Secret), name, shop.namespace)
    await rotate(shop, "other")
    running.settings["rollout_delay"] = timedelta()
    await running.start()

    async def renewed() -> bool:
        found = await credentials(shop)
        assert len(found) == 1
        (only,) = found
        assert only.metadata.name != name
        assert b'"clientid":"other"' in only.decoded()["VCAP_SERVICES"]
        assert await secrets_of_router(shop) == {only.metadata.name}
        return True

    await eventually(renewed, within=60)
    assert await shop.client.find(metadata_of(Secret), name, shop.namespace) is None


@pytest.mark.req("CAP-54")
async def test_a_secret_that_is_deleted_after_a_rollout_is_back_at_once_and_its_deployment_restarts_once(
    quick: Running, shop: Shop
) -> None:
    await opened(shop)
    (first,) = await credentials(shop)
    await rotate(shop, "other")

    async def replaced(former: Secret) -> Secret:
        only, *others = await credentials(shop) or [former]
        assert not others
        assert only.metadata.name != former.metadata.name
        assert await secrets_of_router(shop) == {only.metadata.name}
        return only

    lost = await eventually(lambda: replaced(first), within=60)
    await quick.settled(shop.client)
    before = await deployment(shop, "app")
    await shop.client.delete(metadata_of(Secret), lost.metadata.name, shop.namespace)

    successor = await eventually(lambda: replaced(lost), within=60)
    await quick.settled(shop.client)
    assert (await deployment(shop, "app")).metadata.generation == before.metadata.generation + 1
    assert [each.metadata.uid for each in await credentials(shop)] == [successor.metadata.uid]


@pytest.mark.req("CAP-54")
async def test_a_version_that_is_the_newest_again_gets_what_changed_while_it_was_not(
    quick: Running, shop: Shop
) -> None:
    await opened(shop)
    await shop.release("2")
    await shop.version_shows("WorkloadsReady", "2")
    await quick.settled(shop.client)
    (former,) = await credentials(shop)
    await rotate(shop, "other")
    await quick.settled(shop.client)
    assert [each.metadata.uid for each in await credentials(shop)] == [former.metadata.uid]
    await shop.client.delete(metadata_of(CAPApplicationVersion), "shop-v2", shop.namespace)

    async def renewed() -> bool:
        only, *others = await credentials(shop)
        assert not others
        return b'"clientid":"other"' in only.decoded()["VCAP_SERVICES"]

    await eventually(renewed, within=60)


@pytest.mark.req("CAP-54")
async def test_a_secret_that_gets_its_label_back_restarts_nothing_where_its_content_is_the_same(
    quick: Running, shop: Shop
) -> None:
    await opened(shop)
    await quick.stop()
    before = await deployment(shop, "app")
    (former,) = await credentials(shop)
    unlabelled = MergePatch({"metadata": {"labels": None, "annotations": None}})
    await shop.client.patch(metadata_of(Secret), former.metadata.name, shop.namespace, unlabelled)
    await quick.start()

    async def seen() -> bool:
        found = [each.metadata for each in await credentials(shop)]
        return [(each.uid, each.annotations) for each in found] == [(former.metadata.uid, former.metadata.annotations)]

    await eventually(seen)
    assert (await deployment(shop, "app")).metadata.generation == before.metadata.generation


async def test_credentials_are_left_alone_where_the_application_does_not_ask_for_it(
    quick: Running, shop: Shop, audit: AuditLog
) -> None:
    await opened(shop, asks=False)
    await quick.settled(shop.client)
    audit.mark()
    await rotate(shop, "other")
    await quick.settled(shop.client)
    assert [entry for entry in shop.requests(audit) if entry.is_write or entry.verb == "get"] == []


@pytest.mark.req("CAP-54")
async def test_changed_credentials_wait_for_the_delay(running: Running, shop: Shop) -> None:
    await opened(shop)
    await running.settled(shop.client)
    (former,) = await credentials(shop)
    worker = await deployment(shop, "worker")
    await rotate(shop, "other")
    await running.settled(shop.client)
    await running.clock.skip(minutes=59)
    await running.settled(shop.client)
    (only,) = await credentials(shop)
    assert only.metadata.uid == former.metadata.uid

    await running.clock.skip(minutes=1)

    async def renewed() -> bool:
        return [each.metadata.uid for each in await credentials(shop)] not in ([former.metadata.uid], [])

    await eventually(renewed)
    await running.settled(shop.client)
    assert (await deployment(shop, "worker")).metadata.generation == worker.metadata.generation
