"""What each turn of events means for a watch: the state machine without a server."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from stellwerk.kube.client.client import WatchEvent
from stellwerk.kube.types.errors import (
    ApiError,
    Forbidden,
    Gone,
    LoginFailed,
    NotServed,
    ServerFault,
    ServerTimeout,
    Status,
    TooManyRequests,
    Unauthorized,
    Undecodable,
    Unexplained,
    Unreachable,
)
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import Listing, PartialObjectMetadata, View
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.kube.watch.watch_states import (
    LONGEST_PARKED_SECONDS,
    LONGEST_PAUSE_SECONDS,
    SUSPENDED_AFTER_SECONDS,
    Bookmark,
    Changed,
    Checked,
    Checking,
    Ended,
    Failed,
    Input,
    Listed,
    Removed,
    State,
    Synced,
    Unlisted,
    Watching,
    WatchStep,
    WatchSuspended,
    pause_after,
    step,
)

VIEW = View(Resource("example.com", "v1", "Lamp", "lamps", namespaced=True), PartialObjectMetadata)
CUT = Unreachable("the connection was cut")
GONE = Gone(Status(code=410, reason="Expired"))
UNAVAILABLE = ServerFault(Status(code=503, message="service unavailable"), "list lamps")
WEBHOOK_DOWN = ServerFault(Status(code=500, message="conversion webhook for lamps failed"), "list lamps")


def lamp(version: str, name: str = "one") -> PartialObjectMetadata:
    return PartialObjectMetadata(metadata=ObjectMeta(name=name, namespace="hall", resource_version=version))


def after(state: State, seen: Input[PartialObjectMetadata]) -> WatchStep[PartialObjectMetadata]:
    return step(state, seen, VIEW, "hall")


def failed(state: State, error: ApiError) -> WatchStep[PartialObjectMetadata]:
    return after(state, Failed(error))


def test_a_list_is_told_whole_and_watched_from_its_version() -> None:
    seen = after(Unlisted(), Listed(Listing([lamp("4")], "7")))
    assert (seen.state, seen.change, seen.pause_seconds) == (Watching("7"), Synced((lamp("4"),), "7"), 0)


def test_every_event_moves_the_version_on() -> None:
    for kind, change in (
        ("ADDED", Changed(lamp("8"))),
        ("MODIFIED", Changed(lamp("8"))),
        ("DELETED", Removed(lamp("8"))),
    ):
        seen = after(Watching("7", failures=3), WatchEvent(kind, lamp("8")))
        assert (seen.state, seen.change, seen.goes_on) == (Watching("8"), change, True)
    seen = after(Watching("7"), WatchEvent("BOOKMARK", lamp("9", "")))
    assert (seen.state, seen.change, seen.goes_on) == (Watching("9"), Bookmark("9"), True)


@pytest.mark.req("R-103")
def test_a_late_event_does_not_move_the_version_back() -> None:
    assert after(Watching("10"), WatchEvent("MODIFIED", lamp("9"))).state == Watching("10")
    assert after(Watching("10"), WatchEvent("MODIFIED", lamp("other"))).state == Watching("other"), "no order is known"


@pytest.mark.req("R-413")
def test_a_version_of_thousands_of_digits_is_no_older_one() -> None:
    assert after(Checking("9" * 5_000), Checked("8" * 5_000)).state == Watching("9" * 5_000)


def test_an_orderly_end_goes_on_at_once_and_a_useless_one_after_a_pause() -> None:
    assert after(Watching("7", 2), Ended(useful=True)) == WatchStep(Watching("7", 0))
    useless = after(Watching("7", 2), Ended(useful=False))
    assert useless.state == Watching("7", 3)
    assert useless.pause_seconds > 0


def test_a_cut_keeps_the_version_and_checks_it_first() -> None:
    cut = failed(Watching("7"), CUT)
    assert cut.state == Checking("7", 1)
    assert after(cut.state, Checked("7")).state == Watching("7", 1)
    assert after(cut.state, Checked("1000")).state == Watching("7", 1)


def test_a_server_that_is_older_than_we_are_is_listed_anew() -> None:
    assert after(Checking("1000", 1), Checked("999")).state == Unlisted(1, was_listed=True)


def test_versions_are_compared_as_numbers() -> None:
    assert after(Checking("999", 1), Checked("1000")).state == Watching("999", 1)


def test_a_forgotten_version_is_listed_anew_at_once_and_then_with_pauses() -> None:
    first = failed(Watching("7"), GONE)
    assert (first.state, first.pause_seconds) == (Unlisted(1, was_listed=True), 0)
    again = failed(after(first.state, Listed(Listing([], "8"))).state, GONE)
    assert again.pause_seconds > 0


def test_an_error_event_means_what_its_status_says() -> None:
    expired = WatchEvent("ERROR", Status(code=410, reason="Expired"))
    assert after(Watching("7"), expired).state == Unlisted(1, was_listed=True)
    assert after(Watching("7"), WatchEvent("ERROR", Status(code=500))).state == Checking("7", 1)


def test_a_kind_that_cannot_be_watched_is_told_once_until_the_reason_changes() -> None:
    unserved = failed(Watching("7"), NotServed("no such kind"))
    assert isinstance(unserved.change, WatchSuspended)
    again = failed(unserved.state, NotServed("no such kind, said otherwise"))
    assert again.change is None
    forbidden = failed(again.state, Forbidden(Status(code=403)))
    assert forbidden.change == WatchSuspended(
        "not permitted to list and watch lamps.example.com in namespace hall", True
    )


def test_an_outage_while_parked_does_not_make_the_reason_new() -> None:
    parked = failed(Unlisted(), NotServed("no such kind"))
    assert failed(failed(parked.state, CUT).state, NotServed("no such kind")).change is None


def test_what_cannot_be_read_parks_with_the_place() -> None:
    seen = failed(Unlisted(), Undecodable("cannot list lamps in hall: expected `int` at `$.items[3].spec`"))
    assert seen.change == WatchSuspended("cannot list lamps in hall: expected `int` at `$.items[3].spec`")


def refused(state: State, error: ApiError, times: int = 60) -> list[WatchStep[PartialObjectMetadata]]:
    """What follows from so many failures in a row, each after a second."""
    steps: list[WatchStep[PartialObjectMetadata]] = []
    for _ in range(times):
        steps.append(after(state, Failed(error, seconds=1.0)))
        state = steps[-1].state
    return steps


@pytest.mark.req("R-207")
def test_a_kind_that_the_server_refuses_to_list_is_suspended_once_after_some_seconds_and_tried_on() -> None:
    steps = refused(Unlisted(), WEBHOOK_DOWN)
    suspended = [number for number, taken in enumerate(steps) if taken.change is not None]
    assert len(suspended) == 1, "what is reported is steady"
    assert steps[suspended[0]].change == WatchSuspended("cannot list lamps: conversion webhook for lamps failed")
    waited = sum(1.0 + taken.pause_seconds for taken in steps[: suspended[0] + 1])
    assert SUSPENDED_AFTER_SECONDS <= waited < SUSPENDED_AFTER_SECONDS + 6
    assert steps[-1].pause_seconds == LONGEST_PAUSE_SECONDS


@pytest.mark.req("R-207")
def test_an_api_service_that_stays_unavailable_suspends_its_kinds_after_a_minute() -> None:
    steps = refused(Unlisted(), UNAVAILABLE, times=100)
    suspended = next(number for number, taken in enumerate(steps) if taken.change is not None)
    waited = sum(1.0 + taken.pause_seconds for taken in steps[: suspended + 1])
    assert 60 <= waited < 66


@pytest.mark.req("R-207")
@pytest.mark.parametrize("wait", [None, 1.0, 3_600.0])
def test_a_wait_that_the_server_asks_for_is_no_refusal_of_a_kind(wait: float | None) -> None:
    busy = TooManyRequests(Status(code=429), "list lamps", retry_after=wait)
    assert all(taken.change is None for taken in refused(Unlisted(), busy))
    unavailable = ServerFault(Status(code=503), "list lamps", retry_after=wait)
    assert all(taken.change is None for taken in refused(Unlisted(), unavailable, times=10))


@pytest.mark.req("R-207")
@pytest.mark.parametrize("error", [WEBHOOK_DOWN, UNAVAILABLE])
@pytest.mark.parametrize("state", [Watching("7"), Checking("7", 2)])
def test_a_kind_that_was_listed_is_not_suspended_by_a_server_that_fails(state: State, error: ApiError) -> None:
    relisting = failed(state, GONE)
    assert all(taken.change is None for taken in [relisting, *refused(relisting.state, error, times=200)])


@pytest.mark.req("R-207")
def test_a_kind_that_comes_to_be_served_with_a_failing_webhook_no_longer_counts_as_absent() -> None:
    absent = failed(Unlisted(), NotServed("no such kind"))
    assert isinstance(absent.change, WatchSuspended)
    assert absent.change.is_not_served
    changes = [taken.change for taken in refused(absent.state, WEBHOOK_DOWN) if taken.change is not None]
    assert changes == [WatchSuspended(str(WEBHOOK_DOWN), is_forbidden=False, is_not_served=False)]


def test_a_list_ends_the_suspension_and_the_next_one_takes_as_long_again() -> None:
    listed = after(refused(Unlisted(), WEBHOOK_DOWN)[-1].state, Listed(Listing([], "8")))
    assert isinstance(listed.change, Synced)
    gone = failed(listed.state, GONE)
    assert gone.change is None
    assert failed(gone.state, WEBHOOK_DOWN).change is None


@pytest.mark.parametrize(
    "error",
    [
        CUT,
        LoginFailed("no token"),
        Unauthorized(Status(code=401)),
        ServerTimeout(Status(code=504, message="etcd request timed out")),
        ServerFault(Status(code=500, reason="ServerTimeout")),
        Unexplained(Status(code=404)),
    ],
)
def test_a_failure_that_is_not_about_one_kind_suspends_none(error: ApiError) -> None:
    assert all(taken.change is None for taken in refused(Unlisted(), error, times=200))


def test_a_watch_that_fails_while_its_version_can_be_checked_is_not_suspended() -> None:
    assert all(taken.change is None for taken in refused(Watching("7"), WEBHOOK_DOWN))


def test_a_wait_that_the_server_asks_for_is_kept() -> None:
    seen = failed(Watching("7"), TooManyRequests(Status(code=429), retry_after=30))
    assert seen.pause_seconds == 30
    assert [seen.jittered_seconds(chance) for chance in (0.0, 1.0)] == [30, 37.5]
    own = failed(Watching("7", 9), CUT)
    assert [own.jittered_seconds(chance) for chance in (0.0, 1.0)] == [3, 5]


def test_pauses_grow_to_a_limit() -> None:
    pauses = [pause_after(failures) for failures in range(200)]
    assert pauses[0] == 0
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_PAUSE_SECONDS
    assert pause_after(10_000, LONGEST_PARKED_SECONDS) == LONGEST_PARKED_SECONDS


errors = some.sampled_from(
    [CUT, GONE, WEBHOOK_DOWN, NotServed("none"), Forbidden(Status(code=403)), Undecodable("what?")]
)
states = some.sampled_from([Unlisted(), Unlisted(3, "none"), Watching("7"), Watching("7", 9), Checking("7", 2)])


@given(states, some.lists(errors, min_size=2, max_size=30))
def test_no_run_of_failures_is_answered_without_pauses(state: State, run: list[ApiError]) -> None:
    pauses: list[float] = []
    for error in run:
        taken = failed(state, error)
        pauses.append(taken.pause_seconds)
        assert 0 <= taken.pause_seconds <= LONGEST_PARKED_SECONDS
        state = taken.state
    assert all(pause > 0 for pause in pauses[1:])
