"""The second cluster of the demo ends with the process that holds it, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

from stellwerk.testing.eventually import eventually


async def test_the_second_cluster_ends_with_its_process_which_is_asked_again_and_again(tmp_path: Path) -> None:
    words = (sys.executable, "-m", "stellwerk.testing.servers.demo_fleet", "own")
    process = await asyncio.create_subprocess_exec(*words, env={**os.environ, "STELLWERK_STATE": str(tmp_path)})
    pids = tmp_path / "own-fleet" / "run"
    await eventually(lambda: (pids / "kube-apiserver.pid").exists(), within=60, describe="the API server starts")

    def has_ended() -> bool:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        return process.returncode is not None

    await eventually(has_ended, within=60, describe="it ends, although it is asked again and again")
    assert process.returncode == 0
    assert os.listdir(tmp_path) == []
