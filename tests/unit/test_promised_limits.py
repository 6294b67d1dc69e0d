"""The numbers that are promised for a whole product, each read where it is in force: a default that drifts is noticed.

What each of them does is proved beside it, mostly with a smaller number.
"""

from __future__ import annotations

import inspect

import pytest

from stellwerk.kube import transport, watch, watch_states
from stellwerk.kube.yaml import DEFAULT_LIMITS
from stellwerk.render import http as fetching
from stellwerk.render.downloads import Budget
from stellwerk.render.limits import LIMITS as ARCHIVE
from stellwerk.render.worker import Bounds
from stellwerk.runtime import clusters, serving, watchdog, webhook
from stellwerk.runtime.controller import Controller
from stellwerk.runtime.http import Limits as Server
from stellwerk.runtime.leader import Terms
from stellwerk.runtime.manager import Manager


@pytest.mark.req("R-202")
def test_a_silent_watch_is_noticed_and_a_stale_cache_told_in_time() -> None:
    assert watch.SILENCE_SECONDS + watch_states.LONGEST_PAUSE_SECONDS <= 75
    assert clusters.STALE_SECONDS == 180


@pytest.mark.req("R-301")
def test_a_leader_stops_writing_before_anybody_may_follow_it() -> None:
    terms = Terms()

    assert (terms.lease_duration_seconds, terms.renew_deadline_seconds, terms.retry_seconds) == (15, 10, 2)
    assert terms.writing_seconds <= terms.lease_duration_seconds / 2


@pytest.mark.req("R-303")
def test_the_passes_under_way_leave_time_to_give_the_lease_back() -> None:
    assert inspect.signature(Manager).parameters["grace_seconds"].default <= 6


@pytest.mark.req("R-304")
def test_a_pass_and_a_stall_have_their_limits() -> None:
    assert inspect.signature(Controller).parameters["pass_timeout_seconds"].default == 300
    assert watchdog.STALL_SECONDS == 0.5


@pytest.mark.req("R-402")
def test_documents_have_their_limits() -> None:
    assert (DEFAULT_LIMITS.bytes, DEFAULT_LIMITS.depth, DEFAULT_LIMITS.expansion) == (16 * 2**20, 100, 10)


@pytest.mark.req("R-403")
def test_archives_have_their_limits() -> None:
    assert (ARCHIVE.bytes, ARCHIVE.entries, ARCHIVE.ratio) == (100 * 2**20, 10_000, 1_000)


@pytest.mark.req("R-404")
def test_a_template_has_ten_seconds_and_bounded_memory() -> None:
    assert Bounds().seconds == 10
    assert Bounds().memory_bytes <= 2**30


@pytest.mark.req("R-602")
def test_calls_have_their_limits() -> None:
    assert (transport.CONNECT_SECONDS, transport.CALL_SECONDS) == (5, 60)
    assert (Budget().connect_seconds, Budget().total_seconds) == (5, 60)
    assert fetching.MOST_REDIRECTS == 3


@pytest.mark.req("R-701")
def test_our_servers_take_a_mebibyte_within_ten_seconds() -> None:
    assert (Server().body_bytes, Server().arrival_seconds) == (2**20, 10)


@pytest.mark.req("R-706")
def test_webhooks_answer_in_five_seconds_and_renew_before_two_thirds_of_a_life() -> None:
    assert webhook.LIMITS.answer_seconds == 5
    assert serving.RENEW_AT < 2 / 3
