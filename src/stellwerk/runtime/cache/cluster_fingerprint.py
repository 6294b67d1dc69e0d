"""What distinguishes a cluster from all others: a kubeconfig may lead to another cluster tomorrow.

The fingerprint is the uid of the namespace kube-system. If that may not be read, it is `NAMESPACE/UID` of the namespace
default, or of the one where the objects go; else `ca:` and the digest of the authority of the server's certificate.

A kind keeps the fingerprint in the status of its object, compares it before it writes, and writes nothing to another
cluster until a user confirms that. Two kubeconfigs that lead to one cluster have the same fingerprint.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from stellwerk.api.core import Namespace
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import Forbidden
from stellwerk.kube.types.model import metadata_of
from stellwerk.runtime.clock import Clock

_UID_SECONDS = 60.0
"""For how long it is believed which cluster this is."""
_SYSTEM = "kube-system"
_AUTHORITY = "ca:"
"""No name of a namespace has a colon."""


@dataclass(slots=True)
class ClusterFingerprint:
    """Reads it, and believes each part for a minute."""

    client: Client
    clock: Clock
    _uids: dict[str, tuple[str, float]] = field(default_factory=dict)
    """By namespace, its uid and when it was read; an empty one if there is no such namespace that we may read."""

    async def read(self, former: str = "", namespace: str = "") -> str:
        """The fingerprint, at most a minute old; empty if nothing distinguishes the cluster. Raises ApiError.

        `namespace`: where the objects go. What `former` was taken from is looked at first, because two different things
        cannot be compared.
        """
        authority = self._authority()
        if former.startswith(_AUTHORITY) and authority:
            return authority
        known = former.rpartition("/")[0] if former and not former.startswith(_AUTHORITY) else ""
        for place in dict.fromkeys((known or _SYSTEM, _SYSTEM, "default", namespace)):
            if place and (uid := await self._uid_of(place)):
                return uid if place == _SYSTEM else f"{place}/{uid}"
        return authority

    async def _uid_of(self, namespace: str) -> str:
        now = self.clock.monotonic()
        uid, read_at = self._uids.get(namespace, ("", float("-inf")))
        if now - read_at >= _UID_SECONDS:
            try:
                found = await self.client.find(metadata_of(Namespace), namespace)
            except Forbidden:
                found = None
            uid = found.metadata.uid if found is not None else ""
            self._uids[namespace] = (uid, now)
        return uid

    def _authority(self) -> str:
        certificates = self.client.config.authority.read()
        return f"{_AUTHORITY}{hashlib.sha256(certificates).hexdigest()[:32]}" if certificates else ""
