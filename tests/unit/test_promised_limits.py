"""The numbers that are promised for the whole product.

Where a promise can be tried at its real size, it is tried here. The other tests compare a default with its promise, so
that a default that drifts is noticed. They prove no requirement: what each limit does is proved beside it, with a
smaller number or with injected time.
"""

from __future__ import annotations

import inspect
import io

import aiohttp
import pytest

from stellwerk.kube.http import transport
from stellwerk.kube.watch import watch, watch_states
from stellwerk.kube.yaml import UnreadableYaml, read_value
from stellwerk.render.files.limits import LIMITS as ARCHIVE
from stellwerk.render.sources import http as fetching
from stellwerk.render.sources.downloads import Budget
from stellwerk.render.worker.worker import Bounds
from stellwerk.runtime.cache import clusters
from stellwerk.runtime.certificates import store
from stellwerk.runtime.process.leader import Terms
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.serving import webhook
from stellwerk.runtime.serving.http import ListenAddress, Server, ServerLimits
from stellwerk.runtime.serving.http_messages import Request, Response, answer
from stellwerk.runtime.serving.routes import Route

MEBIBYTE = 2**20


def test_a_silent_watch_is_noticed_and_a_stale_cache_told_in_time() -> None:
    assert watch.SILENCE_SECONDS + watch_states.LONGEST_PAUSE_SECONDS <= 75
    assert clusters.STALE_SECONDS == 180


def test_a_leader_stops_writing_before_anybody_may_follow_it() -> None:
    terms = Terms()

    assert (terms.lease_duration_seconds, terms.renew_deadline_seconds, terms.retry_seconds) == (15, 10, 2)
    assert terms.writing_seconds <= terms.lease_duration_seconds / 2


def test_the_passes_under_way_leave_time_to_give_the_lease_back() -> None:
    assert inspect.signature(Manager).parameters["grace_seconds"].default <= 6


def nested(levels: int) -> bytes:
    """Lists in lists."""
    return b"[" * levels + b"]" * levels


@pytest.mark.req("R-402")
@pytest.mark.req("R-410")
def test_yaml_may_be_nested_100_levels_deep() -> None:
    assert read_value(nested(100)) is not None
    with pytest.raises(UnreadableYaml, match="nested deeper than 100 levels"):
        read_value(nested(101))


@pytest.mark.req("R-402")
def test_yaml_may_have_16_mebibytes() -> None:
    most = b"a: " + b"x" * (16 * MEBIBYTE - 3)
    assert read_value(most) is not None
    with pytest.raises(UnreadableYaml, match="16 MiB"):
        read_value(most + b"x")


@pytest.mark.req("R-402")
@pytest.mark.req("R-411")
def test_aliases_may_unfold_to_ten_times_the_text() -> None:
    text = b"a: &a " + b"x" * 100_000 + b"\nb: [" + b"*a, " * 8 + b"]"
    assert read_value(text) is not None
    with pytest.raises(UnreadableYaml, match="unfold to more than"):
        read_value(text[:-1] + b"*a, *a, *a]")


@pytest.mark.req("R-701")
async def test_our_servers_take_a_body_of_a_mebibyte() -> None:
    async def length(request: Request) -> Response:
        return answer({"length": len(request.body)})

    server = Server("test", ListenAddress("127.0.0.1", 0), [Route("POST", "/", length)])
    await server.start()
    url = f"http://127.0.0.1:{server.port}/"
    async with aiohttp.ClientSession() as session:
        for size, status in ((MEBIBYTE, 200), (MEBIBYTE + 1, 413)):
            async with session.post(url, data=io.BytesIO(b"x" * size)) as response:
                assert response.status == status
    await server.stop()


def test_archives_have_their_limits() -> None:
    assert (ARCHIVE.bytes, ARCHIVE.entries, ARCHIVE.ratio) == (100 * 2**20, 10_000, 1_000)


def test_a_template_has_ten_seconds_and_bounded_memory() -> None:
    assert Bounds().seconds == 10
    assert Bounds().memory_bytes <= 2**30


def test_calls_have_their_limits() -> None:
    assert (transport.CONNECT_SECONDS, transport.CALL_SECONDS) == (5, 60)
    assert (Budget().connect_seconds, Budget().total_seconds) == (5, 60)
    assert fetching.MOST_REDIRECTS == 3


def test_a_request_has_ten_seconds_to_arrive() -> None:
    assert ServerLimits().arrival_seconds == 10


def test_webhooks_answer_in_five_seconds_and_renew_before_two_thirds_of_a_life() -> None:
    assert webhook.LIMITS.answer_seconds == 5
    assert webhook.LIMITS.idle_seconds > 90, "for so long an API server keeps an idle connection"
    assert store.RENEW_AT < 2 / 3
