"""The locks: do they name everything by hash (no network), and is a vulnerability known in it (network)?"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from deploy.image import debian
from deploy.image.build import BILL
from deploy.image.python import ROOT

from stellwerk.local.errors import BuildFailed

LOCKS = ("requirements.lock", "deploy/tools/uv.lock", "deploy/tools/go.lock")
"""Of Python packages."""
_PINNED = re.compile(r"[a-z0-9][a-z0-9._-]*(?:\[[a-z0-9,._-]+\])?==\S+(?: ;.*)?")
_HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")
_BASE = re.compile(r"^FROM\s+(?P<image>\S+)", re.MULTILINE)
_DEFAULT = re.compile(r"^ARG (?P<name>\w+)=(?P<value>\S+)$", re.MULTILINE)
_SHA256 = re.compile(r"[0-9a-f]{64}")


def check() -> None:
    """Raises BuildFailed if something that the image or its builder is made of is not named by hash."""
    problems = [f"{name}: {problem}" for name in LOCKS for problem in unpinned((ROOT / name).read_text())]
    problems += [
        f"{debian.LOCK.name}: {package.name} has no SHA-256"
        for package in debian.locked()
        if _SHA256.fullmatch(package.sha256) is None
    ]
    problems += [f"Dockerfile: {base}" for base in unpinned_bases((debian.HERE / "Dockerfile").read_text())]
    if problems:
        raise BuildFailed(
            "not everything is named by hash", cause="\n         ".join(problems), fix="make the locks again: make lock"
        )


def unpinned(lock: str) -> list[str]:
    """What a lock of Python packages does not name by version and hash."""
    lines = [line.strip() for line in lock.replace("\\\n", " ").splitlines()]
    return [
        entry.partition(" ")[0]
        for entry in lines
        if entry and not entry.startswith("#") and not _is_pinned(entry.partition("--hash")[0].strip(), entry)
    ]


def unpinned_bases(dockerfile: str) -> list[str]:
    """The base images that a Dockerfile does not name by digest. One that the caller names is checked in the build."""
    bases = [found["image"] for found in _BASE.finditer(dockerfile)]
    defaults = {found["name"]: found["value"] for found in _DEFAULT.finditer(dockerfile)}
    named: list[str] = [defaults.get(base.strip("${}"), base) for base in bases]
    return [base for base in named if base != "scratch" and not base.startswith("$") and "@sha256:" not in base]


def scan(folder: Path) -> None:
    """Ask a database of vulnerabilities about everything locked. Needs the network. Raises BuildFailed."""
    for program, arguments in _scanners(folder):
        if (path := shutil.which(program)) is not None:
            if subprocess.run([path, *arguments], cwd=ROOT, check=False).returncode != 0:  # noqa: S603 - no shell
                cause = f"{program} found a vulnerability, or could not reach its database: the lines above state which"
                fix = "raise the version (make lock, make image-lock), or start again with access to the network"
                raise BuildFailed("the scan did not pass", cause=cause, fix=fix)
            return
    raise BuildFailed(
        "cannot scan",
        cause="there is neither osv-scanner nor pip-audit on the path",
        fix="install osv-scanner (https://google.github.io/osv-scanner/), then start again: make scan",
    )


def _scanners(folder: Path) -> Iterator[tuple[str, list[str]]]:
    bill = folder / BILL
    of_image = ["--lockfile", str(bill)] if bill.is_file() else []
    of_python = [part for name in LOCKS for part in ("--lockfile", f"requirements.txt:{name}")]
    yield "osv-scanner", ["scan", "source", *of_python, *of_image]
    yield "pip-audit", ["--require-hashes", "--disable-pip", *(part for name in LOCKS for part in ("-r", name))]


def _is_pinned(requirement: str, entry: str) -> bool:
    return _PINNED.fullmatch(requirement) is not None and _HASH.search(entry) is not None
