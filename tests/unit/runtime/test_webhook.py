"""What becomes of a question, whoever asks it."""

from __future__ import annotations

import base64
import threading
from collections.abc import Awaitable, Callable
from typing import ClassVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.api.core import ConfigMap, Secret
from stellwerk.kube.client.patch import JsonPatch, add
from stellwerk.kube.types.errors import StatusCause
from stellwerk.kube.types.model import JsonObject, JsonValue, Unstructured, dig, unstructured
from stellwerk.runtime.serving.http_messages import Headers, Request
from stellwerk.runtime.serving.webhook import (
    LARGE_BYTES,
    Admission,
    Allowed,
    Decision,
    Denied,
    Judge,
    Malformed,
    Patched,
    Webhook,
    review,
    routes,
)

CONFIG_MAP: JsonObject = {"group": "", "version": "v1", "kind": "ConfigMap"}


def asked(new: JsonValue = None, old: JsonValue = None, **fields: JsonValue) -> bytes:
    request: JsonObject = {
        "uid": "42",
        "kind": CONFIG_MAP,
        "name": "a",
        "namespace": "here",
        "operation": "CREATE",
        "userInfo": {"username": "ann"},
        "object": new,
        "oldObject": old,
        **fields,
    }
    return msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})


async def answer(decide: Callable[[Admission[ConfigMap]], Decision | Awaitable[Decision]], body: bytes) -> JsonObject:
    """The response of a webhook for ConfigMaps."""
    return await response(Webhook("/validate", ConfigMap, decide), body)


async def response(webhook: Judge, body: bytes) -> JsonObject:
    judges = {(webhook.gvk.group, webhook.gvk.kind): webhook}
    said = msgspec.json.decode(await review(judges, body))
    assert (said["apiVersion"], said["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert said["response"]["uid"] == "42"
    found: JsonObject = said["response"]
    return found


def allow(_: Admission[ConfigMap]) -> Decision:
    return Allowed()


async def test_an_allowed_write_carries_its_warnings() -> None:
    said = await answer(lambda _: Allowed(("spec.domains is old: use spec.domainRefs",)), asked({"metadata": {}}))
    assert said == {"uid": "42", "allowed": True, "warnings": ["spec.domains is old: use spec.domainRefs"]}


async def test_a_plain_yes_says_nothing_more() -> None:
    assert await answer(allow, asked({"metadata": {}})) == {"uid": "42", "allowed": True}


async def test_a_denied_write_says_why_and_which_field() -> None:
    cause = StatusCause(reason="FieldValueInvalid", message="must not change", field="spec.provider")
    said = await answer(lambda _: Denied("spec.provider must not change", 422, (cause,)), asked({"metadata": {}}))
    assert said["allowed"] is False
    assert dig(said, "status", "message") == "spec.provider must not change"
    assert dig(said, "status", "code") == 422
    assert dig(said, "status", "details", "causes") == [
        {"reason": "FieldValueInvalid", "message": "must not change", "field": "spec.provider"}
    ]


async def test_a_patched_write_carries_a_json_patch() -> None:
    said = await answer(lambda _: Patched(JsonPatch([add("/data/b", "2")])), asked({"metadata": {}}))
    assert said["patchType"] == "JSONPatch"
    assert msgspec.json.decode(base64.b64decode(str(said["patch"]))) == [{"op": "add", "path": "/data/b", "value": "2"}]


async def test_a_decision_may_take_time() -> None:
    async def decide(_: Admission[ConfigMap]) -> Decision:
        return Denied("no")

    assert (await answer(decide, asked({"metadata": {}})))["allowed"] is False


async def test_the_decision_sees_who_asks_for_what() -> None:
    seen: list[Admission[ConfigMap]] = []

    def look(admission: Admission[ConfigMap]) -> Decision:
        seen.append(admission)
        return Allowed()

    new: JsonValue = {"metadata": {"name": "a"}, "data": {"k": "new"}}
    old: JsonValue = {"metadata": {"name": "a"}, "data": {"k": "old"}}
    await answer(look, asked(new, old, operation="UPDATE", subResource="status", dryRun=True))
    await answer(look, asked(None, old, operation="DELETE"))
    update, delete = seen
    assert (update.operation, str(update.key), update.user.username) == ("UPDATE", "here/a", "ann")
    assert (update.subresource, update.dry_run) == ("status", True)
    assert update.new is not None
    assert update.old is not None
    assert (update.new.data, update.old.data) == ({"k": "new"}, {"k": "old"})
    assert delete.new is None
    assert delete.old is not None


async def test_an_object_of_a_wrong_shape_is_denied_with_the_field() -> None:
    said = await answer(allow, asked({"metadata": {"name": "a", "generation": "many"}}))
    assert said["allowed"] is False
    assert dig(said, "status", "code") == 422
    assert "metadata.generation" in str(dig(said, "status", "message"))


ODD: JsonObject = {"metadata": {"name": "a"}, "data": 7}
LABELLED: JsonObject = {"name": "a", "labels": {"team": "a"}}


@pytest.mark.parametrize(
    ("new", "allowed"),
    [
        ({"metadata": {"name": "a"}, "data": {"k": "v"}}, True),
        ({**ODD, "metadata": LABELLED}, True),
        ({**ODD, "status": {"seen": 1}}, True),
        ({**ODD, "data": 8}, False),
    ],
    ids=["corrected", "labelled", "another status", "wrong again"],
)
async def test_a_stored_object_of_a_wrong_shape_may_be_corrected_and_labelled(new: JsonObject, allowed: bool) -> None:
    seen: list[Admission[ConfigMap]] = []

    def look(admission: Admission[ConfigMap]) -> Decision:
        seen.append(admission)
        return Allowed()

    assert (await answer(look, asked(new, ODD, operation="UPDATE")))["allowed"] is allowed
    corrected = [(each.old, each.corrected) for each in seen]
    assert corrected == ([(None, ODD)] if new["data"] == {"k": "v"} else [])


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ({"metadata": {"name": "a", "generation": "many"}}, {"metadata": {"name": "a"}}),
        ({"metadata": {"name": "a"}, "data": 1}, {"metadata": {"name": "a"}, "data": True}),
    ],
    ids=["metadata of a right one", "another type of an equal value"],
)
async def test_an_update_that_brings_a_wrong_shape_is_denied(new: JsonObject, old: JsonObject) -> None:
    assert (await answer(allow, asked(new, old, operation="UPDATE")))["allowed"] is False


async def test_a_deletion_of_an_object_of_a_wrong_shape_is_not_judged_unseen() -> None:
    assert (await answer(allow, asked(None, ODD, operation="DELETE")))["allowed"] is False


async def test_each_denial_starts_with_the_prefix_of_the_webhook() -> None:
    webhook = Webhook("/v", ConfigMap, lambda _: Denied("it is wrong"), denial_prefix="denied by us: ")
    decided = await response(webhook, asked({"metadata": {}}))
    misshapen = await response(webhook, asked({"metadata": {"generation": "many"}}))
    assert dig(decided, "status", "message") == "denied by us: it is wrong"
    assert str(dig(misshapen, "status", "message")).startswith("denied by us: this is not a valid ConfigMap")


async def test_objects_may_be_judged_without_a_shape() -> None:
    def refuse(admission: Admission[Unstructured]) -> Decision:
        assert admission.new is not None
        return Denied(str(admission.new.at("data", "k")))

    webhook = Webhook("/v", unstructured(ConfigMap.resource), refuse)
    said = await response(webhook, asked({"metadata": {"name": "a"}, "data": {"k": "seen"}}))
    assert dig(said, "status", "message") == "seen"


@pytest.mark.req("R-701")
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nonsense",
        b"[]",
        b"null",
        b"{}",
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}',
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":""}}',
        b'{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{"uid":"1"}}',
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":' + b"[" * 200_000,
        b'{"kind":"\xff"}',
        asked({"metadata": {}}, kind={"group": "", "version": "v1", "kind": "Secret"}),
    ],
)
async def test_what_is_no_question_for_us_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        await answer(allow, body)


async def test_what_is_no_admission_review_gets_a_400_that_begins_as_those_of_the_original() -> None:
    (route,) = routes([Webhook("/v", ConfigMap, allow)])
    refused = await route.handler(Request(method="POST", path="/v", headers=Headers(()), body=b"nonsense"))
    assert refused.status == 400
    assert msgspec.json.decode(refused.body)["error"].startswith("admission error: the body is not an AdmissionReview")


@pytest.mark.req("R-701")
async def test_an_object_that_is_nested_deeply_is_malformed() -> None:
    deep = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    webhook = Webhook("/v", unstructured(ConfigMap.resource), lambda _: Allowed())
    body = asked("PLACE").replace(b'"PLACE"', deep)
    with pytest.raises(Malformed):
        await response(webhook, body)


async def test_an_object_that_is_not_utf8_is_denied() -> None:
    said = await answer(allow, asked({"metadata": {"name": "PLACE"}}).replace(b"PLACE", b"\xff"))
    assert said["allowed"] is False
    assert "not UTF-8" in str(dig(said, "status", "message"))


@pytest.mark.req("R-401")
@given(st.binary(max_size=400), st.integers(0, 300))
async def test_any_bytes_are_answered_or_malformed(noise: bytes, at: int) -> None:
    good = asked({"metadata": {"name": "a"}})
    for body in (noise, good[:at] + noise + good[at:]):
        try:
            said = msgspec.json.decode(await review({("", "ConfigMap"): Webhook("/v", ConfigMap, allow)}, body))
        except Malformed:
            continue
        assert said["response"]["allowed"] in (True, False)


def test_kinds_may_share_a_path_and_no_kind_is_judged_twice() -> None:
    def decide(_: Admission[Secret]) -> Decision:
        return Allowed()

    config_maps, secrets = Webhook("/validate", ConfigMap, allow), Webhook("/validate", Secret, decide)
    elsewhere = Webhook("/mutate", ConfigMap, allow)
    assert [route.path for route in routes([config_maps, secrets, elsewhere])] == ["/validate", "/mutate"]
    with pytest.raises(ValueError, match="two webhooks judge ConfigMap at /validate"):
        routes([config_maps, Webhook("/validate", ConfigMap, allow)])


@pytest.mark.req("R-931")
@pytest.mark.parametrize(("text", "is_large"), [("x" * 1_000, False), ("x" * LARGE_BYTES, True)])
async def test_objects_are_judged_in_a_thread_where_they_are_large_and_at_once_where_not(
    text: str, is_large: bool
) -> None:
    threads: list[int] = []

    async def decide(admission: Admission[ConfigMap]) -> Decision:
        threads.append(await admission.judged(threading.get_ident))
        return Allowed()

    assert (await answer(decide, asked({"metadata": {}, "data": {"a": text}})))["allowed"] is True
    assert (threads[0] != threading.get_ident()) is is_large


class NotedConfigMap(ConfigMap, frozen=True, kw_only=True):
    """Notes which thread reads it."""

    readers: ClassVar[list[int]] = []

    def __post_init__(self) -> None:
        self.readers.append(threading.get_ident())


@pytest.mark.req("R-931")
@pytest.mark.parametrize(("text", "is_large"), [("x" * 1_000, False), ("x" * LARGE_BYTES, True)])
async def test_a_large_question_is_read_in_a_thread(text: str, is_large: bool) -> None:
    NotedConfigMap.readers.clear()
    body = asked({"metadata": {}, "data": {"a": text}})
    await response(Webhook("/validate", NotedConfigMap, lambda _: Allowed()), body)
    assert [each != threading.get_ident() for each in NotedConfigMap.readers] == [is_large]
