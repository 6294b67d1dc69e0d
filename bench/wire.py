"""What our client costs: forced server-side applies against the least that aiohttp can do, in the same run.

Both send the same bytes to the same API server, 32 at a time, in turns. The bare loop has its URLs, headers and bodies
made beforehand and throws the answers away; our client encodes, decodes, checks and reports. What is printed are
applies per second and milliseconds of CPU of this process for one apply; only the ratios mean something elsewhere.

    python -m bench.wire [--rounds 10] [--applies 1000]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import aiohttp
import uvloop
from bench.measuring import own_cluster, seconds, together

from stellwerk.api.core import ConfigMap, Namespace
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import JsonObject, encode_json
from stellwerk.local.components import Options

NAMESPACE = "wire"
OBJECTS = 500


@dataclass(frozen=True, slots=True)
class Figure:
    """One round."""

    per_second: float
    cpu_milliseconds: float


def config_map(number: int, turn: int) -> JsonObject:
    """A small object that differs from turn to turn, so that the server has something to write."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"small-{number % OBJECTS}", "namespace": NAMESPACE, "labels": {"bench": "wire"}},
        "data": {"turn": str(turn), "number": str(number)},
    }


async def measured(count: int, apply: Callable[[int], Awaitable[None]]) -> Figure:
    """Apply `count` objects, 32 at a time."""
    cpu = time.process_time()
    taken = await seconds(lambda: together(range(count), apply))
    return Figure(count / taken, (time.process_time() - cpu) / count * 1_000)


async def bare(config: ClusterConfig, count: int, turn: int) -> Figure:
    """aiohttp and nothing else."""
    root = f"{config.server}/api/v1/namespaces/{NAMESPACE}/configmaps"
    urls = [f"{root}/small-{number % OBJECTS}?fieldManager=bench&force=true" for number in range(count)]
    bodies = [encode_json(config_map(number, turn)) for number in range(count)]
    headers = {"Content-Type": "application/apply-patch+yaml", "Accept": "application/json"}
    connector = aiohttp.TCPConnector(ssl=config.ssl_context() or False, limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def apply(number: int) -> None:
            async with session.patch(urls[number], data=bodies[number], headers=headers) as response:
                await response.read()
                assert response.status < 300, response.status

        return await measured(count, apply)


async def ours(config: ClusterConfig, count: int, turn: int) -> Figure:
    """The product's client, with everything on."""
    objects = [config_map(number, turn) for number in range(count)]
    seen = 0

    def note(_: object) -> None:
        nonlocal seen
        seen += 1

    async with Client.connect(config, field_manager="bench", on_request=note, before_write=lambda: None) as client:

        async def apply(number: int) -> None:
            await client.apply(ConfigMap, objects[number])

        figure = await measured(count, apply)
    assert seen == count, "no request was repeated, none went unreported"
    return figure


async def run(config: ClusterConfig, rounds: int, count: int) -> None:
    """All rounds, and what they come to."""
    async with Client.connect(config) as client:
        await client.apply(Namespace, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    await bare(config, OBJECTS, -1)  # the objects exist and the server is warm before anything counts
    bare_figures: list[Figure] = []
    our_figures: list[Figure] = []
    for turn in range(rounds):
        bare_figures.append(await bare(config, count, 2 * turn))
        our_figures.append(await ours(config, count, 2 * turn + 1))
        print(f"round {turn + 1}: bare {_text(bare_figures[-1:])}   ours {_text(our_figures[-1:])}")
    print(f"median:  bare {_text(bare_figures)}   ours {_text(our_figures)}")
    pairs = list(zip(our_figures, bare_figures, strict=True))
    rate = statistics.median(mine.per_second / least.per_second for mine, least in pairs)
    cost = statistics.median(mine.cpu_milliseconds / least.cpu_milliseconds for mine, least in pairs)
    print(f"ours to bare, median of the pairs: rate {rate:.2f}, CPU {cost:.2f}")


def _rate(figures: Sequence[Figure]) -> float:
    return statistics.median(figure.per_second for figure in figures)


def _cpu(figures: Sequence[Figure]) -> float:
    return statistics.median(figure.cpu_milliseconds for figure in figures)


def _text(figures: Sequence[Figure]) -> str:
    return f"{_rate(figures):5.0f}/s {_cpu(figures):.3f} ms"


def main() -> None:
    """Start a cluster of its own, measure, take it down."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--applies", type=int, default=1_000)
    chosen = parser.parse_args()
    with own_cluster("bench-wire", Options(controllers=False, pods=False, durable=False)) as cluster:
        uvloop.run(run(ClusterConfig.load(cluster.kubeconfig), chosen.rounds, chosen.applies))


if __name__ == "__main__":
    main()
