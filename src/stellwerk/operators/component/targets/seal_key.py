"""The key of the operator's seals: a Secret in the operator's own namespace, created once and read once per process.

Every replica and every later version reads the same key. Without the Secret, a new key is created: what was sealed with
the former one is not believed any more, until the next pass on each Component seals it again.

Where the key cannot be had for lack of a right, the operator works on: it records no identities, and Components with
delete hooks show a condition that names the cause.
"""

from __future__ import annotations

import base64
import logging
import secrets
from dataclasses import dataclass, field

from stellwerk.api.core import Secret
from stellwerk.kube.client import conditional
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import BadRequest, Forbidden, Invalid, NotFound
from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.component.api import RECONCILER, SEALS
from stellwerk.runtime.clock import Clock

TYPE = f"{RECONCILER}/seals"
_ENTRY = "key"
_BYTES = 32
_RETRY_SECONDS = 60.0
_REFUSALS = (Forbidden, NotFound, Invalid, BadRequest)

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class SealKey:
    """Reads the key, or creates it. `namespace` is the operator's own."""

    client: Client
    namespace: str
    clock: Clock
    why: str = ""
    """Why there is no key; empty where there is one."""
    _key: bytes | None = field(default=None, repr=False)
    _again_at: float = field(default=float("-inf"))

    async def __call__(self) -> bytes | None:
        """The key; None where there is none, for the reason `why`. Raises ApiError where there is no answer."""
        if self._key is None and self.clock.monotonic() >= self._again_at:
            self._key = await self._read()
        return self._key

    async def _read(self) -> bytes | None:
        try:
            found = await self.client.find(Secret, SEALS, self.namespace) or await self._created()
        except _REFUSALS as error:
            self._wait(str(error))
            return None
        key = found.decoded().get(_ENTRY, b"")
        if found.type != TYPE or len(key) < _BYTES:
            self._wait(f"Secret {self.namespace}/{SEALS} holds no key; delete it, and a new one is created")
            return None
        self.why = ""
        return key

    async def _created(self) -> Secret:
        body: JsonObject = {
            "metadata": {"name": SEALS, "namespace": self.namespace},
            "type": TYPE,
            "immutable": True,
            "data": {_ENTRY: base64.b64encode(secrets.token_bytes(_BYTES)).decode()},
        }
        # Another replica may have been faster: the caller looks at what the Secret holds.
        return (await conditional.ensure(self.client, Secret, body, lambda _: True)).obj

    def _wait(self, why: str) -> None:
        self.why = why
        self._again_at = self.clock.monotonic() + _RETRY_SECONDS
        _log.warning("identities and delete hooks of Components are not sealed: %s", why)
