"""Questions to a real Prometheus, and to a double where an answer has to be large."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cluster.cap.version.metrics import metrics
from tests.prometheus import prometheus

from stellwerk.local.host.ports import HOST, free_port
from stellwerk.operators.cap.version.monitoring import Answer
from stellwerk.operators.cap.version.prometheus import PrometheusFailed, PrometheusUnreachable, connected


async def test_scalars_and_vectors_are_understood_and_a_refused_query_names_the_cause(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text("groups: []\n")
    async with prometheus(tmp_path, (), rules) as server, connected(f"http://{server.address}/") as ask:
        assert await ask("scalar(vector(1))") == Answer(is_scalar=True, values=(1.0,))
        assert await ask("sum(vector(0.5))") == Answer(is_scalar=False, values=(0.5,))
        assert await ask("sum(nothing)") == Answer(is_scalar=False, values=())
        with pytest.raises(PrometheusFailed, match=r"Prometheus refuses the query: .*parse error"):
            await ask("up{")
        with pytest.raises(PrometheusFailed, match="neither a scalar nor a vector"):
            await ask('"text"')


async def test_a_server_that_is_not_there_is_reported() -> None:
    async with connected(f"http://{HOST}:{free_port()}") as ask:
        with pytest.raises(PrometheusUnreachable, match="Prometheus does not answer"):
            await ask("up")


async def test_an_answer_that_comes_in_many_pieces_is_read_to_its_end() -> None:
    async with metrics() as server, connected(server.address) as ask:
        server.samples = [0.5] * 10_000
        assert await ask("current_sessions") == Answer(is_scalar=False, values=(0.5,) * 10_000)


async def test_an_answer_of_more_than_a_mebibyte_is_an_error() -> None:
    async with metrics() as server, connected(server.address) as ask:
        server.samples = [0.5] * 40_000
        with pytest.raises(PrometheusFailed, match="the answer has more than 1024 KiB"):
            await ask("current_sessions")


@pytest.mark.req("R-917")
async def test_a_query_names_how_long_it_may_take_and_how_many_series_may_answer() -> None:
    async with metrics() as server, connected(server.address) as ask:
        await ask("current_sessions")
        assert server.limits == {"timeout": "10s", "limit": "10000"}
