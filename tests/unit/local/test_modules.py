"""The two Go programs are built one after the other, with one cache of compiled packages."""

from __future__ import annotations

import re
from pathlib import Path

NATIVE = Path(__file__).parents[3] / "native"


def versions(program: str) -> dict[str, str]:
    """The version of each module that a program is made of."""
    text = (NATIVE / program / "go.mod").read_text()
    required = dict(re.findall(r"^\t(\S+) (v\S+)", text, re.M))
    return required | dict(re.findall(r"^\t(\S+) => \S+ (v\S+)", text, re.M))


def test_a_module_of_both_programs_has_one_version_so_that_it_is_compiled_once() -> None:
    plane, renderer = versions("localkube"), versions("renderer")
    shared = plane.keys() & renderer.keys()
    assert "k8s.io/client-go" in shared
    assert {name: (plane[name], renderer[name]) for name in shared if plane[name] != renderer[name]} == {}
