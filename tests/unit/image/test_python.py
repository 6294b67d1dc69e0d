"""What the image has of Python packages, and their extension modules."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import uvloop.loop
from deploy.image import elf, python
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def test_the_image_gets_what_the_product_needs_with_hashes_and_nothing_else() -> None:
    """Compared with the requirements that the installed packages declare."""
    listed = python.requirements(python.LOCK.read_text())
    names = re.findall(r"^([a-z0-9][\w.-]*)==", listed, re.MULTILINE)
    assert set(names) == _closure("stellwerk", {"fast", "otel"})
    for entry in re.split(r"^(?=[a-z0-9])", listed, flags=re.MULTILINE)[1:]:
        assert "--hash=sha256:" in entry


def test_an_entry_of_the_lock_keeps_its_condition_and_all_its_hashes() -> None:
    lock = (
        "click==8.5.1 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n"
        "    # via\n    #   stellwerk (pyproject.toml)\n"
        "colorama==0.4.6 ; sys_platform == 'win32' \\\n    --hash=sha256:cc\n    # via click\n"
        "pytest==9.1 \\\n    --hash=sha256:dd\n    # via stellwerk (pyproject.toml:dev)\n"
        "pluggy==1.7.0 \\\n    --hash=sha256:ee\n    # via pytest\n"
    )
    assert python.requirements(lock) == lock[: lock.index("pytest==")]


def test_an_extension_module_without_debugging_information_still_loads(tmp_path: Path) -> None:
    original = Path(uvloop.loop.__file__)
    content = original.read_bytes()
    cut = elf.loadable(content)
    assert len(cut) < len(content) / 2
    (tmp_path / original.name).write_bytes(cut)
    script = (
        "import importlib.machinery as m, importlib.util as u, sys, uvloop\n"
        "spec = u.spec_from_file_location('uvloop.loop', sys.argv[1])\n"
        "module = u.module_from_spec(spec); spec.loader.exec_module(module)\n"
        "loop = module.Loop(); print(loop.run_until_complete(loop.create_task(__import__('asyncio').sleep(0, 'ran'))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / original.name)], capture_output=True, text=True, check=False
    )
    assert done.stdout == "ran\n", done.stderr


def test_what_is_no_elf_file_stays_as_it_is() -> None:
    assert elf.loadable(b"#!/bin/sh\n") == b"#!/bin/sh\n"
    assert elf.loadable(b"") == b""


def _closure(name: str, extras: set[str]) -> set[str]:
    """The names of all requirements of an installed package, without its own."""
    listed: set[tuple[str, str]] = set()
    remaining = {(name, extra) for extra in {"", *extras}}
    while remaining:
        package, extra = remaining.pop()
        listed.add((package, extra))
        of_image = {"extra": extra, "python_version": python.VERSION, "python_full_version": f"{python.VERSION}.5"}
        for requirement in map(Requirement, importlib.metadata.requires(package) or []):
            if requirement.marker is None or requirement.marker.evaluate(of_image):
                needed = canonicalize_name(requirement.name)
                remaining |= {(needed, extra) for extra in {"", *requirement.extras}} - listed
    return {package for package, _ in listed} - {name}
