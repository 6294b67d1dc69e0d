"""An operator is started, watched, hurt and ended as a process, and leaves nothing."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from stellwerk.local.host.ports import free_port
from stellwerk.testing.eventually import eventually
from stellwerk.testing.processes.operator_process import OperatorFailed, OperatorProcess

HEALTHY = """
import http.server, os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
class Health(http.server.BaseHTTPRequestHandler):
    asked = 0
    def do_GET(self):
        Health.asked += 1
        self.send_response(200 if Health.asked > 2 else 500)
        self.end_headers()
    def log_message(self, *_): pass
print("started with", os.environ.get("KUBECONFIG"), os.environ.get("EXTRA"), os.environ.get("SECRET"), flush=True)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Health).serve_forever()
"""
SLEEPS = "import signal; print('up', flush=True); signal.pause()"
STUBBORN = (
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True)\nwhile True: signal.pause()"
)
WITH_A_CHILD = """
import signal, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
print("child", child.pid, flush=True)
signal.pause()
"""

Start = Callable[..., OperatorProcess]


@pytest.fixture
async def operator(tmp_path: Path) -> AsyncIterator[Start]:
    """Makes operators that run a piece of Python, and ends them."""
    async with AsyncExitStack() as open_ones:

        def make(program: str, *arguments: str, health_url: str = "") -> OperatorProcess:
            made = python(program, *arguments, log=tmp_path / "log", health_url=health_url)
            open_ones.push_async_exit(made)
            return made

        yield make


def python(
    program: str, *arguments: str, log: Path, health_url: str = "", grace_seconds: float = 30.0
) -> OperatorProcess:
    return OperatorProcess(
        [sys.executable, "-c", program, *arguments],
        log=log,
        kubeconfig=Path("/given/kubeconfig"),
        environment={"EXTRA": "more"},
        health_url=health_url,
        grace_seconds=grace_seconds,
        children_seconds=0.5,
    )


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_it_is_started_with_what_it_was_given_and_awaited(
    operator: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "of the developer")
    port = free_port()
    running = operator(HEALTHY, str(port), health_url=f"http://127.0.0.1:{port}/readyz")
    await running.start()
    assert running.is_running
    assert running.log_text() == "started with /given/kubeconfig more None\n"
    assert await running.terminate() == 0


async def test_it_is_killed_and_started_again_under_a_new_id(operator: Start) -> None:
    running = operator(SLEEPS)
    await running.start()
    first = running.pid
    await running.logged("up")
    await running.kill()
    assert (running.exit_code, is_alive(first)) == (-signal.SIGKILL, False)
    await running.restart()
    assert running.is_running
    assert running.pid != first
    await running.logged("up\nup")


async def test_it_is_frozen_and_thawed(operator: Start) -> None:
    counts = "import itertools\nfor number in itertools.count(): print(number, flush=True)"
    running = operator(counts)
    await running.start()
    await running.logged("^100$")
    await running.freeze()
    size = running.log.stat().st_size
    assert running.is_running
    assert running.log.stat().st_size == size
    running.thaw()
    await eventually(lambda: running.log.stat().st_size > size)


async def test_one_that_ends_before_it_is_ready_says_why(operator: Start) -> None:
    running = operator("import sys; sys.exit('no KUBECONFIG')", health_url=f"http://127.0.0.1:{free_port()}/")
    with pytest.raises(OperatorFailed, match=r"(?s)ended with 1 before it was ready.*no KUBECONFIG"):
        await running.start()


async def test_one_that_is_never_ready_says_what_its_health_said(operator: Start) -> None:
    port = free_port()
    running = operator(SLEEPS, health_url=f"http://127.0.0.1:{port}/")
    running.log.write_text("what it said last\n")
    with pytest.raises(OperatorFailed, match=r"(?s)not ready after 1 s: .* answers ClientConnectorError.*said last"):
        await running.start(ready_within=1)


async def test_one_that_does_not_stop_fails_the_test_and_is_gone(tmp_path: Path) -> None:
    running = python(STUBBORN, log=tmp_path / "log", grace_seconds=0.2)

    async def leave_it_running() -> None:
        async with running:
            await running.start()
            await running.logged("up")

    with pytest.raises(OperatorFailed, match=r"still runs after 0\.2 s"):
        await leave_it_running()
    assert not is_alive(running.pid)


async def test_a_child_that_lives_on_fails_the_test_and_is_gone(tmp_path: Path) -> None:
    running = python(WITH_A_CHILD, log=tmp_path / "log")
    children: list[int] = []

    async def kill_the_parent() -> None:
        async with running:
            await running.start()
            children.append(int((await running.logged(r"child (\d+)"))[1]))
            await running.kill()

    with pytest.raises(OperatorFailed, match="children of the operator lived on"):
        await kill_the_parent()
    await eventually(lambda: not is_alive(children[0]))


def test_it_dies_with_the_test_process(tmp_path: Path) -> None:
    test = f"""
import asyncio, os, signal, sys
from pathlib import Path
from stellwerk.testing.processes.operator_process import OperatorProcess
async def main():
    running = OperatorProcess([sys.executable, "-c", {SLEEPS!r}], log=Path({str(tmp_path / "log")!r}))
    await running.start()
    await running.logged("up")
    print(running.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    ended = subprocess.run([sys.executable, "-c", test], capture_output=True, timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    asyncio.run(eventually(lambda: not is_alive(int(ended.stdout))))


async def test_a_traceback_in_the_log_is_found_unless_it_was_expected(operator: Start) -> None:
    running = operator("raise LookupError('a bug')")
    await running.start()
    assert await running.wait() == 1
    with pytest.raises(OperatorFailed, match=r"(?s)has 'Traceback \(most recent call last\)'.*a bug"):
        running.assert_clean_log()
    running.assert_clean_log(expected=["Traceback"])
