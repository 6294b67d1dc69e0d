"""Requests become objects: once, bounded, and without harm to others."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import gc
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.render.given import is_alive, pid, request, said

from stellwerk.delivery.rendering import unconfined
from stellwerk.kube.masking import LONGEST_TEXT
from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.render import errors
from stellwerk.render.errors import (
    InvalidExpression,
    InvalidValues,
    LimitExceeded,
    LookupFailed,
    NotADirectory,
    PathNotFound,
    RendererBroken,
    RendererClosed,
    RendererGone,
    RendererMissing,
    RenderError,
    RendererTimeout,
)
from stellwerk.render.request.request import (
    Claim,
    Missing,
    ReleaseInfo,
    Rendered,
    RenderPostBuild,
    RenderRequest,
    TemplateQuery,
)
from stellwerk.render.request.values import Layer, secret_words
from stellwerk.render.worker.pool import Shares
from stellwerk.render.worker.renderer import Renderer
from stellwerk.render.worker.worker import Bounds
from stellwerk.runtime.settings.process_settings import ProcessSettings
from stellwerk.testing.checks.loop_stalls import LONGEST_STALL_SECONDS, measured_stalls
from stellwerk.testing.eventually import eventually

pytestmark = pytest.mark.heavy

Make = Callable[..., Renderer]
HASTY = Bounds(seconds=3, grace_seconds=0, lookup_seconds=0.1)
"""Long enough for a busy machine to start a process."""
ONE = Shares(workers=1)


# ---- what goes in and comes out


async def test_files_values_and_context_reach_the_renderer(renderer: Renderer) -> None:
    files: dict[str, bytes | str] = {"app/a.yaml": b"\x00\xff binary", 'app/odd "name"\u00e9.yaml': "text"}
    found = await renderer.render(
        request(
            {"replicas": 1_000_000, "big": 2**60},
            files,
            path="app",
            component={"kind": "Component"},
            component_digest="abc",
            decryption={"a.agekey": b"key"},
            decryption_from="Secret",
            post_build=RenderPostBuild({"a": "b"}, [{"patch": "p"}], [{"name": "i"}]),
        )
    )
    sent = said(found, "files")
    assert isinstance(sent, dict)
    assert {name: base64.b64decode(str(content)) for name, content in sent.items()} == {
        name: content if isinstance(content, bytes) else content.encode() for name, content in files.items()
    }
    assert said(found, "request") == {
        "id": 1,
        "path": "app",
        "generator": "auto",
        "prefix": "example.com",
        "deleteHooks": "refuse",
        "values": {"replicas": 1_000_000, "big": 2**60},
        "release": {"name": "app", "namespace": "default", "service": "Helm", "revision": 1},
        "component": {"kind": "Component"},
        "componentDigest": "abc",
        "cluster": {"version": {"gitVersion": "v1.36.3"}, "apiVersions": [], "apiResources": []},
        "decryption": {"keys": {"a.agekey": base64.b64encode(b"key").decode()}, "from": "Secret"},
        "postBuild": {"substitute": {"a": "b"}, "patches": [{"patch": "p"}], "images": [{"name": "i"}]},
        "limits": {"outputBytes": 33_554_432, "objects": 5_000},
    }
    assert (found.generator, found.origins, found.uses) == ("kustomize", ("a.yaml",), frozenset())
    assert found.chart is not None
    assert found.chart.app_version == "2"


@pytest.mark.parametrize(
    ("path", "kind", "message"),
    [
        ("x/y", PathNotFound, "no such file or directory: x/y"),
        ("../up", PathNotFound, "no such file or directory: ../up"),
        ("a.yaml", NotADirectory, "not a directory: a.yaml"),
    ],
)
async def test_a_wrong_path_needs_no_renderer(
    renderer: Renderer, path: str, kind: type[RenderError], message: str
) -> None:
    with pytest.raises(kind) as caught:
        await renderer.render(request(path=path))
    assert str(caught.value) == message
    assert renderer.workers_started == 0


async def test_values_that_are_no_json_are_refused(renderer: Renderer) -> None:
    with pytest.raises(InvalidValues):
        await renderer.render(request({"a": object()}))  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("InvalidChart", errors.InvalidChart),
        ("InvalidConfig", errors.InvalidConfig),
        ("InvalidValues", errors.RefusedValues),
        ("TemplateFailed", errors.TemplateFailed),
        ("InvalidManifest", errors.InvalidManifest),
        ("KustomizeFailed", errors.KustomizeFailed),
        ("SubstituteFailed", errors.SubstituteFailed),
        ("PatchFailed", errors.PatchFailed),
        ("DecryptFailed", errors.DecryptFailed),
        ("UnsupportedHook", errors.UnsupportedHook),
        ("LimitExceeded", errors.LimitExceeded),
        ("Internal", RendererBroken),
        ("InvalidRequest", RendererBroken),
        ("SomethingNew", RendererBroken),
    ],
)
async def test_each_refusal_has_a_class_of_its_own(renderer: Renderer, word: str, kind: type[RenderError]) -> None:
    with pytest.raises(kind, match="it is wrong"):
        await renderer.render(request({"do": "fail", "error": {"kind": word, "message": "it is wrong"}}))
    await renderer.render(request())


async def test_a_refusal_names_its_place(renderer: Renderer) -> None:
    failure: JsonObject = {
        "kind": "TemplateFailed",
        "message": "no such thing",
        "file": "t/a.yaml",
        "line": 3,
        "column": 9,
    }
    with pytest.raises(errors.TemplateFailed) as caught:
        await renderer.render(request({"do": "fail", "error": failure}))
    assert str(caught.value) == "t/a.yaml, line 3, column 9: no such thing"
    missing: JsonObject = {"kind": "PathNotFound", "message": "no such file or directory: x"}
    with pytest.raises(PathNotFound, match=r"^no such file or directory: x$"):
        await renderer.render(request({"do": "fail", "error": missing}))


@pytest.mark.req("R-801")
async def test_no_word_of_a_secret_is_quoted(renderer: Renderer) -> None:
    for kind in ("TemplateFailed", "Internal"):
        failure: JsonObject = {"kind": kind, "message": "cannot parse hunter2 as a number"}
        asked = request({"do": "fail", "error": failure}, secrets=lambda: {"hunter2"})
        with pytest.raises(RenderError, match=r"cannot parse \*\*\* as a number") as caught:
            await renderer.render(asked)
        assert "hunter2" not in f"{caught.value.__cause__}{caught.value!r}{asked!r}"


@pytest.mark.req("R-412", "R-804")
async def test_a_failure_beside_a_secret_of_many_words_does_not_stall_the_loop(renderer: Renderer) -> None:
    secret = Layer("Secret a", {"words": [f"word{number:06}" for number in range(60_000)]}, secret=True)
    failure: JsonObject = {"kind": "TemplateFailed", "message": "cannot use word059999 or 'word0599' " * 800}
    asked = request({"do": "fail", "error": failure}, secrets=lambda: secret_words([secret]))
    with measured_stalls() as stalls, pytest.raises(errors.TemplateFailed) as caught:
        await renderer.render(asked)
    assert stalls.longest_seconds < LONGEST_STALL_SECONDS
    assert str(caught.value).startswith("cannot use *** or '***' cannot")
    assert "word0" not in str(caught.value)
    assert len(str(caught.value)) <= LONGEST_TEXT


# ---- the process


@pytest.mark.req("R-405")
async def test_a_worker_has_no_environment_no_files_and_a_session_of_its_own(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "hunter2")
    found = said(await make(Bounds(memory_bytes=2**29)).render(request()), "about")
    assert isinstance(found, dict)
    assert set(found["environment"] or {}) <= {"LC_CTYPE"}  # type: ignore[arg-type] # Python adds it to itself
    assert (found["folder"], found["session"]) == ("/", True)
    assert found["files"] == [0, 1, 2]
    assert found["limits"] == [2**29, 0]


@pytest.mark.req("R-404")
async def test_a_request_that_takes_too_long_is_ended_and_its_worker_replaced(make: Make) -> None:
    renderer = make(HASTY, ONE)
    before = await renderer.render(request())
    with pytest.raises(RendererTimeout, match="longer than 3 s"):
        await renderer.render(request({"do": "spin"}))
    after = await renderer.render(request({"n": 1}))
    assert pid(before) != pid(after)
    await eventually(lambda: not is_alive(pid(before)), describe="the old worker is gone")


@pytest.mark.req("R-404")
async def test_a_request_that_eats_memory_costs_its_worker_only(make: Make) -> None:
    renderer = make(Bounds(memory_bytes=2**28), ONE)
    with pytest.raises(RendererGone, match="ended while it rendered"):
        await renderer.render(request({"do": "eat"}))
    await renderer.render(request())
    assert renderer.workers_started == 2


@pytest.mark.req("R-404")
@pytest.mark.parametrize(
    "text",
    [
        "fatal error: runtime: out of memory",
        "runtime: goroutine stack exceeds 1000000000-byte limit",
        "fatal error: runtime: cannot allocate memory",
    ],
)
async def test_a_worker_that_the_kernel_refuses_memory_is_reported_as_by_its_own_watch(make: Make, text: str) -> None:
    with pytest.raises(LimitExceeded, match=r"^rendering needs more than 256 MiB of memory$"):
        await make(shares=ONE).render(request({"do": "shout", "text": text}))


async def test_the_end_of_a_worker_is_explained_without_its_stderr(make: Make) -> None:
    with pytest.raises(RendererGone, match=r"ended while it rendered$") as caught:
        await make(shares=ONE).render(request({"do": "shout", "text": "panic: hunter2"}))
    assert caught.value.transient


@pytest.mark.req("R-404")
async def test_a_request_that_kills_its_worker_is_not_given_to_another(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    renderer = make(shares=ONE)
    with pytest.raises(RendererGone):
        await renderer.render(request({"do": "die"}))
    assert renderer.workers_started == 1
    await renderer.close()
    assert caplog.messages == []  # asyncio warns when somebody else took the status of its child


async def test_a_request_that_was_not_read_is_given_to_another_worker_once(make: Make, tmp_path: Path) -> None:
    renderer = make(shares=ONE)
    (tmp_path / "die-first").touch()
    large = {"a.yaml": b"x" * 3_000_000}
    for number, files in enumerate([{"a.yaml": b"x"}, large]):
        await renderer.render(request({"n": number}, files))
        (tmp_path / "die-first").touch()
        with pytest.raises(RendererGone):
            await renderer.render(request({"do": "die"}))
    (tmp_path / "renderer").write_text("#!/bin/false\n")
    with pytest.raises(RendererGone, match="before it read the request"):
        await renderer.render(request({"n": 3}))


async def test_a_worker_that_died_while_idle_is_noticed(make: Make) -> None:
    renderer = make(shares=ONE)
    first = pid(await renderer.render(request({"n": 1})))
    os.kill(first, signal.SIGKILL)
    assert pid(await renderer.render(request({"n": 2}))) != first


async def test_a_caller_who_gives_up_ends_his_worker(make: Make) -> None:
    renderer = make(shares=ONE)
    first = pid(await renderer.render(request()))
    task = asyncio.create_task(renderer.render(request({"do": "spin"})))
    asked = asyncio.Event()

    async def lookup(_: TemplateQuery) -> Missing:
        asked.set()
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    task.cancel()
    waiting = asyncio.create_task(renderer.render(request({"calls": [call()]}), lookup))
    await asked.wait()
    waiting.cancel()
    await asyncio.gather(task, waiting, return_exceptions=True)
    await eventually(lambda: not is_alive(first), describe="the worker is gone")
    await renderer.render(request({"n": 2}))


def frame(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


@pytest.mark.req("R-401")
@pytest.mark.parametrize(
    "garbage",
    [
        b"\xff\xff\xff\xff",
        frame(b""),
        frame(b"{}"),
        frame(b"null"),
        frame(b"hello"),
        frame(b"[" * 65536),
        frame(b'{"id":1}'),
        frame(b'{"id":1,"result":true}'),
        frame(b'{"id":1,"result":{"uses":5}}'),
        frame(b'{"id":1,"result":{},"error":{"kind":"x","message":"y"}}'),
        frame(b'{"id":1,"error":{}}'),
        frame(b'{"id":0,"error":{"kind":"InvalidRequest","message":"y"}}'),
        frame(b'{"id":1,"call":{"method":"dance","args":{}}}'),
        frame(b'{"id":1,"call":{"method":"lookup","args":{}}}'),
        frame(b'{"id":1,"call":{"method":"lookup","args":{"apiVersion":"v1","kind":"A","where":"moon"}}}'),
    ],
)
async def test_a_worker_that_breaks_the_protocol_is_ended(make: Make, garbage: bytes) -> None:
    renderer = make(shares=ONE)
    with pytest.raises(RendererBroken):
        await renderer.render(request({"do": "garbage", "bytes": base64.b64encode(garbage).decode()}))
    await renderer.render(request())
    assert renderer.workers_started == 2


@pytest.mark.parametrize("kind", ["result", "error"])
async def test_an_answer_to_an_earlier_request_is_not_taken_for_this_one(make: Make, kind: str) -> None:
    renderer = make(shares=ONE)
    await renderer.render(request({"n": 1}))
    with pytest.raises(RendererGone, match="earlier request"):
        await renderer.render(request({"do": "late", "kind": kind}))
    await renderer.render(request())


async def test_a_program_that_is_missing_is_told(tmp_path: Path) -> None:
    async with Renderer(lambda: tmp_path / "nowhere") as renderer:
        for _ in range(3):  # more often than there are workers: the turn is given back
            with pytest.raises(RendererMissing, match="cannot be started: No such file"):
                await renderer.render(request())


async def test_closing_ends_all_workers_and_whoever_waits(make: Make) -> None:
    renderer = make(shares=ONE)
    process = pid(await renderer.render(request()))
    running = asyncio.create_task(renderer.render(request({"do": "spin"})))
    waiting = asyncio.create_task(renderer.render(request({"n": 2})))
    await asyncio.sleep(0)
    await renderer.close()
    outcomes = await asyncio.gather(running, waiting, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} <= {RendererClosed, RendererGone}
    assert not is_alive(process)
    with pytest.raises(RendererClosed):
        await renderer.render(request({"n": 3}))


async def test_a_worker_that_has_grown_is_replaced_and_an_idle_one_ended(make: Make) -> None:
    grown = make(Bounds(resident_bytes=1), ONE)
    pids = {pid(await grown.render(request({"n": n}))) for n in range(3)}
    assert len(pids) == 3
    idle = make(shares=Shares(idle_seconds=0.02))
    process = pid(await idle.render(request()))
    await eventually(lambda: not is_alive(process), describe="the idle worker is gone")
    await idle.render(request({"n": 1}))


# ---- questions


def call(method: str = "lookup", **args: str) -> JsonValue:
    return {"method": method, "args": {"apiVersion": "v1", "kind": "Secret", **args}}


@pytest.mark.req("R-405")
async def test_questions_are_answered_by_the_caller_of_this_request(renderer: Renderer) -> None:
    asked: list[TemplateQuery] = []

    async def lookup(query: TemplateQuery) -> JsonValue | Missing:
        asked.append(query)
        return {"none": Missing.OBJECT, "unknown": Missing.KIND}.get(query.name, {"it": query.name})

    calls = [
        call(namespace="default", name="a", where="local"),
        call(name="none"),
        call(name="unknown"),
        call("lookupList", labelSelector="x=y", where="kubeconfig", kubeconfig="hunter2"),
    ]
    found = await renderer.render(request({"calls": calls}), lookup)
    answers = said(found, "answers")
    assert isinstance(answers, list)
    assert [{k: v for k, v in one.items() if k != "id"} for one in answers if isinstance(one, dict)] == [
        {"value": {"it": "a"}},
        {"value": None, "notFound": True},
        {"value": None, "noKind": True},
        {"value": {"it": ""}},
    ]
    assert asked[0] == TemplateQuery("v1", "Secret", "default", "a", where="local")
    assert asked[3] == TemplateQuery(
        "v1", "Secret", label_selector="x=y", many=True, where="kubeconfig", kubeconfig="hunter2"
    )
    assert "hunter2" not in repr(asked)


async def test_without_a_lookup_nothing_exists(renderer: Renderer) -> None:
    found = await renderer.render(request({"calls": [call(name="a")]}))
    assert said(found, "answers") == [{"id": 1, "value": None, "notFound": True}]


async def test_a_lookup_that_fails_ends_the_rendering_and_is_its_cause(renderer: Renderer) -> None:
    refusal = PermissionError("the service account may not read Secrets")

    async def lookup(_: TemplateQuery) -> JsonValue:
        raise refusal

    with pytest.raises(LookupFailed, match=r"a\.yaml, line 7: the service account may not read") as caught:
        await renderer.render(request({"calls": [call(name="a")]}), lookup)
    assert caught.value.__cause__ is refusal
    assert caught.value.transient


@pytest.mark.req("R-411")
async def test_a_lookup_with_a_large_answer_is_refused(renderer: Renderer) -> None:
    async def lookup(_: TemplateQuery) -> JsonValue:
        return ["x" * (33 << 20)]

    why = r"a\.yaml, line 7: the look-up of Secret in shop has an answer of 33 MiB; at most 32 MiB are read"
    with pytest.raises(LimitExceeded, match=why):
        await renderer.render(request({"calls": [call("lookupList", namespace="shop")]}), lookup)


async def test_slow_lookups_are_not_taken_for_an_endless_loop(make: Make) -> None:
    async def lookup(_: TemplateQuery) -> JsonValue:
        await asyncio.get_running_loop().create_future()
        return None

    bounds = Bounds(seconds=0.2, grace_seconds=0.1)
    with pytest.raises(LookupFailed, match=r"longer than 0\.2 s, 0\.\d s of it for look-ups: the cluster") as caught:
        await make(bounds).render(request({"calls": [call(name="a")]}), lookup)
    assert caught.value.transient


@pytest.mark.req("R-404")
async def test_a_request_whose_worker_dies_before_it_reads_an_answer_is_not_given_to_another(make: Make) -> None:
    renderer = make(shares=ONE)
    with pytest.raises(RendererGone, match="while it rendered"):
        await renderer.render(request({"do": "die before an answer", "call": call(name="a")}))
    assert renderer.workers_started == 1


async def test_a_lookup_that_hangs_is_given_up_on(make: Make) -> None:
    async def lookup(_: TemplateQuery) -> JsonValue:
        await asyncio.get_running_loop().create_future()
        return None

    with pytest.raises(LookupFailed, match=r"did not answer within 0\.1 s"):
        await make(HASTY).render(request({"calls": [call(name="a")]}), lookup)


# ---- once


async def test_one_input_is_not_rendered_twice(make: Make) -> None:
    renderer = make(shares=ONE)
    first = await renderer.render(request())
    again = await renderer.render(request())
    assert again is first
    served = said(await renderer.render(request({"n": 1})), "about", "served")
    assert served == 2
    digest = first.digest
    del first, again
    gc.collect()
    assert (await renderer.render(request())).digest == digest
    assert said(await renderer.render(request({"n": 2})), "about", "served") == 3


async def test_what_was_not_used_may_be_different(renderer: Renderer) -> None:
    first = await renderer.render(request({"uses": ["namespace"]}))
    for same in (
        {"release": ReleaseInfo("other", "default", revision=7), "tenant": "b"},
        {"component": {"status": "new"}, "component_digest": "x"},
    ):
        assert await renderer.render(request({"uses": ["namespace"]}, **same)) is first
    assert await renderer.render(request({"uses": ["namespace"]}, release=ReleaseInfo("app", "other"))) is not first


@pytest.mark.parametrize(
    ("part", "changes"),
    [
        ("name", {"release": ReleaseInfo("other", "default")}),
        ("namespace", {"release": ReleaseInfo("app", "other")}),
        ("revision", {"release": ReleaseInfo("app", "default", revision=2)}),
        ("component", {"component": {"a": 1}}),
        ("componentDigest", {"component_digest": "b"}),
        ("cluster", {"cluster": dataclasses.replace(request().cluster, api_versions=("v1",))}),
    ],
)
async def test_what_was_used_must_be_the_same(renderer: Renderer, part: str, changes: dict[str, Any]) -> None:
    first = await renderer.render(request({"uses": [part]}))
    assert await renderer.render(request({"uses": [part]})) is first
    assert await renderer.render(request({"uses": [part]}, **changes)) is not first
    assert await renderer.render(request({"uses": [part]})) is first


@pytest.mark.parametrize(
    "changes",
    [
        {"path": "b"},
        {"generator": "manifests"},
        {"prefix": "other"},
        {"delete_hooks": "omit"},
        {"values": {"a": 1}},
        {"release": ReleaseInfo("app", "default", service="other")},
        {"post_build": RenderPostBuild({})},
        {"post_build": RenderPostBuild(images=[{"name": "x"}])},
    ],
)
async def test_what_always_counts_must_be_the_same(renderer: Renderer, changes: dict[str, Any]) -> None:
    files = {"a.yaml": "1", "b/a.yaml": "1"}
    first = await renderer.render(request(files=files))
    assert await renderer.render(request(files=files, **changes)) is not first


@pytest.mark.req("R-604")
@pytest.mark.req("R-802")
async def test_what_was_decrypted_is_given_to_its_tenant_and_its_keys_only(renderer: Renderer) -> None:
    keys = {"a.agekey": b"1"}
    first = await renderer.render(request(decryption=keys, tenant="a"))
    assert await renderer.render(request(decryption=keys, tenant="a")) is first
    for other in (
        request(decryption=keys, tenant="b"),
        request(decryption={"a.agekey": b"2"}, tenant="a"),
        request(tenant="a"),
    ):
        assert await renderer.render(other) is not first


@pytest.mark.req("R-604")
async def test_what_came_from_chance_is_given_to_its_component_only(renderer: Renderer) -> None:
    def asked(uid: str, tenant: str = "a", **changes: Any) -> RenderRequest:
        component = {"metadata": {"uid": uid, **changes}}
        return request({"uses": ["chance"]}, component=component, component_digest=str(changes), tenant=tenant)

    first = await renderer.render(asked("1"))
    assert await renderer.render(asked("1", generation=2)) is first
    assert await renderer.render(asked("2")) is not first
    assert await renderer.render(asked("1", tenant="b")) is not first
    assert await renderer.render(asked("1")) is first


@pytest.mark.req("R-604")
async def test_what_came_from_chance_without_a_component_is_given_to_its_release_only(renderer: Renderer) -> None:
    first = await renderer.render(request({"uses": ["chance"]}))
    assert await renderer.render(request({"uses": ["chance"]})) is first
    assert await renderer.render(request({"uses": ["chance"]}, release=ReleaseInfo("app", "other"))) is not first
    assert await renderer.render(request({"uses": ["chance"]}, release=ReleaseInfo("other", "default"))) is not first


async def test_components_that_ask_for_chance_at_once_share_nothing(make: Make) -> None:
    renderer = make(shares=Shares(workers=2))
    asked = [request({"uses": ["chance"]}, component={"metadata": {"uid": str(number)}}) for number in range(9)]
    found = await asyncio.gather(*(renderer.render(one) for one in asked))
    assert len({id(one) for one in found}) == 9


@pytest.mark.parametrize("uses", ["lookup", "something of a later version"])
async def test_what_asked_the_cluster_is_asked_again(renderer: Renderer, uses: str) -> None:
    first = await renderer.render(request({"uses": [uses]}))
    assert await renderer.render(request({"uses": [uses]})) is not first


class Cluster:
    """Answers questions with what a test sets, and counts them."""

    def __init__(self) -> None:
        self.answers: dict[str, JsonValue] = {}
        self.asked = 0

    async def lookup(self, query: TemplateQuery) -> JsonValue | Missing:
        self.asked += 1
        return self.answers.get(query.name, Missing.OBJECT)


def by_chance(*names: str, uid: str = "1", tenant: str = "a", uses: tuple[str, ...] = ()) -> RenderRequest:
    """A Component whose templates make random values and ask for these Secrets."""
    values: JsonObject = {"uses": ["chance", "lookup", *uses], "calls": [call(name=name) for name in names]}
    return request(values, component={"metadata": {"uid": uid}}, tenant=tenant)


@pytest.mark.req("R-108")
async def test_random_values_stay_while_the_cluster_gives_the_same_answers(renderer: Renderer) -> None:
    cluster = Cluster()
    cluster.answers["a"] = {"data": {"key": "one"}}
    first = await renderer.render(by_chance("a", "b"), cluster.lookup)
    assert await renderer.render(by_chance("a", "b"), cluster.lookup) is first
    assert cluster.asked == 4, "the cluster is asked in each pass"
    digest = first.digest
    del first
    gc.collect()
    assert (await renderer.render(by_chance("a", "b"), cluster.lookup)).digest == digest


@pytest.mark.req("R-108")
@pytest.mark.parametrize(
    "answers", [{"a": {"key": "two"}}, {}, {"a": {"key": "one"}, "b": None}, {"b": {"key": "one"}}], ids=repr
)
async def test_other_answers_of_the_cluster_have_a_result_of_their_own(
    renderer: Renderer, answers: dict[str, JsonValue]
) -> None:
    cluster = Cluster()
    cluster.answers = {"a": {"key": "one"}}
    first = await renderer.render(by_chance("a", "b"), cluster.lookup)
    cluster.answers = answers
    second = await renderer.render(by_chance("a", "b"), cluster.lookup)
    assert second is not first
    assert await renderer.render(by_chance("a", "b"), cluster.lookup) is second


@pytest.mark.req("R-108")
async def test_random_values_beside_questions_to_no_cluster_stay(renderer: Renderer) -> None:
    first = await renderer.render(by_chance("a"))
    assert await renderer.render(by_chance("a")) is first


@pytest.mark.req("R-604")
async def test_random_values_beside_equal_answers_are_given_to_their_component_only(renderer: Renderer) -> None:
    cluster = Cluster()
    first = await renderer.render(by_chance("a"), cluster.lookup)
    assert await renderer.render(by_chance("a", uid="2"), cluster.lookup) is not first
    assert await renderer.render(by_chance("a", tenant="b"), cluster.lookup) is not first
    assert await renderer.render(by_chance("a"), cluster.lookup) is first


async def test_a_result_with_equal_answers_that_used_something_unknown_is_made_again(renderer: Renderer) -> None:
    cluster = Cluster()
    asked = by_chance("a", uses=("something of a later version",))
    first = await renderer.render(asked, cluster.lookup)
    assert await renderer.render(asked, cluster.lookup) is not first


async def test_many_who_ask_for_the_same_at_once_share_one_rendering(make: Make) -> None:
    renderer = make(shares=Shares(workers=2))
    found = await asyncio.gather(*(renderer.render(request({"uses": ["name"]})) for _ in range(20)))
    assert all(one is found[0] for one in found)
    assert renderer.workers_started == 1


async def test_who_waited_for_a_rendering_that_was_given_up_on_renders_himself(make: Make) -> None:
    renderer = make(shares=ONE)
    tasks = [asyncio.create_task(renderer.render(request())) for _ in range(3)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(outcome, Rendered) for outcome in outcomes] == [False, True, True]


async def test_errors_are_not_kept(renderer: Renderer) -> None:
    failing = request({"do": "fail", "error": {"kind": "TemplateFailed", "message": "x"}})
    for _ in range(2):
        with pytest.raises(errors.TemplateFailed):
            await renderer.render(failing)
    assert said(await renderer.render(request()), "about", "served") == 3


async def test_only_so_many_results_are_kept(tmp_path: Path, make: Make) -> None:
    del make
    async with Renderer(lambda: tmp_path / "renderer", kept_bytes=4_000, shares=ONE) as renderer:
        for n in range(20):
            await renderer.render(request({"n": n}))
        gc.collect()
        served = said(await renderer.render(request({"n": 0})), "about", "served")
    assert served == 21


# ---- which files


MONO = {"app/a.yaml": "kind: A", "base/b.yaml": "kind: B", "app/deep/c.yaml": "and so on ..."}


def sent(rendered: Rendered) -> set[str]:
    files = said(rendered, "files")
    assert isinstance(files, dict)
    return set(files)


async def test_only_the_folder_of_a_component_travels(renderer: Renderer) -> None:
    files = {**MONO, "app/.component-config.yaml": "templateSuffix: .tpl"}
    first = await renderer.render(request(files=files, path="app"))
    assert sent(first) == {"app/a.yaml", "app/deep/c.yaml", "app/.component-config.yaml"}
    assert await renderer.render(request(files={**files, "other/x": "new"}, path="/app/")) is first


@pytest.mark.parametrize(
    "text", ["includedFiles: [../base]", "INCLUDEDKUSTOMIZATIONS: [x]", r'"incl\u0075dedFiles": [..]', "a: ENC[AES]"]
)
async def test_a_folder_that_includes_others_takes_them_along(renderer: Renderer, text: str) -> None:
    found = await renderer.render(request(files={**MONO, "app/.component-config.yaml": text}, path="app"))
    assert sent(found) == {*MONO, "app/.component-config.yaml"}


async def test_a_chart_stays_in_its_folder(renderer: Renderer) -> None:
    files = {**MONO, "app/Chart.yaml": "name: x", "app/README.md": "see ../base", "app/.component-config.yaml": ""}
    assert sent(await renderer.render(request(files=files, path="app"))) == {f for f in files if f.startswith("app/")}


# ---- fairness


@pytest.mark.req("R-507")
async def test_tenants_take_turns(make: Make) -> None:
    renderer = make(shares=ONE)
    order: list[str] = []

    async def one(tenant: str, number: int) -> None:
        await renderer.render(request({"tenant": tenant, "n": number}, tenant=tenant))
        order.append(f"{tenant}{number}")

    tasks = [asyncio.create_task(one("a", n)) for n in range(4)]
    tasks += [asyncio.create_task(one("b", n)) for n in range(2)]
    await asyncio.gather(*tasks)
    assert order == ["a0", "a1", "b0", "a2", "b1", "a3"]


@pytest.mark.req("R-404")
@pytest.mark.req("R-507")
async def test_a_slow_tenant_leaves_a_worker_to_the_others(make: Make) -> None:
    renderer = make(Bounds(seconds=30), Shares(workers=2, slow_seconds=0.0))
    await renderer.render(request({"n": 1}, tenant="slow"))
    flood = [asyncio.create_task(renderer.render(request({"do": "spin", "n": n}, tenant="slow"))) for n in range(5)]
    await asyncio.sleep(0)
    await renderer.render(request({"n": 2}, tenant="quick"))
    assert not any(task.done() for task in flood)
    for task in flood:
        task.cancel()
    await asyncio.gather(*flood, return_exceptions=True)


@pytest.mark.req("R-404")
@pytest.mark.req("R-511")
async def test_slow_renderings_of_many_new_tenants_give_way_and_are_done_later(make: Make) -> None:
    renderer = make(Bounds(seconds=2), Shares(workers=2, slow_seconds=0.05, patience_seconds=0.01))
    slow = [asyncio.create_task(renderer.render(request({"do": "spin", "n": n}, tenant=f"slow-{n}"))) for n in range(3)]
    await eventually(lambda: renderer.workers_started >= 2)
    await renderer.render(request({"n": 1}, tenant="quick"))
    assert not any(task.done() for task in slow), "none of them has used up its two seconds"
    outcomes = await asyncio.gather(*slow, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {RendererTimeout}, "each had its whole time in the end"


async def test_a_slow_rendering_that_no_other_tenant_waits_for_is_not_begun_again(make: Make) -> None:
    renderer = make(Bounds(seconds=0.5), Shares(workers=2, slow_seconds=0.01, patience_seconds=0.01))
    slow = [asyncio.create_task(renderer.render(request({"do": "spin", "n": n}, tenant="slow"))) for n in range(3)]
    outcomes = await asyncio.gather(*slow, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {RendererTimeout}
    assert renderer.workers_started == 3


@pytest.mark.req("R-404")
async def test_a_slow_tenant_is_served_though_quick_ones_never_cease(make: Make) -> None:
    renderer = make(Bounds(seconds=30), Shares(workers=2, slow_seconds=0.0, patience_seconds=0.01))
    await renderer.render(request({"n": "first"}, tenant="slow"))
    done = asyncio.Event()

    async def quick(tenant: str) -> None:
        number = 0
        while not done.is_set():
            number += 1
            await renderer.render(request({"n": number}, tenant=f"{tenant}-{number}"))

    async with asyncio.TaskGroup() as tasks:
        for tenant in "abc":
            tasks.create_task(quick(tenant))
        async with asyncio.timeout(30):
            await renderer.render(request({"n": "second"}, tenant="slow"))
        done.set()


async def test_quick_renderings_share_one_worker(make: Make) -> None:
    renderer = make(shares=Shares(workers=2, patience_seconds=30))
    await asyncio.gather(*(renderer.render(request({"n": n})) for n in range(20)))
    assert renderer.workers_started == 1


async def test_who_waits_behind_a_long_rendering_gets_a_worker_of_his_own(make: Make) -> None:
    renderer = make(Bounds(seconds=30), Shares(workers=2, patience_seconds=0.01))
    long = asyncio.create_task(renderer.render(request({"do": "spin"})))
    await asyncio.sleep(0)
    await renderer.render(request({"n": 1}))
    assert not long.done()
    assert renderer.workers_started == 2
    long.cancel()
    await asyncio.gather(long, return_exceptions=True)


# ---- claims


def claim(text: str, answer: bool = True) -> Claim:
    return Claim(text=text, objects={"self": {"answer": answer}})


async def test_a_claim_holds_or_does_not(renderer: Renderer) -> None:
    assert await renderer.holds(claim("self.answer"))
    assert not await renderer.holds(claim("self.answer", answer=False))
    assert renderer.workers_started == 1


async def test_a_claim_that_means_nothing_is_refused_with_its_place(renderer: Renderer) -> None:
    with pytest.raises(InvalidExpression, match="line 1, column 2: no such word"):
        await renderer.holds(claim("?"))
    assert await renderer.holds(claim("self.answer"))
    assert renderer.workers_started == 1


@pytest.mark.parametrize(("text", "kind"), [("die", RendererGone), ("result", RendererBroken)])
async def test_a_worker_that_fails_at_a_claim_is_replaced(
    renderer: Renderer, text: str, kind: type[RenderError]
) -> None:
    with pytest.raises(kind):
        await renderer.holds(claim(text))
    assert await renderer.holds(claim("self.answer"))
    assert renderer.workers_started == 2


@pytest.mark.req("R-405")
async def test_a_renderer_without_a_filter_of_system_calls_is_unready_unless_that_is_allowed(
    make: Make, tmp_path: Path
) -> None:
    renderer = make()
    await renderer.render(request())
    assert unconfined(renderer, ProcessSettings()) is None
    program = tmp_path / "renderer"
    program.rename(tmp_path / "confined")
    program.write_text(f"#!/bin/sh\necho 'renderer: not confined: no seccomp' >&2\nexec {tmp_path / 'confined'}\n")
    program.chmod(0o700)
    other = make()
    await other.render(request())
    await eventually(lambda: unconfined(other, ProcessSettings()) is not None, describe="it is known")
    assert "seccomp" in (unconfined(other, ProcessSettings()) or "")
    assert unconfined(other, ProcessSettings(allow_unconfined_renderer=True)) is None
