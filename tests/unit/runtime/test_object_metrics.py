"""Series for each object: what they show, their limit, and that they vanish with their object."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, ClassVar

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import Condition, ObjectMeta, Record
from stellwerk.runtime.telemetry.metrics import Metrics

NOW = datetime(2026, 1, 31, tzinfo=UTC)
OBJECT = {"kind": "Site", "namespace": "shop"}


class SiteSpec(Record, frozen=True, kw_only=True):
    suspend: bool = False


class SiteStatus(Record, frozen=True, kw_only=True):
    conditions: tuple[Condition, ...] = ()


class Site(Kind, frozen=True, kw_only=True):
    resource: ClassVar[Resource] = Resource("toy.example.com", "v1", "Site", "sites", True)
    spec: SiteSpec = SiteSpec()
    status: SiteStatus | None = None


class Page(Kind, frozen=True, kw_only=True):
    resource: ClassVar[Resource] = Resource("toy.example.com", "v1", "Page", "pages", True)


def site(name: str, *conditions: Condition, deleted: bool = False, suspend: bool = False) -> Site:
    metadata = ObjectMeta(name=name, namespace="shop", deletion_timestamp=NOW if deleted else None)
    return Site(metadata=metadata, spec=SiteSpec(suspend=suspend), status=SiteStatus(conditions=conditions))


def condition(type_: str, status: str, reason: str) -> Condition:
    return Condition(type=type_, status=status, reason=reason, last_transition_time=NOW)


READY = condition("Ready", "True", "Published")
NOT_READY = condition("Ready", "False", "SecretMissing")
STALLED = condition("Stalled", "True", "SecretMissing")


class Scrape:
    """The metrics of a process with these objects."""

    def __init__(self, *sites: Site, limit: int = 100) -> None:
        self.sites = [*sites]
        self.metrics = Metrics(object_limit=limit)
        self.metrics.objects.show(Site, lambda: self.sites)

    def series(self, name: str) -> list[tuple[dict[str, str], float]]:
        families = text_string_to_metric_families(self.metrics.exposition().decode())
        return [(each.labels, each.value) for family in families for each in family.samples if each.name == name]


def test_an_object_is_shown_with_its_condition_and_whether_it_is_suspended() -> None:
    scrape = Scrape(site("news", READY), site("blog", NOT_READY, suspend=True), site("new"))
    assert [labels for labels, value in scrape.series("stellwerk_resource_info") if value == 1] == [
        {**OBJECT, "name": "news", "ready": "True", "reason": "Published", "status": "Current", "suspended": "false"},
        {
            **OBJECT,
            "name": "blog",
            "ready": "False",
            "reason": "SecretMissing",
            "status": "InProgress",
            "suspended": "true",
        },
        {**OBJECT, "name": "new", "ready": "Unknown", "reason": "", "status": "InProgress", "suspended": "false"},
    ]
    assert scrape.series("stellwerk_resources") == [
        ({"kind": "Site", "ready": status}, 1) for status in ("True", "False", "Unknown")
    ]


class ModuleStatus(Record, frozen=True, kw_only=True):
    state: str = ""


class Module(Kind, frozen=True, kw_only=True):
    resource: ClassVar[Resource] = Resource("toy.example.com", "v1", "Module", "modules", True)
    status: Annotated[ModuleStatus, msgspec.Meta(description="How it is.")] = ModuleStatus()


@pytest.mark.parametrize(
    ("state", "ready", "status"),
    [
        ("Ready", "True", "Current"),
        ("Unmanaged", "True", "Current"),
        ("Warning", "False", "InProgress"),
        ("Error", "False", "InProgress"),
        ("Processing", "False", "InProgress"),
        ("", "Unknown", "InProgress"),
    ],
)
def test_a_kind_without_the_condition_ready_is_shown_by_its_state(state: str, ready: str, status: str) -> None:
    scrape = Scrape()
    module = Module(metadata=ObjectMeta(name="keda", namespace="shop"), status=ModuleStatus(state=state))
    scrape.metrics.objects.show(Module, lambda: [module])
    ((labels, _),) = scrape.series("stellwerk_resource_info")
    assert (labels["ready"], labels["reason"], labels["status"]) == (ready, state, status)
    assert ({"kind": "Module", "ready": ready}, 1) in scrape.series("stellwerk_resources")


def test_only_an_object_that_is_being_deleted_has_a_deletion_time() -> None:
    scrape = Scrape(site("news", READY), site("blog", READY, deleted=True))
    expected = [({**OBJECT, "name": "blog"}, NOW.timestamp())]
    assert scrape.series("stellwerk_resource_deletion_timestamp_seconds") == expected


def test_only_an_object_that_waits_for_its_user_has_a_stalled_time() -> None:
    reconciling = condition("Reconciling", "True", "Rendering")
    over = msgspec.structs.replace(STALLED, status="False")
    scrape = Scrape(
        site("news", NOT_READY, STALLED), site("blog", NOT_READY, reconciling), site("old", NOT_READY, over)
    )
    expected = [({**OBJECT, "name": "news"}, NOW.timestamp())]
    assert scrape.series("stellwerk_resource_stalled_timestamp_seconds") == expected


def test_the_series_of_an_object_vanish_with_it() -> None:
    scrape = Scrape(site("news", NOT_READY, STALLED, deleted=True))
    assert b'name="news"' in scrape.metrics.exposition()
    scrape.sites.clear()
    assert b'name="news"' not in scrape.metrics.exposition()


@pytest.mark.req("R-707")
def test_beyond_the_limit_objects_are_counted_and_have_no_series() -> None:
    scrape = Scrape(*(site(name, READY) for name in "abcde"), limit=2)
    assert len(scrape.series("stellwerk_resource_info")) == 2
    assert scrape.series("stellwerk_resources_without_series") == [({"kind": "Site"}, 3)]
    assert ({"kind": "Site", "ready": "True"}, 5) in scrape.series("stellwerk_resources")


def test_the_limit_is_of_all_kinds_together_and_zero_switches_the_series_off() -> None:
    class Blog(Site, frozen=True, kw_only=True):
        resource: ClassVar[Resource] = Resource("toy.example.com", "v1", "Blog", "blogs", True)

    scrape = Scrape(site("a"), site("b"), limit=3)
    scrape.metrics.objects.show(Blog, lambda: [site("c"), site("d")])
    assert [labels["name"] for labels, _ in scrape.series("stellwerk_resource_info")] == ["a", "b", "c"]
    off = Scrape(site("a", NOT_READY, STALLED, deleted=True), limit=0)
    assert b'name="a"' not in off.metrics.exposition()
    assert off.series("stellwerk_resources_without_series") == [({"kind": "Site"}, 1)]


def test_a_kind_whose_status_shows_nothing_is_not_shown() -> None:
    class Index(Kind, frozen=True, kw_only=True):
        resource: ClassVar[Resource] = Resource("toy.example.com", "v1", "Index", "indexes", True)
        status: Record = Record()

    scrape = Scrape()
    scrape.metrics.objects.show(Index, lambda: [Index(metadata=ObjectMeta(name="all", namespace="shop"))])
    scrape.metrics.objects.show(Page, lambda: [Page(metadata=ObjectMeta(name="front", namespace="shop"))])
    assert scrape.series("stellwerk_resource_info") == []
    assert {labels["kind"] for labels, _ in scrape.series("stellwerk_resources")} == {"Site"}
