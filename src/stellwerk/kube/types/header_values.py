"""Which text a header of HTTP may hold."""

from __future__ import annotations

import re

_UNFIT = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
"""Characters that no line of a head may hold: they would end it, and begin another one."""


def fits(value: str) -> bool:
    """Whether a header may have this value."""
    return not _UNFIT.search(value)
