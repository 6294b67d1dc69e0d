"""Results are kept for all tenants: none of them can make the renderer forget those of the others."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.promptly import promptly
from tests.unit.render.given import request

from stellwerk.render.errors import RendererBroken, WrongDigest
from stellwerk.render.files.digests import Verifier
from stellwerk.render.request.request import ReleaseInfo, Rendered
from stellwerk.render.worker import protocol
from stellwerk.render.worker.render_cache import Context, Key, Results


def result(number: int, size: int) -> protocol.Result:
    """A result that does not pack well."""
    noise = random.Random(number).randbytes(size // 2).hex()
    body = {"generator": "helm", "objects": [{"noise": noise}], "origins": ["a"], "uses": []}
    return protocol.Result(json.dumps(body).encode(), frozenset())


@pytest.mark.req("R-411")
async def test_the_results_of_one_tenant_leave_those_of_others() -> None:
    results = Results(100_000, now=lambda: 0.0)
    context = Context(request())
    await results.put(Key(b"victim"), context, result(0, 2_000), "victim")
    for number in range(1, 200):
        await results.put(Key(b"%d" % number), context, result(number, 8_000), "flood")
    assert await results.find(Key(b"victim"), context) is not None
    assert await results.find(Key(b"199"), context) is not None
    assert results.weight <= 60_000


async def test_an_equal_result_is_found_again_as_long_as_it_is_held() -> None:
    results = Results(100_000, now=lambda: 0.0)
    context = Context(request())
    kept: Rendered = await results.put(Key(b"one"), context, result(1, 100), "a")
    assert await results.find(Key(b"one"), context) is kept
    results.clear()
    assert await results.find(Key(b"one"), context) is None


@pytest.mark.req("R-411")
async def test_of_results_that_asked_the_cluster_and_chance_only_the_last_of_a_component_is_kept() -> None:
    results = Results(100_000, now=lambda: 0.0)
    context = Context(request())
    made = [
        dataclasses.replace(result(number, 2_000), uses=frozenset({"chance", "lookup"}), answers=b"%d" % number)
        for number in range(50)
    ]
    for one in made:
        await results.put(Key(b"one"), context, one, "a")
    assert 1_000 < results.weight < 3_000
    assert await results.find(Key(b"one"), context) is None


@pytest.mark.req("R-108")
@pytest.mark.parametrize(("uses", "is_bounded"), [({"clock"}, True), (set[str](), False)])
async def test_a_result_that_asked_the_cluster_and_the_clock_is_used_for_a_day_after_it_was_made(
    uses: set[str], is_bounded: bool
) -> None:
    hours = 0.0
    results = Results(100_000, now=lambda: hours * 3600)
    context = Context(request())

    async def rendered(number: int) -> Rendered:
        new = dataclasses.replace(result(number, 100), uses=frozenset({"chance", "lookup", *uses}), answers=b"same")
        return await results.put(Key(b"one"), context, new)

    first = await rendered(0)
    for number in range(1, 48):
        hours = number / 2
        assert await rendered(number) is first
    hours = 24.0
    second = await rendered(48)
    assert (second is not first) == is_bounded
    hours = 24.5
    assert await rendered(49) is second


@pytest.mark.parametrize("uses", [{"chance", "lookup"}, {"lookup"}], ids=["random", "read"])
async def test_a_result_is_forgotten_once_another_revision_or_other_files_got_other_answers(uses: set[str]) -> None:
    results = Results(100_000, now=lambda: 0.0)

    async def rendered(number: int, revision: int, answers: bytes, *, uses: set[str]) -> Rendered:
        context = Context(request(release=ReleaseInfo("app", "default", revision=revision)))
        new = dataclasses.replace(result(number, 100), uses=frozenset({*uses, "revision"}), answers=answers)
        return await results.put(Key(b"%d" % revision), context, new)

    random_values = {"chance", "lookup"}
    first = await rendered(1, 1, b"absent", uses=random_values)
    assert await rendered(2, 1, b"absent", uses=random_values) is first
    await rendered(3, 2, b"there", uses=uses)
    assert await rendered(4, 1, b"absent", uses=random_values) is not first


async def test_a_result_that_read_the_clock_and_asked_nothing_is_found_again() -> None:
    results = Results(100_000, now=lambda: 0.0)
    context = Context(request())
    new = dataclasses.replace(result(1, 100), uses=frozenset({"chance", "clock"}))
    kept = await results.put(Key(b"one"), context, new)
    assert await results.find(Key(b"one"), context) is kept


@pytest.mark.req("R-401")
@given(st.one_of(st.binary(max_size=200), st.text('{}[]:,"abjectsorigin0', max_size=60).map(str.encode)))
@promptly
def test_any_bytes_are_a_result_or_an_error_of_ours(content: bytes) -> None:
    with contextlib.suppress(RendererBroken):
        assert isinstance(protocol.read_result(content), Rendered)


@pytest.mark.req("R-401")
@given(
    st.one_of(st.text(max_size=80), st.from_regex(r"(sha256|sha1|SHA512|md5)?:?[0-9a-zA-Z:=]{0,140}", fullmatch=True))
)
@promptly
def test_any_text_is_a_digest_or_refused_and_content_that_differs_never_passes(promised: str) -> None:
    try:
        verifier = Verifier(promised)
    except WrongDigest:
        return
    verifier.update(b"content")
    if verifier.verifies:
        with pytest.raises(WrongDigest):
            verifier.finish()
