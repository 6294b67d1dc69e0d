"""What a person does: kubectl, from the environment that the tests run in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(sys.prefix) / "bin" / "kubectl"


def tried(kubeconfig: Path, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """What came of a command."""
    return subprocess.run(
        [PROGRAM, "--kubeconfig", kubeconfig, *arguments],
        input=stdin,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


def kubectl(kubeconfig: Path, *arguments: str, stdin: str = "") -> str:
    """What a command prints; it must succeed."""
    done = tried(kubeconfig, *arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout
