"""What each turn of events means for a watch: the state machine without a server."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from stellwerk.kube.client.client import WatchEvent
from stellwerk.kube.types.errors import (
    ApiError,
    Forbidden,
    Gone,
    NotServed,
    Status,
    TooManyRequests,
    Undecodable,
    Unreachable,
)
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import Listing, PartialObjectMetadata, View
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.kube.watch.watch_states import (
    LONGEST_PARKED_SECONDS,
    LONGEST_PAUSE_SECONDS,
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
    assert after(Checking("1000", 1), Checked("999")).state == Unlisted(1)


def test_versions_are_compared_as_numbers() -> None:
    assert after(Checking("999", 1), Checked("1000")).state == Watching("999", 1)


def test_a_forgotten_version_is_listed_anew_at_once_and_then_with_pauses() -> None:
    first = failed(Watching("7"), GONE)
    assert (first.state, first.pause_seconds) == (Unlisted(1), 0)
    again = failed(after(first.state, Listed(Listing([], "8"))).state, GONE)
    assert again.pause_seconds > 0


def test_an_error_event_means_what_its_status_says() -> None:
    expired = WatchEvent("ERROR", Status(code=410, reason="Expired"))
    assert after(Watching("7"), expired).state == Unlisted(1)
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


def test_a_wait_that_the_server_asks_for_is_kept() -> None:
    seen = failed(Watching("7"), TooManyRequests(Status(code=429), retry_after=30))
    assert seen.pause_seconds == 30


def test_pauses_grow_to_a_limit() -> None:
    pauses = [pause_after(failures) for failures in range(200)]
    assert pauses[0] == 0
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_PAUSE_SECONDS
    assert pause_after(10_000, LONGEST_PARKED_SECONDS) == LONGEST_PARKED_SECONDS


errors = some.sampled_from([CUT, GONE, NotServed("none"), Forbidden(Status(code=403)), Undecodable("what?")])
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
