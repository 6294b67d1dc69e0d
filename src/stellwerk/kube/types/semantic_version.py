"""The order of versions (Semantic Versioning 2.0.0, section 11). Pure.

A version may be short: 1 and 1.0 are 1.0.0. Build metadata does not count. A text that is no version comes before all
versions.
"""

from __future__ import annotations

import re
from typing import TypeAlias

Number: TypeAlias = tuple[int, str]
"""The length of a number without leading zeros, and its digits: `int` refuses numbers of thousands of digits."""
Precedence: TypeAlias = tuple[bool, tuple[Number, ...], bool, tuple[tuple[bool, Number, str], ...]]

_NUMBER = r"(0|[1-9][0-9]*)"
_VERSION = re.compile(rf"{_NUMBER}(?:\.{_NUMBER})?(?:\.{_NUMBER}(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?)?")


def precedence(version: str) -> Precedence:
    """A key that sorts versions; of equal ones neither comes first."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (False, (), False, ())
    numbers = tuple(_number(part or "") for part in match.group(1, 2, 3))
    tail = match[4] or ""
    return (True, numbers, not tail, tuple(_identifier(part) for part in tail.split(".")) if tail else ())


def _identifier(part: str) -> tuple[bool, Number, str]:
    """Numbers come before words, and compare as numbers."""
    return (False, _number(part), "") if part.isdecimal() else (True, _number(""), part)


def _number(digits: str) -> Number:
    significant = digits.lstrip("0")
    return len(significant), significant
