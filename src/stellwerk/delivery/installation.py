"""What a cluster needs before a process of an operator starts, and how the local system starts it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from stellwerk.delivery import grants
from stellwerk.delivery.grants import Grant, OperatorAccount
from stellwerk.delivery.limited_grants import LimitedGrants, Limits
from stellwerk.kube.schema.crd import Definition
from stellwerk.kube.types.model import JsonObject, dig
from stellwerk.runtime.access.permission_check import Need, Rights
from stellwerk.runtime.process.process import OperatorIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A port at which a process serves requests, besides those of metrics and probes."""

    name: str
    """Of the port of the container, at most 15 characters."""
    flag: str
    """The flag that sets it, without dashes."""
    number: int
    """In a pod."""


ClientConfig: TypeAlias = Callable[[str], JsonObject]
"""How an API server reaches a path of a webhook: an admission `clientConfig`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhooks:
    """Admission webhooks that a process serves, and how API servers learn of them.

    Their configurations may refuse every write while the process does not answer. So they are no part of
    `Installation.objects`: they are applied once a process is ready.
    """

    port: str
    """The name of the port that serves them."""
    service: str
    """The Service in front of it, in a cluster."""
    service_flag: str
    """The flag that names this Service, without dashes."""
    certificate_flags: Callable[[str], Sequence[str]]
    """The flags by which the process serves the certificate in a folder: `tls.crt` and `tls.key`."""
    certificate_file: Callable[[Sequence[str], Mapping[str, str]], str]
    """The file of the certificate that a process serves by its arguments and variables; empty: it is in `secret`."""
    secret: str
    """The Secret in the namespace of the process, under whose `ca.crt` it keeps what API servers have to trust."""
    configurations: Callable[[ClientConfig, str], Sequence[JsonObject]]
    """The configurations as manifests, made of the way to the process and of its namespace."""

    @property
    def names(self) -> frozenset[str]:
        """The names of the webhooks in the configurations, as API servers have them in their messages."""
        bodies = self.configurations(lambda _: {}, "")
        listed = (webhooks for body in bodies if isinstance(webhooks := body.get("webhooks"), list))
        return frozenset(str(dig(webhook, "name")) for webhooks in listed for webhook in webhooks)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantsIn:
    """Rights of an account in a namespace that is not its own."""

    role: str
    """What follows the account in the names of the Role and of its binding."""
    namespace: str
    setting: str = ""
    """The field of the setting that names another namespace; empty: none does."""
    grants: tuple[Grant, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """What a cluster needs before the process starts, and how the local system starts it."""

    namespace: str
    account: str
    """The ServiceAccount in `namespace` that the process acts as."""
    lease: str = ""
    """The Lease by which replicas of the operator, and the original, agree on the leader. A server has none."""
    definitions: tuple[Definition, ...] = ()
    original: str = ""
    """The name of the original's Deployment, in front of which Helm may put the name of a release; empty: none."""
    grants: tuple[Grant, ...] = ()
    """The rights of the account. Without `manifests` it has them in the whole cluster, by a role and a binding that are
    named like it."""
    home_grants: tuple[Grant, ...] = ()
    """The rights of the account in `namespace`; the role and its binding are named like the account."""
    grants_in: tuple[GrantsIn, ...] = ()
    """The rights of the account in other namespaces, wherever it is."""
    limited: LimitedGrants | None = None
    """The rights of the account if it works on some namespaces only; None if it cannot be limited to some."""
    ports: tuple[Port, ...] = ()
    webhooks: Webhooks | None = None
    manifests: Callable[[str], Sequence[JsonObject]] | None = None
    """Accounts, roles and their bindings in a namespace of the operator, where the grants are not all of them."""
    further: Callable[[OperatorAccount], Sequence[JsonObject]] = lambda _: ()
    """What the account has besides the grants, without `manifests`: roles and their bindings."""
    name_of_roles: str = ""
    """The beginning of the names of roles for users: those that may view, edit or administer a namespace may do so with
    the definitions, too. Empty: there are none."""
    cluster_admin: Callable[[str], Sequence[JsonObject]] | None = None
    """The binding of the account to cluster-admin, where the original has it. The local system applies it; the chart
    only where its values ask for it."""
    local_flags: Callable[[Path], Sequence[str]] = lambda _: ()
    """The flags in the local system, whose folder is the argument; may write files there."""
    local_environment: Mapping[str, str] = field(default_factory=dict)
    image_variable: str = ""
    """The environment variable in which the pods get their own image; empty: they do not need it."""
    passed_values: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Environment variables in which the pods get values of the chart, as JSON: name, and keys at the root."""
    files: Callable[[], Mapping[str, str]] = dict
    """Further generated files of the repository: path and text."""

    def objects(self) -> list[JsonObject]:
        """All of it as manifests: namespace, kinds, accounts and roles."""
        admin = self.cluster_admin(self.namespace) if self.cluster_admin else ()
        places = dict.fromkeys((self.namespace, *(each.namespace for each in self.grants_in)))
        namespaces: list[JsonObject] = [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": each}} for each in places
        ]
        return [
            *namespaces,
            *(definition.body() for definition in self.definitions),
            *self.accounts(),
            *self.roles_of_users(),
            *admin,
        ]

    def roles_of_users(self) -> Sequence[JsonObject]:
        """The roles with the definitions for users, each added to the rights of who may do the same in a namespace."""
        if not self.name_of_roles:
            return ()
        kinds = [definition.versions[0].kind.resource for definition in self.definitions]
        return grants.roles_of_users(self.name_of_roles, kinds)

    def identity(self, limits: Limits | None = None) -> OperatorIdentity:
        """The identity of a process with these grants: account, Lease, and the rights that it asks about."""
        rights = Rights(self.needs(limits), "stellwerk install")
        return OperatorIdentity(component=self.account, lease=self.lease, namespace=self.namespace, rights=rights)

    def needs(self, limits: Limits | None = None) -> tuple[Need, ...]:
        """Each right of the grants, to be asked about; those of a process with `limits`."""
        if limits is not None and self.limited is not None:
            return (*self.limited.needs(limits), *grants.needs(self.home_grants, at_home=True))
        placed = (
            replace(need, namespace=each.namespace) for each in self.grants_in for need in grants.needs(each.grants)
        )
        return (*grants.needs(self.grants), *grants.needs(self.home_grants, at_home=True), *placed)

    @property
    def every_grant(self) -> tuple[Grant, ...]:
        """All rights of the account, wherever it has them."""
        return (*self.grants, *self.home_grants, *(each for placed in self.grants_in for each in placed.grants))

    def placed(self, namespace_of: Callable[[str], str]) -> Installation:
        """The same with rights in the namespaces that settings name. `namespace_of`: takes the field of a setting."""
        grants_in = (
            replace(each, namespace=namespace_of(each.setting)) if each.setting else each for each in self.grants_in
        )
        return replace(self, grants_in=tuple(grants_in))

    def accounts(self, namespace: str = "", limits: Limits | None = None) -> Sequence[JsonObject]:
        """The account with the least rights that it needs; `namespace` is where the operator runs, if not as usual."""
        if self.manifests is not None:
            return self.manifests(namespace or self.namespace)

        account = grants.OperatorAccount(self.account, namespace or self.namespace)
        if limits is not None and self.limited is not None:
            return [account.body(), *self.limited.objects(account, self.home_grants, limits)]
        role = grants.cluster_role(self.account, [grant.rule for grant in self.grants])
        made = [account.body(), role, account.is_given_everywhere(self.account, binding=self.account)]
        if self.home_grants:
            rules = [grant.rule for grant in self.home_grants]
            made.append(grants.role(self.account, account.namespace, rules))
            made.append(account.is_given_at_home(self.account, binding=self.account))
        for placed in self.grants_in:
            name = f"{self.account}-{placed.role}"
            made.append(grants.role(name, placed.namespace, [grant.rule for grant in placed.grants]))
            made.append(account.is_given_in(placed.namespace, name))
        return [*made, *self.further(account)]
