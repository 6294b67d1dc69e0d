"""The wire to the renderer: what is sent is exact, what comes in is bounded and typed."""

from __future__ import annotations

import asyncio
import base64
import json
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.promptly import promptly
from tests.unit.render.given import request

from stellwerk.kube.types.model import JsonObject
from stellwerk.render.errors import InvalidValues, RendererBroken, RenderError
from stellwerk.render.files.files import Files
from stellwerk.render.request.request import Missing
from stellwerk.render.worker import protocol

MIB = 2**20
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=12).filter(
    lambda name: name not in (".", "..")
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(st.characters(codec="utf-8"), max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=10,
)


def frame(values: JsonObject, files: dict[str, bytes], number: int = 7) -> bytes:
    asked = request(values, files)
    return b"".join(protocol.body(asked, asked.files, "", protocol.encoded(values, "x")).frame(number))


@given(st.dictionaries(NAMES, JSON, max_size=3), st.dictionaries(NAMES, st.binary(max_size=40), min_size=1, max_size=4))
def test_a_frame_says_its_length_and_is_one_document(values: JsonObject, files: dict[str, bytes]) -> None:
    whole = frame(values, files)
    assert int.from_bytes(whole[:4], "big") == len(whole) - 4
    found = json.loads(whole[4:])
    assert found["id"] == 7
    assert found["values"] == values
    assert {name: base64.b64decode(content) for name, content in found["files"].items()} == files


def test_a_request_without_files_is_a_document_too() -> None:
    asked = request({})
    whole = b"".join(protocol.body(asked, Files({}), "", b"{}").frame(1))
    assert json.loads(whole[4:])["files"] == {}


def test_the_announced_size_is_never_too_small() -> None:
    asked = request({}, {'a"\u00e9\u2028\x01': b"x" * 10, "b": b""})
    body = protocol.body(asked, asked.files, "", b"{}")
    assert len(b"".join(body.frame(2**40))) <= body.size


@pytest.mark.req("R-401")
def test_a_large_artifact_does_not_stand_in_memory_again() -> None:
    asked = request({}, {f"{n}": bytes(MIB) for n in range(40)})
    body = protocol.body(asked, asked.files, "", b"{}")
    tracemalloc.start()
    total = sum(len(portion) for portion in body.frame(1))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert total > 53 * MIB
    assert peak < 8 * MIB


@pytest.mark.parametrize("value", [object(), {"a": [object()]}, "\ud800"])
def test_what_has_no_form_in_json_is_refused(value: object) -> None:
    with pytest.raises(InvalidValues):
        protocol.encoded(value, "spec.values")


def test_an_answer_tells_absence_from_failure() -> None:
    said = [
        protocol.answer(1, {"a": 1}),
        protocol.answer(1, Missing.OBJECT),
        protocol.answer(1, Missing.KIND),
        protocol.answer(1, None, "it may not"),
    ]
    assert [json.loads(one[4:]) for one in said] == [
        {"id": 1, "value": {"a": 1}},
        {"id": 1, "value": None, "notFound": True},
        {"id": 1, "value": None, "noKind": True},
        {"id": 1, "value": None, "error": "it may not"},
    ]


async def heard(content: bytes, most: int = 1_000) -> bytes:
    reader = asyncio.StreamReader()
    reader.feed_data(content)
    reader.feed_eof()
    return await protocol.read_frame(reader, most)


@pytest.mark.req("R-401")
@settings(max_examples=300)
@given(st.binary(max_size=64))
@promptly
def test_any_bytes_are_a_message_or_an_error(content: bytes) -> None:
    for attempt in (content, len(content).to_bytes(4, "big") + content, b"\0\0\0\x20" + content):
        try:
            found = asyncio.run(heard(attempt))
            protocol.read_message(found)
        except (RendererBroken, asyncio.IncompleteReadError):
            continue


MESSAGES = st.fixed_dictionaries(
    {"id": st.sampled_from([0, 1, -1, "x", None])},
    optional={
        "call": st.fixed_dictionaries(
            {"method": st.sampled_from(["lookup", "lookupList", "x"]), "args": st.dictionaries(NAMES, JSON, max_size=2)}
        )
        | JSON,
        "result": st.fixed_dictionaries(
            {"generator": st.just("helm"), "objects": JSON, "origins": JSON, "chart": JSON, "uses": JSON}
        )
        | JSON,
        "error": st.fixed_dictionaries({"kind": NAMES, "message": NAMES, "line": st.integers()}) | JSON,
    },
)


@pytest.mark.req("R-401")
@settings(max_examples=300)
@given(MESSAGES)
@promptly
def test_any_message_is_understood_or_refused(message: JsonObject) -> None:
    try:
        found = protocol.read_message(json.dumps(message).encode())
        if found.call is not None:
            assert found.call.query.kind
        elif found.error is not None:
            assert isinstance(found.error.error, RenderError)
        else:
            protocol.read_result(protocol.read_uses(found).content)
    except RendererBroken:
        return


@pytest.mark.req("R-401")
@pytest.mark.parametrize("content", [b"[" * 100_000, b'{"id":' + b"9" * 5_000 + b"}", b'{"result":' + b"[" * 50_000])
def test_depth_and_length_break_nothing(content: bytes) -> None:
    with pytest.raises(RendererBroken):
        protocol.read_message(content)
