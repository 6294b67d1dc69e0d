"""What a Component refers to is bounded in sum, read once, and computed without blocking the event loop."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.component.given import component

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, JsonValue, dig
from stellwerk.operators.component.api import Component
from stellwerk.operators.component.api_spec import ReferenceKind
from stellwerk.operators.component.errors import InputsTooLarge, InvalidSpec
from stellwerk.operators.component.references import digests, references
from stellwerk.operators.component.references.inputs import Inputs, layers_of
from stellwerk.operators.component.references.references import (
    MOST_BYTES,
    NamedText,
    ReferencedContent,
    ReferencedObject,
    Resolved,
)
from stellwerk.render.errors import InvalidValues
from stellwerk.render.request import values
from stellwerk.render.request.values import Layer
from stellwerk.testing.checks.loop_stalls import LONGEST_STALL_SECONDS, measured_stalls
from stellwerk.testing.clock import FakeClock

pytestmark = pytest.mark.heavy

MIB = 2**20


def naming(*names: str, key: str = "") -> Component:
    """A Component with values from these Secrets."""
    listed: list[JsonValue] = [{"kind": "Secret", "name": name, **({"key": key} if key else {})} for name in names]
    return component(spec={"valuesFrom": listed})


def found(**contents: bytes) -> dict[ReferencedObject, ReferencedContent | references.UnreadReference]:
    return {
        ReferencedObject(ReferenceKind.Secret, ObjectKey("shop", name)): ReferencedContent({"values": content})
        for name, content in contents.items()
    }


def many_values(size: int) -> bytes:
    """YAML that takes the longest to read: very many short values."""
    lines = [f"key-{number:06}: {{a: [a, {number % 10}]}}\n" for number in range(size // 32)]
    return "".join(lines)[:size].rpartition("\n")[0].encode()


async def merged(inputs: Inputs, one: Component, resolved: Resolved) -> JsonObject:
    def make(layers: list[Layer]) -> JsonObject:
        return values.merge(layers)

    return await inputs.request(one, resolved, make)


async def settled(
    inputs: Inputs, one: Component, contents: dict[ReferencedObject, ReferencedContent | references.UnreadReference]
) -> Resolved:
    return await inputs.settled(one, references.find(one), contents)


@pytest.mark.req("R-412")
async def test_a_mib_of_values_does_not_block_the_loop_and_is_read_once() -> None:
    inputs, one, contents = Inputs(FakeClock()), naming("a"), found(a=many_values(MIB))
    with measured_stalls() as stalls:
        first = await merged(inputs, one, await settled(inputs, one, contents))
    with measured_stalls() as again:
        second = await merged(inputs, one, await settled(inputs, one, contents))
    assert len(first) > 20_000
    assert first == second
    assert stalls.longest_seconds < LONGEST_STALL_SECONDS
    assert again.longest_seconds < LONGEST_STALL_SECONDS
    assert dig(first, "key-000001", "a") is dig(second, "key-000001", "a"), "kept, and not read again"


@pytest.mark.req("R-411")
@pytest.mark.req("R-412")
async def test_a_secret_that_is_named_fifty_times_is_one() -> None:
    one, contents = naming(*["a"] * 50), found(a=many_values(MIB))
    inputs = Inputs(FakeClock())
    with measured_stalls() as stalls:
        resolved = await settled(inputs, one, contents)
        layers = await inputs.request(one, resolved, list)
    assert len(resolved.values) == 50
    assert len({id(text.text) for text in resolved.values}) == 1
    assert len(layers) == 1
    assert stalls.longest_seconds < LONGEST_STALL_SECONDS


@pytest.mark.req("R-411")
async def test_more_than_a_component_may_refer_to_is_refused_with_its_size() -> None:
    names = [f"s{number}" for number in range(9)]
    one, contents = naming(*names), found(**dict.fromkeys(names, b"#" * MIB))
    with pytest.raises(InputsTooLarge, match="hold 9216 KiB; at most 8192 KiB are allowed"):
        await settled(Inputs(FakeClock()), one, contents)
    eight = naming(*names[:8])
    await settled(Inputs(FakeClock()), eight, contents)
    assert references.size_of(references.find(eight), contents) == MOST_BYTES


@pytest.mark.req("R-412")
async def test_a_hundred_small_texts_do_not_block_the_loop() -> None:
    names = [f"s{number}" for number in range(100)]
    texts = {name: f"{name}:\n".encode() + many_values(15 * 2**10).replace(b"key", b" key") for name in names}
    inputs, one, contents = Inputs(FakeClock()), naming(*names), found(**texts)
    with measured_stalls() as stalls:
        values_ = await merged(inputs, one, await settled(inputs, one, contents))
    assert len(values_) == 100
    assert stalls.longest_seconds < LONGEST_STALL_SECONDS


@pytest.mark.req("R-412")
async def test_values_of_a_mib_in_the_spec_do_not_block_the_loop() -> None:
    own: JsonObject = {f"key-{number}": {"a": number} for number in range(60_000)}
    one = component(spec={"values": own})
    inputs, expected = Inputs(FakeClock()), digests.of_component(one, {"/sourceRef": "a"})
    with measured_stalls() as stalls:
        for _ in range(2):
            assert await inputs.digest(one, {"/sourceRef": "a"}) == expected
            assert len(await merged(inputs, one, Resolved())) == 60_000
    assert stalls.longest_seconds < LONGEST_STALL_SECONDS


@pytest.mark.req("R-411")
@pytest.mark.req("R-412")
@pytest.mark.parametrize("field", ["valuesFrom", "postBuild.substituteFrom"])
def test_more_references_than_a_component_may_have_are_refused_and_not_looked_at(field: str) -> None:
    entries: list[JsonValue] = [{"kind": "Secret", "name": f"s{number}"} for number in range(80_000)]
    few = entries[: references.MOST_REFERENCES]

    def referring(entries: list[JsonValue]) -> Component:
        return component(
            spec={"valuesFrom": entries} if field == "valuesFrom" else {"postBuild": {"substituteFrom": entries}}
        )

    assert len(references.find(referring(few))) == references.MOST_REFERENCES
    with pytest.raises(InvalidSpec, match=f"{field}.*has 80000 entries; at most 1000 are allowed"):
        references.find(referring(entries))
    assert len(references.targets(referring(entries))) == references.MOST_REFERENCES


async def test_a_key_that_is_not_named_counts_for_nothing() -> None:
    one = naming("a", key="small")
    content = ReferencedContent({"small": b"a: 1", "large": b"#" * MIB})
    contents: dict[ReferencedObject, ReferencedContent | references.UnreadReference] = {
        ReferencedObject(ReferenceKind.Secret, ObjectKey("shop", "a")): content
    }
    assert references.size_of(references.find(one), contents) == 4


@pytest.mark.req("R-411")
async def test_values_of_one_tenant_cost_no_other_tenant_its_own() -> None:
    def first(layers: list[Layer]) -> JsonObject:
        return layers[0].values

    inputs = Inputs(FakeClock())
    mine, contents = naming("mine"), found(mine=b"a: {b: [1]}")
    before = await inputs.request(mine, await settled(inputs, mine, contents), first)
    for number in range(20):
        loud = component(namespace="loud", spec={"valuesFrom": [{"kind": "Secret", "name": "a"}]})
        content = ReferencedContent({"values": f"# {number}{'#' * MIB}\na: 1".encode()})
        target = ReferencedObject(ReferenceKind.Secret, ObjectKey("loud", "a"))
        await inputs.request(loud, await settled(inputs, loud, {target: content}), first)
    after = await inputs.request(mine, await settled(inputs, mine, contents), first)
    assert after is before, "still kept"


UNUSABLE = [b"\xff\xfe\xfd", b"\xed\xa0\x80", b"a: \xc3\x28", b"[" * 100_000, b"- list", b"a: &a [*a]", b"\x00"]


@pytest.mark.req("R-413")
@pytest.mark.parametrize("noise", UNUSABLE, ids=range(len(UNUSABLE)))
async def test_values_that_are_none_are_refused_by_the_name_of_their_secret_and_key(noise: bytes) -> None:
    inputs, one = Inputs(FakeClock()), naming("a")
    resolved = await settled(inputs, one, found(a=noise))
    with pytest.raises(InvalidValues, match="values of secret shop/a, key values"):
        await merged(inputs, one, resolved)
    with pytest.raises(InvalidValues, match="values of secret shop/a, key values"):
        layers_of(one, resolved)


@pytest.mark.req("R-413")
async def test_a_variable_that_is_no_text_is_refused_by_its_secret_and_key() -> None:
    one = component(spec={"postBuild": {"substituteFrom": [{"kind": "Secret", "name": "a"}]}})
    with pytest.raises(InvalidSpec, match="key values of secret shop/a is not text"):
        await settled(Inputs(FakeClock()), one, found(a=b"\xff"))


scalars: st.SearchStrategy[JsonValue] = st.none() | st.integers(0, 3) | st.lists(st.integers(0, 1), max_size=2)
trees: st.SearchStrategy[dict[str, JsonValue]] = st.recursive(
    st.dictionaries(st.sampled_from("ab"), scalars, max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("ab"), scalars | inner, max_size=2),
    max_leaves=6,
)


@given(st.lists(trees, min_size=1, max_size=4), st.lists(st.integers(0, 3), max_size=8))
def test_values_named_several_times_come_to_the_same_as_the_last_time_alone(
    all_: list[dict[str, JsonValue]], order: list[int]
) -> None:
    texts = [NamedText(f"secret {number % len(all_)}", b"", str(number % len(all_))) for number in order]

    def merge(chosen: list[NamedText]) -> JsonObject:
        return values.merge(Layer(text.origin, all_[int(text.digest)]) for text in chosen)

    assert merge(texts) == merge(references.last_of_each(texts))
