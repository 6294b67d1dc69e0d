"""Questions about another cluster are apart from those about the operator's own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from stellwerk.api.core import ConfigMap
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey
from stellwerk.kube.types.object_meta import ObjectMeta, Record
from stellwerk.runtime.cache.remote_clusters import Kubeconfig
from stellwerk.runtime.control.executor import Uncovered, rehearse
from stellwerk.runtime.control.step import Create, Failure, Step, Wait
from stellwerk.runtime.reading.known import ABSENT, NotKnown, Present
from stellwerk.runtime.reading.loads import PlainLoads, SecretData
from stellwerk.runtime.reading.questions import Collection, PlainSource
from stellwerk.runtime.reading.view import REOPENED_AFTER, Overlay, PlainClusters, PlainSources, View

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MAPS = Collection(ConfigMap)
KEY = ObjectKey("here", "one")
FAR = Kubeconfig(ObjectKey("here", "login"), b"far")
NEAR = Kubeconfig(ObjectKey("here", "login"), b"near")
LOAD = SecretData(ObjectKey("here", "login"), "1")


def a_map(power: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name="one", namespace="here", uid="1"), data={"power": power})


def sources(*maps: ConfigMap) -> PlainSources:
    return PlainSources().add(MAPS, PlainSource(maps))


def a_view(overlay: Overlay | None = None) -> View:
    """At home there is a map that is off, in the other cluster one that is on."""
    return View(
        sources=sources(a_map("off")),
        now=NOW,
        overlay=overlay or Overlay(),
        clusters=PlainClusters({FAR: sources(a_map("on"))}),
        loads=PlainLoads({LOAD: "loaded"}),
    )


def test_each_cluster_answers_for_itself() -> None:
    view = a_view()
    found, far = view.find(MAPS, KEY), view.on(FAR).find(MAPS, KEY)
    assert found is not None
    assert far is not None
    assert (found.data["power"], far.data["power"]) == ("off", "on")
    assert view.on(FAR) is view.on(FAR)
    assert len(view.asked) == 3, "questions about the other cluster wake as well, and whether it is of use"


def test_what_was_written_is_laid_over_its_own_cluster() -> None:
    overlay = Overlay()
    overlay.on(FAR).put(MAPS, a_map("broken"))
    view = a_view(overlay)
    found, far = view.find(MAPS, KEY), view.on(FAR).find(MAPS, KEY)
    assert found is not None
    assert far is not None
    assert (found.data["power"], far.data["power"]) == ("off", "broken")


def test_a_cluster_that_cannot_be_opened_is_tried_again_after_a_minute() -> None:
    view = a_view()
    with pytest.raises(NotKnown, match="Secret here/login"):
        view.on(NEAR)
    assert view.due == NOW + REOPENED_AFTER
    assert view.is_abroad


def test_deadlines_and_loads_are_those_of_the_pass() -> None:
    view = a_view()
    far = view.on(FAR)
    assert not far.is_past(NOW + timedelta(seconds=5))
    assert view.due == NOW + timedelta(seconds=5)
    assert far.load(LOAD) == view.load(LOAD)


def test_an_object_has_one_other_cluster() -> None:
    view = a_view()
    view.on(FAR)
    with pytest.raises(AssertionError, match="one other cluster"):
        view.on(NEAR)
    with pytest.raises(AssertionError, match="this is another cluster"):
        view.on(FAR).on(NEAR)


class _Logic:
    """An object that waits for one in another cluster, and asks for it there or at home."""

    collection = MAPS

    def __init__(self, cluster: Kubeconfig | None) -> None:
        self.cluster = cluster

    def decide(self, obj: ConfigMap, view: View) -> Step[Record]:
        view.find(MAPS, KEY)
        view.on(FAR)
        if self.cluster is not None:
            view.on(FAR).find(MAPS, KEY)
        return Step(waits=(Wait((MAPS, KEY), "waiting", cluster=FAR),))

    def unknown(self, obj: ConfigMap, view: View, missing: NotKnown) -> Step[Record]:
        return Step()

    def failed(self, obj: ConfigMap, failure: Failure) -> Record:
        return Record()

    def unexpected(self, obj: ConfigMap, message: str) -> Record:
        return Record()


class _Asking(ConfigMap, frozen=True, kw_only=True):
    status: Record | None = None


def test_a_wait_is_covered_by_a_question_about_its_own_cluster_alone() -> None:
    subject = _Asking(metadata=ObjectMeta(name="asking", namespace="here", uid="2"))
    assert rehearse(_Logic(FAR), subject, a_view).steps
    with pytest.raises(Uncovered, match="did not ask for it"):
        rehearse(_Logic(None), subject, a_view)


def test_a_rehearsed_write_is_seen_in_its_own_cluster_alone() -> None:
    other = ObjectKey("here", "new")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new", "namespace": "here"}}
    overlay = Overlay()
    Create(MAPS, {**body}, lambda message, _: Failure(message=message), FAR).rehearse(overlay, NOW)  # type: ignore[dict-item]
    view = a_view(overlay)
    assert view.find(MAPS, other) is None
    assert view.on(FAR).find(MAPS, other) is not None


def test_a_cluster_that_is_of_no_use_is_not_looked_at_and_wakes_when_it_is() -> None:
    far = PlainSources(trouble="it does not answer")
    view = View(sources=PlainSources(), now=NOW, clusters=PlainClusters({FAR: far}))
    with pytest.raises(NotKnown, match="it does not answer"):
        view.on(FAR)
    assert view.asked == [far.state]


def test_kinds_of_kubernetes_need_no_question_and_others_are_found_out() -> None:
    far = PlainSources()
    view = View(sources=PlainSources(), now=NOW, clusters=PlainClusters({FAR: far}))
    asked = len(view.on(FAR).asked)
    found = view.on(FAR).kind(GroupVersionKind("apps", "v1", "Deployment"))
    assert isinstance(found, Present)
    assert (found.value.plural, len(view.asked)) == ("deployments", asked)
    assert view.on(FAR).kind(GroupVersionKind("a.b", "v1", "Kind")) == ABSENT
    assert len(view.asked) == asked + 1
