"""What the API server remarked about an object that it took, fit to be shown. Pure.

The words are the server's, or those of a webhook, and may quote values. Of a Secret only names of fields are passed on,
as with refusals (`failures`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from stellwerk.apply.objects.desired import Address

HIDDEN = "the API server remarked something that is not shown, because it may quote a value of the Secret"
MOST_WORDS = 256

_FIELD = re.compile(r'^(unknown|duplicate) field "([^"]+)"$')


def shown(address: Address, remarks: Iterable[str]) -> tuple[str, ...]:
    """The remarks, each once, in order."""
    return tuple(dict.fromkeys(_shown(address, remarks)))


def _shown(address: Address, remarks: Iterable[str]) -> Iterator[str]:
    for remark in remarks:
        line = " ".join(remark.split())
        if address.is_secret and not _FIELD.fullmatch(line):
            yield HIDDEN
        else:
            yield line if len(line) <= MOST_WORDS else f"{line[: MOST_WORDS - 1]}…"
