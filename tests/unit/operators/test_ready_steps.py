"""Steps of kinds with the condition Ready, and objects that they keep, on plain values."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, ClassVar

import msgspec
import pytest

from stellwerk.api.core import ConfigMap
from stellwerk.delivery.ready_steps import (
    PAUSE,
    RESTORED,
    KeptReason,
    NotReady,
    ReadyLogic,
    ReadyStatus,
    failed,
    keep,
    ready,
)
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import JsonObject, Kind, Unstructured, unstructured
from stellwerk.kube.types.object_meta import ObjectMeta, OwnerReference, kubernetes_time
from stellwerk.runtime.control.executor import rehearse
from stellwerk.runtime.control.step import Create, Failure, Patch, Step
from stellwerk.runtime.reading.questions import Collection, PlainSource
from stellwerk.runtime.reading.view import Overlay, PlainSources, View
from stellwerk.runtime.reconciler import Retry
from stellwerk.testing.clock import FakeClock

NOW = datetime(2030, 1, 1, tzinfo=UTC)


class Lamp(Kind, frozen=True, kw_only=True):
    resource: ClassVar[Resource] = Resource("engine.test", "v1", "Lamp", "lamps", namespaced=True)
    status: ReadyStatus = ReadyStatus()


LAMP = Lamp(metadata=ObjectMeta(namespace="shop", name="hall", uid="u1", generation=2))
LAMPS = Collection(Lamp)
TEXTS = Collection(ConfigMap, labels="engine.test/keeper=lamps")
ANY = Collection(unstructured(Resource("engine.test", "v1", "Thing", "things", namespaced=True)))
WISH: JsonObject = {"data": {"text": "hello"}}


def text(owner: str = "u1", *, labels: dict[str, str] | None = None, data: str = "hello", **metadata: Any) -> ConfigMap:
    reference = OwnerReference(api_version="engine.test/v1", kind="Lamp", name="hall", uid=owner, controller=True)
    kept = {"engine.test/keeper": "lamps"} if labels is None else labels
    meta = ObjectMeta(
        namespace="shop", name="hall", uid="u2", labels=kept, owner_references=(reference,) if owner else (), **metadata
    )
    return ConfigMap(metadata=meta, data={"text": data, "other": "stays"})


def view(*texts: ConfigMap, now: datetime = NOW, overlay: Overlay | None = None) -> View:
    sources = PlainSources().add(TEXTS, PlainSource(texts))
    return View(sources=sources, now=now, overlay=overlay or Overlay())


def decide(lamp: Lamp, seen: View) -> Step[ReadyStatus]:
    return ready(lamp, seen, "Shining", "it shines", writes=keep(seen, TEXTS, lamp, WISH))


LOGIC = ReadyLogic(FakeClock(), LAMPS, decide)


def test_an_object_that_is_missing_is_created_with_owner_and_labels_and_the_next_step_rests() -> None:
    course = rehearse(LOGIC, LAMP, lambda overlay: view(overlay=overlay))
    (made,) = course.writes
    assert isinstance(made, Create)
    metadata = made.body["metadata"]
    assert isinstance(metadata, dict)
    assert (metadata["name"], metadata["namespace"]) == ("hall", "shop")
    assert metadata["labels"] == {"engine.test/keeper": "lamps"}
    owners = metadata["ownerReferences"]
    assert isinstance(owners, list)
    assert isinstance(owners[0], dict)
    assert (owners[0]["uid"], owners[0]["controller"]) == ("u1", True)
    assert len([step for step in course.steps if step.events]) == 1, "one Event, with the step that changes something"
    assert course.status.conditions[0].is_true
    assert course.status.observed_generation == 2


def test_an_object_that_is_as_wanted_is_left_alone_with_the_fields_of_others() -> None:
    assert keep(view(text()), TEXTS, LAMP, WISH) == ()


@pytest.mark.parametrize("live", [text(data="other"), text(labels={})], ids=["content", "label"])
def test_what_another_client_has_changed_is_restored_alone(live: ConfigMap) -> None:
    (write,) = keep(view(live), TEXTS, LAMP, WISH)
    assert isinstance(write, Patch)
    assert write.fields["data"] == {"text": "hello"}
    course = rehearse(LOGIC, LAMP, lambda overlay: view(live, overlay=overlay))
    assert course.writes == [write], "the next step rests"


def test_a_field_that_is_none_is_removed() -> None:
    (write,) = keep(view(text()), TEXTS, LAMP, {"data": {"text": "hello", "other": None}})
    assert isinstance(write, Patch)
    overlay = Overlay()
    write.rehearse(overlay, NOW)
    changed = overlay.answers[TEXTS][ObjectKey("shop", "hall")]
    assert changed.data == {"text": "hello"}


def test_elements_of_lists_may_have_fields_that_the_api_server_sets() -> None:
    things: JsonObject = {"containers": [{"name": "a", "image": "i"}]}
    reference: JsonObject = {
        "apiVersion": "engine.test/v1",
        "kind": "Lamp",
        "name": "hall",
        "uid": "u1",
        "controller": True,
    }
    body: JsonObject = {
        "metadata": {"name": "hall", "namespace": "shop", "ownerReferences": [reference]},
        "spec": {"containers": [{"name": "a", "image": "i", "pullPolicy": "Always"}]},
    }
    seen = View(sources=PlainSources().add(ANY, PlainSource([Unstructured.of(body)])), now=NOW)
    assert keep(seen, ANY, LAMP, {"spec": things}) == ()
    assert keep(seen, ANY, LAMP, {"spec": {"containers": []}})
    assert keep(seen, ANY, LAMP, {"spec": {"containers": [{"name": "b", "image": "i"}]}})


@pytest.mark.req("R-110")
def test_an_object_that_another_client_changes_again_and_again_is_restored_every_ten_seconds() -> None:
    overlay = Overlay()
    (first,) = keep(view(text(data="other")), TEXTS, LAMP, WISH)
    first.rehearse(overlay, NOW)
    restored = overlay.answers[TEXTS][ObjectKey("shop", "hall")]
    changed = msgspec.structs.replace(restored, data={"text": "other"})

    soon = view(changed, now=NOW + PAUSE / 2)
    with pytest.raises(NotReady, match=r"again and again.*kubectl get configmaps hall -n shop") as caught:
        keep(soon, TEXTS, LAMP, WISH)
    assert caught.value.reason == KeptReason.CHANGED_BY_OTHERS
    assert soon.due == NOW + PAUSE, "the clock wakes it"
    assert keep(view(changed, now=NOW + PAUSE), TEXTS, LAMP, WISH)
    assert keep(soon, TEXTS, LAMP, {"data": {"text": "new"}}), "another content is written at once"


@pytest.mark.parametrize("value", ["{digest} 2031-01-01T00:00:00Z", "{digest} 2030-01-01T00:00:00", "{digest}", "x y"])
def test_no_value_of_the_annotation_delays_a_restoration_beyond_the_pause(value: str) -> None:
    (first,) = keep(view(text(data="other")), TEXTS, LAMP, WISH)
    assert isinstance(first, Patch)
    overlay = Overlay()
    first.rehearse(overlay, NOW)
    restored = overlay.answers[TEXTS][ObjectKey("shop", "hall")]
    digest = restored.metadata.annotations[RESTORED].split()[0]
    annotations = {RESTORED: value.format(digest=digest)}
    assert keep(view(text(data="other", annotations=annotations)), TEXTS, LAMP, WISH)


@pytest.mark.req("R-111")
@pytest.mark.parametrize("owner", ["", "u9"], ids=["no owner", "another owner"])
def test_an_object_of_another_owner_is_not_taken_over(owner: str) -> None:
    course = rehearse(LOGIC, LAMP, lambda overlay: view(text(owner), overlay=overlay))
    assert not course.writes
    failure = course.steps[-1].failure
    assert failure is not None
    assert (failure.event_reason, failure.retry) == (KeptReason.NAME_TAKEN, Retry.BACKOFF)
    assert course.status.conditions[0].reason == KeptReason.NAME_TAKEN


@pytest.mark.req("R-106")
@pytest.mark.parametrize("owner", ["u0", "u1"])
def test_a_name_whose_object_is_being_deleted_is_waited_for(owner: str) -> None:
    ending = text(owner, deletion_timestamp=kubernetes_time(NOW))
    course = rehearse(LOGIC, LAMP, lambda overlay: view(ending, overlay=overlay))
    assert not course.writes
    assert course.status.conditions[0].reason == KeptReason.FORMER_ENDING
    (wait,) = course.steps[-1].waits
    assert wait.on == (TEXTS, ObjectKey("shop", "hall"))
    assert wait.seconds, "one that lost its label sends no event"


@pytest.mark.req("R-207")
def test_objects_that_are_not_listed_are_not_absent() -> None:
    sources = PlainSources().add(TEXTS, PlainSource(why="the webhook failed"))
    course = rehearse(LOGIC, LAMP, lambda overlay: View(sources=sources, now=NOW, overlay=overlay))
    assert not course.writes
    assert course.status.conditions[0].reason == KeptReason.NOT_KNOWN
    assert "the webhook failed" in course.status.conditions[0].message


def test_an_owner_keeps_objects_in_its_own_namespace_only() -> None:
    with pytest.raises(ValueError, match="its owner is in its namespace"):
        keep(view(), TEXTS, LAMP, {"metadata": {"namespace": "elsewhere"}})
    nodes = Collection(unstructured(Resource("", "v1", "Node", "nodes", namespaced=False)))
    with pytest.raises(ValueError, match="a Node has no namespace"):
        keep(view(), nodes, LAMP, {})


def test_a_failure_shows_its_reason_and_so_does_one_without_a_reason() -> None:
    step = failed(LAMP, view(), "NameMissing", "there is no name")
    assert step.failure is not None
    assert step.failure.retry is Retry.WHEN_CHANGED
    assert step.status is not None
    assert step.status.conditions[0].reason == "NameMissing"
    assert LOGIC.failed(LAMP, Failure(message="no")).conditions[0].reason == KeptReason.REFUSED
    assert LOGIC.unexpected(LAMP, "no").conditions[0].reason == KeptReason.UNEXPECTED
