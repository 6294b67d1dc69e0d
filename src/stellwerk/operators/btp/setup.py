"""What the BTP Manager watches, and which change wakes whom.

Everything a pass reads is watched: a module resource that is edited, a Secret that appears, a ServiceInstance that goes
all arrive as events, so nothing is polled and a calm module costs nothing. Only labelled objects are cached, Secrets
without their values: the cluster may hold thousands of foreign ones.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from stellwerk.api.admission import MutatingWebhookConfiguration, ValidatingWebhookConfiguration
from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.apps import Deployment
from stellwerk.api.btp import ServiceBinding, ServiceInstance
from stellwerk.api.core import ConfigMap, Pod, Secret, Service, ServiceAccount
from stellwerk.api.networking import NetworkPolicy
from stellwerk.api.rbac import ClusterRole, ClusterRoleBinding, Role, RoleBinding
from stellwerk.apply.execute import Report
from stellwerk.kube.model import Kind, PartialObjectMetadata, Unstructured, metadata_of, unstructured
from stellwerk.kube.names import ObjectKey, Resource
from stellwerk.kube.watch_states import Parked
from stellwerk.operators.btp import api
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.operators.btp.settings import Settings
from stellwerk.runtime.informer import Delta, Informer
from stellwerk.runtime.manager import Manager

Cache: TypeAlias = Informer[PartialObjectMetadata] | Informer[Unstructured]
VISIBLE_WITHIN_SECONDS = 30.0
OURS_OR_BROKERS = f"{api.MANAGED_BY_LABEL} in ({api.OPERATOR_NAME},{api.BROKER_NAME})"

MODULE_KINDS = (
    ConfigMap,
    CustomResourceDefinition,
    Deployment,
    ClusterRole,
    ClusterRoleBinding,
    Role,
    RoleBinding,
    Service,
    ServiceAccount,
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
    NetworkPolicy,
)
"""What every release of the module consists of; watched from the start, others when a release brings them."""


@dataclass(slots=True)
class Caches:
    """The informers of the operator. `resources` holds one per resource of the module, Secrets excepted.

    Everything is watched in all namespaces, by label or name: the chart namespace is a tunable that may change while we
    run.
    """

    informer: Callable[[Resource], Informer[Unstructured]]
    """Opens the informer over our objects of a further resource."""
    operators: Informer[BtpOperator]
    tunables: Informer[ConfigMap]
    secrets: Informer[PartialObjectMetadata]
    cluster_id_secrets: Informer[PartialObjectMetadata]
    pods: Informer[Pod]
    users: dict[Resource, Informer[PartialObjectMetadata]] = field(default_factory=dict)
    """What users have: service instances and bindings, watched from when their kinds are served."""
    resources: dict[Resource, Informer[Unstructured]] = field(default_factory=dict)

    def of_users(self, kind: type[Kind]) -> Collection[PartialObjectMetadata]:
        """All service instances, or all bindings, as they are now; none while the kind is not served."""
        informer = self.users.get(kind.resource)
        return informer.store.all() if informer is not None else ()

    async def cover(self, needed: Iterable[Resource]) -> None:
        """Watch these resources too, and return when their caches are full or known to be impossible."""
        for resource in needed:
            if resource != Secret.resource and resource not in self.resources:
                self.resources[resource] = self.informer(resource)
                await self.resources[resource].wait_settled()

    def of_module(self) -> Iterator[Sight]:
        """Where everything of the module is looked up."""
        yield self.secrets
        yield from self.resources.values()

    def expect(self, report: Report) -> None:
        """What was written must be seen before the next pass, where it can be."""
        for informer, key, version in self._shown_by(report):
            informer.expect(key, version)

    async def show(self, report: Report) -> None:
        """Return when what was written is seen, where it can be: until then it would be taken for deleted by others.

        A cache that is long behind holds up nothing for ever.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(VISIBLE_WITHIN_SECONDS):
                for informer, key, _ in self._shown_by(report):
                    if (write := informer.expected(key)) is not None:
                        await write.visible()

    def _shown_by(self, report: Report) -> Iterator[tuple[Cache, ObjectKey, str]]:
        """Which cache will show each object that was written, and at which version."""
        for outcome in report.written:
            if outcome.live is not None:
                resource, key = outcome.address.resource, outcome.address.key
                informer = self.secrets if resource == Secret.resource else self.resources[resource]
                if not is_forbidden(informer):
                    yield informer, key, outcome.live.metadata.resource_version


class Sight(Protocol):
    """An informer, as far as it tells whether it sees anything."""

    @property
    def parked(self) -> Parked | None: ...


def is_forbidden(informer: Sight) -> bool:
    """Whether we may not look there: what such a cache does not hold may be there all the same."""
    return informer.parked is not None and informer.parked.is_forbidden


def caches(manager: Manager, *, wake: Callable[[], None], settings: Settings) -> Caches:
    """The informers over everything that a pass looks at. `wake` is called when an object of ours changes."""

    def informer(resource: Resource) -> Informer[Unstructured]:
        opened = manager.informer(unstructured(resource), labels=api.MANAGED_SELECTOR)
        opened.on_change(lambda _: wake())
        return opened

    opened = Caches(
        informer=informer,
        operators=manager.informer(BtpOperator),
        tunables=manager.informer(
            ConfigMap, namespace=settings.chart_namespace, fields=f"metadata.name={settings.config_name}"
        ),
        secrets=manager.informer(metadata_of(Secret), labels=OURS_OR_BROKERS),
        cluster_id_secrets=manager.informer(metadata_of(Secret), fields=f"metadata.name={api.CLUSTER_ID_SECRET_NAME}"),
        pods=manager.informer(Pod, labels=api.OPERAND_POD_SELECTOR),
        resources={kind.resource: informer(kind.resource) for kind in MODULE_KINDS},
    )
    for kind in (ServiceInstance, ServiceBinding):
        _open_when_served(manager, kind, opened.users, wake)
    return opened


def _open_when_served(
    manager: Manager,
    kind: type[Kind],
    users: dict[Resource, Informer[PartialObjectMetadata]],
    wake: Callable[[], None],
) -> None:
    """Watch a kind of users from when its definition is established; asking before would only be refused."""

    def on_change(delta: Delta[CustomResourceDefinition]) -> None:
        if delta.new is None or not delta.new.is_established:
            return
        if kind.resource in users:
            users[kind.resource].wake()
            return
        users[kind.resource] = manager.informer(metadata_of(kind))
        users[kind.resource].on_change(lambda _: wake())

    definition = manager.informer(CustomResourceDefinition, fields=f"metadata.name={kind.resource.group_resource}")
    definition.on_change(on_change)
