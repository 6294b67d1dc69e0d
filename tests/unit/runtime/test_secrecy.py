"""What leaves a pass shows none of the secret words that the pass has read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from aiohttp import web

from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.masking import WITHHELD
from stellwerk.kube.types.object_meta import Condition, ObjectMeta
from stellwerk.operators.component.api import Component
from stellwerk.operators.component.api_spec import ComponentSpec
from stellwerk.operators.component.api_status import NEW, ComponentStatus
from stellwerk.runtime.control import secrecy
from stellwerk.runtime.control.events import EventRecorder
from stellwerk.runtime.control.status_writer import StatusWriter
from stellwerk.runtime.reconciler import Notice, ReconcileError
from stellwerk.testing.checks.loop_stalls import LONGEST_STALL_SECONDS, measured_stalls
from stellwerk.testing.eventually import eventually

CANARY = "canary-value"


def component(status: ComponentStatus = NEW) -> Component:
    metadata = ObjectMeta(name="app", namespace="shop", uid="1", resource_version="7")
    return Component(metadata=metadata, spec=ComponentSpec(), status=status)


def status(message: str) -> ComponentStatus:
    condition = Condition(type="Ready", status="False", reason="Error", message=message)
    return ComponentStatus(observed_generation=1, conditions=(condition,))


@asynccontextmanager
async def api_server() -> AsyncIterator[tuple[Client, list[str]]]:
    """A server that takes each write; a client of it, and what was written."""
    bodies: list[str] = []

    async def take(request: web.BaseRequest) -> web.Response:
        bodies.append(await request.text())
        return web.json_response({"metadata": {"name": "app", "namespace": "shop", "resourceVersion": "8"}})

    runner = web.ServerRunner(web.Server(take, access_log=None), shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        async with Client.connect(ClusterConfig(server=f"http://127.0.0.1:{runner.addresses[0][1]}")) as client:
            yield client, bodies
    finally:
        await runner.cleanup()


@pytest.mark.req("R-804")
async def test_a_status_is_written_without_the_words_of_its_pass_in_whichever_way() -> None:
    async with api_server() as (client, bodies):
        writer = StatusWriter(client=client)
        with secrecy.reading():
            secrecy.note("secret shop/a", lambda: [CANARY])
            await writer.write(component(), status(f'Invalid value: "{CANARY}"'))
            await writer.write_in_place(component(), status(f"named {CANARY}"))
        assert len(bodies) == 2
        assert all(CANARY not in body and "***" in body for body in bodies)


async def test_a_status_that_was_masked_is_not_written_again() -> None:
    async with api_server() as (client, bodies):
        with secrecy.reading():
            secrecy.note("secret shop/a", lambda: [CANARY])
            shown = component(status("named ***"))
            assert await StatusWriter(client=client).write(shown, status(f"named {CANARY}")) is None
        assert bodies == []


@pytest.mark.req("R-804")
async def test_an_event_is_written_without_the_words_of_the_pass_that_sent_it() -> None:
    async with api_server() as (client, bodies):
        recorder = EventRecorder(client, component="test", instance="pod")
        with secrecy.reading():
            secrecy.note("secret shop/a", lambda: [CANARY])
            recorder.send(component(), Notice("Failed", f"named {CANARY}", annotations=(("a", f"x{CANARY}"),)))
        writing = asyncio.create_task(recorder.run())
        await eventually(lambda: bool(bodies) and not recorder.waiting, describe="the Event is written")
        writing.cancel()
        with suppress(asyncio.CancelledError):
            await writing
    assert CANARY not in bodies[0]
    assert '"note":"named ***"' in bodies[0].replace(": ", ":")


@pytest.mark.req("R-804")
async def test_only_the_words_of_the_own_pass_are_masked() -> None:
    """A mask in the status of one tenant would confirm a guess of the secret of another one."""

    async def one_pass(word: str) -> str:
        with secrecy.reading():
            secrecy.note("a secret", lambda: [word])
            await asyncio.sleep(0)
            return await secrecy.current().masked("canary-one and canary-two")

    first, second = await asyncio.gather(one_pass("canary-one"), one_pass("canary-two"))
    assert (first, second) == ("*** and canary-two", "canary-one and ***")
    assert await secrecy.current().masked("canary-one") == "canary-one"


@pytest.mark.req("R-804")
async def test_tasks_of_a_pass_note_words_for_it() -> None:
    async def read() -> None:
        secrecy.note("secret shop/a", lambda: [CANARY])

    with secrecy.reading():
        async with asyncio.TaskGroup() as reads:
            reads.create_task(read())
        failure = ReconcileError(f"cannot use {CANARY}")
        await secrecy.mask_failure(failure)
    assert str(failure) == "cannot use ***"


@pytest.mark.req("R-804")
async def test_words_that_are_noted_later_are_masked_in_texts_that_were_compared_before() -> None:
    with secrecy.reading():
        secrecy.note("secret shop/a", lambda: ["another"])
        assert await secrecy.current().masked(CANARY) == CANARY
        secrecy.note("secret shop/b", lambda: [CANARY])
        assert await secrecy.current().masked(CANARY) == "***"


@pytest.mark.req("R-804")
@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer canary.canary-canary",
        "https://user:canarycanary@host/path",
        "AGE-SECRET-KEY-1CANARYCANARY",
        "eyJhbGciOiJub25lIn0.eyJjYW5hcnkiOjF9.canary",
    ],
)
async def test_what_is_a_secret_by_its_form_is_masked_although_nothing_was_read(text: str) -> None:
    assert "canary" not in (await secrecy.current().masked(f"a server said {text}")).lower()


@pytest.mark.req("R-804", "R-412")
async def test_a_pass_that_has_read_too_many_words_shows_no_text_and_does_not_stall_the_loop() -> None:
    with secrecy.reading(), measured_stalls() as stalls:
        secrecy.note("secret shop/a", lambda: (f"word-{number}" for number in range(300_000)))
        assert await secrecy.current().masked("cannot use word-299999") == WITHHELD
    assert stalls.longest_seconds < LONGEST_STALL_SECONDS
