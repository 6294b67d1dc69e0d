"""The parts of an image reference, as charts take them. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

_REFERENCE = re.compile(
    r"(?P<repository>[A-Za-z0-9][A-Za-z0-9._:/-]*?)(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?"
    r"(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)


@dataclass(frozen=True, slots=True)
class ImageReference:
    """`registry.example.com/stellwerk:1.2@sha256:…` in parts; tag and digest may be empty."""

    repository: str
    tag: str = ""
    digest: str = ""

    @classmethod
    def parse(cls, text: str) -> ImageReference:
        """The parts of a reference. Raises ValueError."""
        found = _REFERENCE.fullmatch(text)
        if found is None:
            raise ValueError("expected an image such as registry.example.com/stellwerk:1.2.3")
        return cls(found["repository"], found["tag"] or "", found["digest"] or "")
