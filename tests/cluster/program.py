"""The program, run as a person does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

Ended = subprocess.CompletedProcess[str]

_ENVIRONMENT = {"PATH": os.environ["PATH"], "PYTHONUTF8": "1"}


def run(arguments: Sequence[str]) -> Ended:
    """Returns when it has ended. Raises TimeoutExpired after two minutes."""
    return subprocess.run(
        [sys.executable, "-m", "stellwerk.cli.main", *arguments],
        capture_output=True,
        encoding="utf-8",
        env={**_ENVIRONMENT, **_kept()},
        stdin=subprocess.DEVNULL,
        timeout=120,
        check=False,
    )


def _kept() -> dict[str, str]:
    return {
        name: os.environ[name]
        for name in ("HOME", "XDG_CACHE_HOME", "PYTHONPATH", "COVERAGE_PROCESS_START")
        if name in os.environ
    }
