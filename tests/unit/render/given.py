"""Requests, and a renderer whose native program is a double."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.render.files.files import Files
from stellwerk.render.request.request import ClusterApis, ReleaseInfo, Rendered, RenderRequest

PREFIX = "example.com"


def fake_program(folder: Path) -> Path:
    """The double as a program."""
    program = folder / "renderer"
    source = Path(__file__).with_name("fake_renderer.py").read_text()
    program.write_text(f"#!{sys.executable} -ISB\n{source}")
    program.chmod(0o700)
    return program


def request(
    values: JsonObject | None = None,
    files: Mapping[str, bytes | str] | Mapping[str, str] | None = None,
    **changes: Any,
) -> RenderRequest:
    """A request; `values` tell the double what to do."""
    defaults = RenderRequest(
        files=Files.of(files or {"a.yaml": "kind: A"}),
        prefix=PREFIX,
        release=ReleaseInfo("app", "default"),
        values=values or {},
        cluster=ClusterApis({"gitVersion": "v1.36.3"}),
    )
    return dataclasses.replace(defaults, **changes)


def said(rendered: Rendered, *path: str) -> JsonValue:
    """What the double tells of itself and of what it was asked."""
    value: JsonValue = rendered.objects[0]
    for key in path:
        assert isinstance(value, dict)
        value = value[key]
    return value


def pid(rendered: Rendered) -> int:
    found = said(rendered, "about", "pid")
    assert isinstance(found, int)
    return found


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
