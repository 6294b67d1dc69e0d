"""What a cluster serves, as templates see it, and whether that may have changed."""

from __future__ import annotations

from dataclasses import dataclass

from stellwerk.kube.client.client import Client
from stellwerk.render.request import request
from stellwerk.render.request.capabilities import facts_of
from stellwerk.runtime.clock import Clock

_FACTS_SECONDS = 60.0
"""For how long it is believed what a cluster serves; templates ask for it in every rendering."""
_UNKNOWN_SECONDS = 5.0
"""The same while an API service of the cluster does not answer, so that some of its kinds are unknown."""
_DOUBT_SECONDS = 10.0
"""For how long nothing of that is believed after a definition has changed. An API server takes a moment to serve what
it has accepted, and a set that waited for the kind is rendered at once."""
_DOUBTED_FACTS_SECONDS = 1.0
"""How old an answer may be meanwhile: hundreds of sets may be rendered in that time, and each answer is three requests
and all of discovery."""


@dataclass(slots=True)
class ServedApis:
    """What one cluster serves: the same for every identity, and held once."""

    clock: Clock
    life_seconds: float = _FACTS_SECONDS
    were_asked_for: bool = False
    doubted_until: float = float("-inf")
    _facts: request.ClusterApis | None = None
    _facts_at: float = 0.0
    _changes: int = 0

    def changed(self) -> None:
        """A definition of kinds came, changed or went. What a cache shows as it fills wakes no set."""
        self._facts = None
        self._changes += 1
        if self.were_asked_for:
            self.doubted_until = self.clock.monotonic() + _DOUBT_SECONDS

    async def facts(self, client: Client) -> request.ClusterApis:
        """What the cluster serves, at most `life_seconds` old, and asked for again where it may just have changed.

        Raises ApiError.
        """
        now, changes = self.clock.monotonic(), self._changes
        if now < self.doubted_until:
            if self._facts is not None and now - self._facts_at < _DOUBTED_FACTS_SECONDS:
                return self._facts
            client.mapper.invalidate()
        elif self._facts is not None and self.doubted_until <= self._facts_at:
            life = _UNKNOWN_SECONDS if self._facts.unknown else self.life_seconds
            if now - self._facts_at < life:
                return self._facts
        self.were_asked_for = True
        found = await facts_of(client)
        if changes == self._changes:  # otherwise it may be what there was before
            self._facts, self._facts_at = found, now
        return found
