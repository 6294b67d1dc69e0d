"""What is sent to a renderer and what comes back may be large; the event loop goes on meanwhile (R-411, R-412)."""

from __future__ import annotations

import pytest
from tests.unit.render.given import request

from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.render.errors import InvalidValues, LimitExceeded
from stellwerk.render.worker import protocol
from stellwerk.render.worker.renderer import MOST_VALUES_BYTES, Renderer
from stellwerk.testing.checks.loop_stalls import LONGEST_STALL_SECONDS, least_stall, measured_stalls

pytestmark = pytest.mark.heavy

MIB = 2**20


@pytest.mark.req("R-412")
async def test_a_file_of_64_mib_is_hashed_and_sent_without_a_stall(renderer: Renderer) -> None:
    content = b"\x00\xff binary " * (64 * MIB // 10)
    files: dict[str, bytes | str] = {"app/large": content, "beside": "it"}
    asked = iter([request({"do": "weigh", "try": number}, files, path="app") for number in range(3)])

    async def render() -> None:
        rendered = await renderer.render(next(asked))
        assert rendered.objects == ({"app/large": -(-len(content) // 3) * 4},)

    assert await least_stall(render) < LONGEST_STALL_SECONDS


SMALL: JsonObject = {"kind": "ConfigMap", "data": {f"key-{number}": "value" for number in range(250)}}
WIDE: JsonObject = {"spec": {"list": [{"a": [number]} for number in range(25_000)], "text": "x" * MIB}}


@pytest.mark.req("R-412")
@pytest.mark.parametrize(("body", "times"), [(SMALL, 5_000), (WIDE, 8)], ids=["objects", "values of one object"])
async def test_a_rendering_of_many_mib_is_read_and_found_again_without_a_stall(
    renderer: Renderer, body: JsonObject, times: int
) -> None:
    asked = request({"do": "multiply", "object": body, "times": times}, weight=2 * MIB)
    with measured_stalls() as stalls:
        rendered = await renderer.render(asked)
    assert rendered.size > 10 * MIB
    assert len(rendered.objects) == times
    assert rendered.objects[-1] == body
    digest = rendered.digest
    del rendered
    with measured_stalls() as again:
        kept = await renderer.render(asked)
    assert (kept.digest, len(kept.objects), renderer.workers_started) == (digest, times, 1)
    assert stalls.longest_seconds < LONGEST_STALL_SECONDS
    assert again.longest_seconds < LONGEST_STALL_SECONDS


@pytest.mark.req("R-411")
def test_a_result_of_more_lists_and_mappings_than_memory_holds_is_refused() -> None:
    def result(*objects: JsonObject) -> bytes:
        return protocol.encoded({"generator": "helm", "objects": objects, "origins": [""] * len(objects)}, "")

    full: JsonObject = {"list": [[]] * (protocol.MOST_CONTAINERS // 2 - 4)}
    text: JsonObject = {"text": "[" * 2 * MIB}
    assert len(protocol.read_result(result(full, full, text)).objects) == 3
    with pytest.raises(LimitExceeded, match="the objects hold more than 500000 lists and mappings"):
        protocol.read_result(result(full, full, text, {"a": {}, "b": {}, "c": {}}))


def test_a_value_that_is_read_in_pieces_is_the_same_value() -> None:
    odd: list[JsonValue] = [{}, [], "", "[", '{"a":', 1.5, None, True, 2**60, {"\u00e9": ["\U0001f600"]}]
    body: JsonObject = {"odd": odd, "text": "y" * MIB, "deep": {"list": [*odd, "x" * MIB]}}
    result = {"generator": "helm", "objects": [body, {}], "origins": ["a", "b"]}
    assert protocol.read_result(protocol.encoded(result, "")).objects == (body, {})


@pytest.mark.req("R-411")
async def test_values_that_share_one_large_value_are_bounded_as_they_are_written(renderer: Renderer) -> None:
    large = "x" * MIB
    most = MOST_VALUES_BYTES // MIB
    await renderer.render(request({"do": "weigh", **{f"key-{number}": large for number in range(most - 1)}}))
    with pytest.raises(InvalidValues, match=r"all sources together: they come to 16385 KiB of JSON; at most 16384 KiB"):
        await renderer.render(request({"do": "weigh", **{f"key-{number}": large for number in range(most)}}))
    assert renderer.workers_started == 1
