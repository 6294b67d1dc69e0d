"""Seals: what the operator wrote down for later, bound to the Component, the target and the identity it is for (pure).

A deletion acts on what an earlier pass recorded: the identity that applied the objects, and the delete hooks in their
Secret. Others may edit both. So the status holds a seal for each, an HMAC with a key that only the operator can read,
and what does not fit its seal is not believed.

A seal covers the uid and name of the Component, so that a copy is worth nothing to another one; the target and the
cluster, so that hooks run only where their objects were applied; and the identity, so that they run with no other
rights. Seals of an earlier content of the same Component stay valid: that content was authorized once.

We refused a digest without a key (a client that may write the status could compute it) and a seal on the Secret itself
(previews, which have no key, would show a difference for ever).
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from enum import Enum

import msgspec

from stellwerk.kube.types.identifiers import ObjectKey

OPERATOR = "operator"
"""The identity of objects that the operator applied with its own rights."""
KUBECONFIG = "kubeconfig"
"""The identity of objects in another cluster: that of the Component's kubeconfig."""


class Purpose(Enum):
    """What is sealed."""

    IDENTITY = "identity"
    HOOKS = "delete-hooks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Where a seal is valid, and nowhere else."""

    home: str
    """Uid of the operator's own cluster."""
    component: ObjectKey
    uid: str
    target: ObjectKey
    """The namespace and name that the objects are applied under."""
    cluster: str = ""
    """Uid of the other cluster that the objects are in; empty: the operator's own, or unknown."""
    identity: str
    """The user that acts: a ServiceAccount, `OPERATOR`, or `KUBECONFIG`."""


@dataclass(frozen=True, slots=True)
class Signet:
    """Seals and checks in one scope. Without a key nothing is sealed, and nothing fits."""

    key: bytes | None = field(repr=False)
    scope: Scope

    def seal(self, purpose: Purpose, content: bytes = b"") -> str:
        """The seal of a content; empty without a key."""
        if self.key is None:
            return ""
        scope = self.scope
        bounds: list[object] = [purpose.value, scope.home, scope.component, scope.uid, scope.identity]
        if purpose is Purpose.HOOKS:
            bounds += [scope.target, scope.cluster, hashlib.sha256(content).hexdigest()]
        return f"v1:{hmac.digest(self.key, msgspec.json.encode(bounds), 'sha256').hex()}"

    def fits(self, seal: str, purpose: Purpose, content: bytes = b"") -> bool:
        """Whether the seal was made for this content in this scope."""
        expected = self.seal(purpose, content)
        return bool(expected) and hmac.compare_digest(seal.encode(errors="replace"), expected.encode())
