"""What a local cluster may be called, and where it is.

A name becomes a folder that `down` removes with everything in it, so it must not lead out of where clusters lie.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

RULE = "up to 63 letters, digits, - and _, beginning with a letter or digit"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")


def is_name(text: str) -> bool:
    """Whether a cluster may have this name."""
    return bool(_NAME.fullmatch(text))


def state_folder() -> Path:
    """Where clusters live: $STELLWERK_STATE, or `stellwerk` in the user's state folder."""
    if own := os.environ.get("STELLWERK_STATE"):
        return Path(own)
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "stellwerk"


def has_systems() -> bool:
    """Whether there is a local system on this machine: what knows more of them is imported only then."""
    return any(state_folder().glob("*/cluster.json"))
