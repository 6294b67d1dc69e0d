"""When a Kyma is purged, in a world of values."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.unit.kyma.kyma.worlds import PREFIX, a_kyma

from stellwerk.kube.types.model import PartialObjectMetadata
from stellwerk.operators.kyma.api import Kyma
from stellwerk.operators.kyma.collections import ACCESS_SECRETS
from stellwerk.operators.kyma.kyma.deletion import own_finalizers
from stellwerk.operators.kyma.kyma.purge import PurgeLogic, PurgeMetrics, failed
from stellwerk.operators.kyma.settings import Settings
from stellwerk.runtime.control.executor import next_step
from stellwerk.runtime.control.step import Patch, RemoveFinalizer, Write
from stellwerk.runtime.reading.questions import PlainSource
from stellwerk.runtime.reading.view import PlainSources, View
from stellwerk.runtime.telemetry.metrics import Metrics

NOW = datetime(2026, 1, 1, 1, tzinfo=UTC)
OURS, PURGE = f"{PREFIX}/Kyma", f"{PREFIX}/purge-finalizer"
SETTINGS = Settings(enable_purge_finalizer=True, purge_finalizer_timeout=timedelta(minutes=5))


def step(kyma: Kyma) -> tuple[tuple[Write, ...], View]:
    sources = PlainSources().add(ACCESS_SECRETS, PlainSource[PartialObjectMetadata]())
    view = View(sources=sources, now=NOW, settings=(SETTINGS, PurgeMetrics(Metrics(object_limit=1))))
    return next_step(PurgeLogic(), kyma, view).writes, view


def leaving(minutes: float, *finalizers: str) -> Kyma:
    deleted = (NOW - timedelta(minutes=minutes)).isoformat()
    return a_kyma(deletionTimestamp=deleted, finalizers=[*finalizers])


def test_a_kyma_that_lives_gets_the_finalizer_beside_those_of_others() -> None:
    (write,), _ = step(a_kyma(finalizers=["x/y"]))
    assert isinstance(write, Patch)
    assert write.fields == {"metadata": {"finalizers": ["x/y", PURGE]}}
    assert step(a_kyma(finalizers=[PURGE]))[0] == ()


def test_a_kyma_that_is_left_alone_or_is_being_deleted_gets_none() -> None:
    assert step(a_kyma(labels={f"{PREFIX}/skip-reconciliation": "true"}))[0] == ()
    assert step(leaving(10, OURS))[0] == ()


def test_nothing_is_purged_before_its_time_which_wakes_the_kyma() -> None:
    writes, view = step(leaving(4, PURGE))
    assert writes == ()
    assert view.due == NOW + timedelta(minutes=1)


def test_without_an_access_secret_only_the_finalizer_goes() -> None:
    assert step(leaving(6, PURGE))[0] == (RemoveFinalizer(PURGE),)


def test_what_could_not_be_purged_is_named_with_the_command_that_lists_it() -> None:
    assert failed([("as.x.org", "forbidden"), ("bs", "refused")]) == (
        "finalizers could not be removed: as.x.org: forbidden; bs: refused; "
        "see what is left, in the remote cluster: kubectl get as.x.org,bs -A"
    )
    many = failed([(f"{letter}s", "no") for letter in "abcde"])
    assert "cs: no, and 2 more; " in many
    assert many.endswith(": kubectl get as,bs,cs -A")


def test_the_deletion_leaves_the_finalizer_to_the_purge_only_if_there_is_one() -> None:
    kyma = leaving(1, OURS, PURGE)
    assert own_finalizers(kyma) == (OURS, PURGE)
    assert own_finalizers(kyma, is_purged=True) == (OURS,)
