"""What people break, what `stellwerk why` must say about it, and its next step, run as it was printed."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import subprocess
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from stellwerk.testing.eventually import eventually
from tests.cluster.program import CommandLine, Ended
from tests.kubectl import PROGRAM

ROOT = "<- root cause"
_COMMAND = re.compile(r"(?:^|[ (`])((?:kubectl|stellwerk) (?:'[^']*'|\"[^\"]*\"|[^;,()`'\"]|,(?! ))+)")
_ENVIRONMENT = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
_TRIED = ("patch", "delete", "create", "annotate", "label", "scale", "apply")
"""Verbs of kubectl whose command is run without effect."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What `why` must say of an object."""

    subject: str
    """As an argument of `why`."""
    cause: Sequence[str]
    """Words of the root causes."""
    step: str
    """How a command of the next step begins; empty if nothing has to be done. Each command of the step is run."""
    never: Sequence[str] = ()
    """Words of false turns, nowhere in the answer."""
    headline: str = ""
    """Words of the first line: how the object is, and since when."""


@dataclass(frozen=True, slots=True)
class Judge:
    """Asks `why`, and runs what it advises."""

    kubeconfig: Path
    command_line: CommandLine

    async def judge(self, namespace: str, expected: Expected) -> None:
        """Return when the answer is right. Raises AssertionError if it stays wrong, or if a command fails."""

        async def answers() -> str:
            told = await self._stellwerk(["why", expected.subject, "-n", namespace])
            problem = fault(told, expected)
            assert not problem, f"{problem}\n{told.stdout}{told.stderr}"
            return told.stdout

        told = await eventually(answers, within=40, describe=f"why {expected.subject} -n {namespace} names the cause")
        for command in commands(told):
            done = await self.run(command)
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}\n{told}"

    async def run(self, command: str) -> Ended:
        """Run a command that was printed; one of kubectl that writes is only tried."""
        program, *words = shlex.split(command)
        if program == "stellwerk":
            return await self._stellwerk(words)
        if words[0] in _TRIED:
            words.append("--dry-run=server")
        if words[0] == "logs":  # no container runs here: its pod exists, that is all
            words = ["get", *(["pod"] if "/" not in words[1] else []), *words[1:]]
        return await asyncio.to_thread(self._kubectl, words)

    def _kubectl(self, words: Sequence[str]) -> Ended:
        return subprocess.run(
            [PROGRAM, *words],
            env={**_ENVIRONMENT, "KUBECONFIG": str(self.kubeconfig), "KUBE_EDITOR": "true"},
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )

    async def _stellwerk(self, words: Sequence[str]) -> Ended:
        environment = {**_ENVIRONMENT, "KUBECONFIG": str(self.kubeconfig)}
        return await asyncio.to_thread(self.command_line.run, words, environment)


def fault(told: Ended, expected: Expected) -> str:
    """What is wrong with an answer; empty if nothing is (pure)."""
    if told.returncode:
        return f"why ended with {told.returncode}"
    text = told.stdout
    roots = "\n".join(" ".join(line.split()) for line in text.splitlines() if ROOT in line)
    if absent := [words for words in expected.cause if words not in roots]:
        return f"the root cause lacks {absent}"
    if wrong := [words for words in expected.never if words in text]:
        return f"false turn: {wrong}"
    if expected.headline not in text.partition("\n")[0]:
        return f"the first line lacks {expected.headline}"
    if not expected.step:
        return f"nothing has to be done, and it advises {commands(text)}" if commands(text) else ""
    is_advised = any(command.startswith(expected.step) for command in commands(text))
    return "" if is_advised else f"the next step has no command {expected.step}"


def commands(told: str) -> list[str]:
    """The commands of the next step, as printed."""
    steps = [line.removeprefix("Next: ") for line in told.splitlines() if line.startswith("Next: ")]
    return [found.strip() for step in steps for found in _COMMAND.findall(step)]


async def all_of(rows: Sequence[tuple[str, Callable[[], Awaitable[None]]]]) -> None:
    """Try all rows, four at a time; fail with all that went wrong."""
    limit = asyncio.Semaphore(4)

    async def tried(name: str, row: Callable[[], Awaitable[None]]) -> str:
        async with limit:
            try:
                await row()
            except AssertionError as error:
                return f"== {name}: {error}"
        return ""

    wrong = [each for each in await asyncio.gather(*(tried(*row) for row in rows)) if each]
    assert not wrong, "\n".join([f"{len(wrong)} of {len(rows)}", *wrong])
