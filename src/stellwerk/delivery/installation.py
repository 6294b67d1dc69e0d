"""What a cluster needs before an operator starts, and how the local system starts it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stellwerk.delivery import grants
from stellwerk.delivery.grants import Grant
from stellwerk.kube.schema.crd import Definition
from stellwerk.kube.types.model import JsonObject
from stellwerk.runtime.access.permission_check import Rights
from stellwerk.runtime.process.process import OperatorIdentity


def _no_flags(_: Path) -> Sequence[str]:
    return ()


def _no_files() -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """What a cluster needs before the operator starts, and how the local system starts it."""

    namespace: str
    account: str
    """The ServiceAccount in `namespace` that the operator acts as."""
    lease: str
    """The Lease by which replicas of the operator, and the original, agree on the leader."""
    definitions: tuple[Definition, ...]
    grants: tuple[Grant, ...] = ()
    """The rights of the account in the whole cluster; the role and its binding are named like the account."""
    manifests: Callable[[str], Sequence[JsonObject]] | None = None
    """Accounts, roles and their bindings in a namespace of the operator, where `grants` are not all of them."""
    cluster_admin: Callable[[str], Sequence[JsonObject]] | None = None
    """The binding of the account to cluster-admin, where the original has it. The local system applies it; the chart
    only where its values ask for it."""
    local_flags: Callable[[Path], Sequence[str]] = _no_flags
    """The flags in the local system, whose folder is the argument; may write files there."""
    local_environment: Mapping[str, str] = field(default_factory=dict)
    files: Callable[[], Mapping[str, str]] = _no_files
    """Further generated files of the repository: path and text."""

    def objects(self) -> list[JsonObject]:
        """All of it as manifests: namespace, kinds, accounts and roles."""
        admin = self.cluster_admin(self.namespace) if self.cluster_admin else ()
        namespace: JsonObject = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        return [namespace, *(definition.body() for definition in self.definitions), *self.accounts(), *admin]

    def identity(self) -> OperatorIdentity:
        """The identity of a process with these grants: account, Lease, and the rights that it asks about."""
        rights = Rights(grants.needs(self.grants), "stellwerk install")
        return OperatorIdentity(component=self.account, lease=self.lease, namespace=self.namespace, rights=rights)

    def accounts(self, namespace: str = "") -> Sequence[JsonObject]:
        """The account with the least rights that it needs; `namespace` is where the operator runs, if not as usual."""
        if self.manifests is not None:
            return self.manifests(namespace or self.namespace)

        account = grants.OperatorAccount(self.account, namespace or self.namespace)
        role = grants.cluster_role(self.account, [grant.rule for grant in self.grants])
        return [account.body(), role, account.is_given_everywhere(self.account, binding=self.account)]
