"""What the BTP Manager watches, and which objects a change wakes.

Everything a pass reads is watched: a module resource that is edited, a Secret that appears, a ServiceInstance that goes
all arrive as events, so nothing is polled and a calm module costs nothing. Only labelled objects are cached, Secrets
without their values: the cluster may hold thousands of foreign ones.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TypeAlias, TypeVar

from stellwerk.api.admission import MutatingWebhookConfiguration, ValidatingWebhookConfiguration
from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.apps import Deployment
from stellwerk.api.btp import ServiceBinding, ServiceInstance
from stellwerk.api.core import ConfigMap, Pod, Secret, Service, ServiceAccount
from stellwerk.api.networking import NetworkPolicy
from stellwerk.api.rbac import ClusterRole, ClusterRoleBinding, Role, RoleBinding
from stellwerk.apply.set.object_set import SetProgress
from stellwerk.kube.client.client import Target
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import (
    HasMetadata,
    Kind,
    PartialObjectMetadata,
    Unstructured,
    metadata_of,
    unstructured,
)
from stellwerk.operators.btp import api
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.operators.btp.settings import Settings
from stellwerk.runtime.cache.informer import Delta, Informer
from stellwerk.runtime.clock import wait_at_most
from stellwerk.runtime.process.manager import Manager

T = TypeVar("T", bound=HasMetadata)
Metadata: TypeAlias = Informer[PartialObjectMetadata]
Cache: TypeAlias = Metadata | Informer[Unstructured]
VISIBLE_WITHIN_SECONDS = 30.0
SETTLED_WITHIN_SECONDS = 5.0
"""How long passes wait for the first list of users' objects; before any of them is deleted, the API server is asked."""
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


class WatchedSecrets:
    """The Secrets that we need, as metadata: those with our label or the broker's in the chart namespace, and by name
    the operand's own and its credentials where these are kept in another namespace.

    A tenant can put our label on a Secret in a namespace of its own, so no other namespace is looked at.
    """

    def __init__(self, manager: Manager, chart_namespace: str, wake: Callable[[], None]) -> None:
        self._manager = manager
        self._handlers: list[Callable[[Delta[PartialObjectMetadata]], None]] = [lambda _: wake()]
        self._chart_namespace = chart_namespace
        self._opened: dict[tuple[str, str], Metadata] = {}
        self._watched: tuple[str, ...] = (chart_namespace,)
        """The namespaces where we look, the chart namespace first."""
        self.sights()

    def on_change(self, handler: Callable[[Delta[PartialObjectMetadata]], None]) -> None:
        """Call the handler for each change of any of these Secrets."""
        self._handlers.append(handler)
        for informer in self._opened.values():
            informer.on_change(handler)

    async def cover(self, chart_namespace: str, others: Collection[str]) -> None:
        """Look into these namespaces and no others; return when the caches are full or known to be impossible."""
        self._chart_namespace = chart_namespace
        self._watched = (chart_namespace, *sorted({*others} - {chart_namespace}))
        for informer in self.sights():
            await informer.wait_settled()

    def of(self, key: ObjectKey) -> Metadata | None:
        """The informer that shows a Secret; None for one that we do not watch."""
        if key.namespace not in self._watched:
            return None
        if key.name == api.CLUSTER_ID_SECRET_NAME:
            return self._cluster_id_in(key.namespace)
        is_watched = key.namespace == self._chart_namespace or key.name == api.OPERAND_SECRET_NAME
        return self._labelled_in(key.namespace) if is_watched else None

    def get(self, key: ObjectKey) -> PartialObjectMetadata | None:
        """A Secret, as far as it is watched."""
        informer = self.of(key)
        return informer.store.get(key) if informer is not None else None

    def ours(self) -> Iterator[PartialObjectMetadata]:
        """The Secrets that carry our label, in all namespaces where we look."""
        for informer in self.labelled():
            for secret in informer.store.all():
                if secret.metadata.labels.get(api.MANAGED_BY_LABEL) == api.OPERATOR_NAME:
                    yield secret

    def cluster_ids(self) -> Iterator[PartialObjectMetadata]:
        """The Secrets that the operand writes for itself, in all namespaces where we look."""
        for namespace in self._watched:
            yield from self._cluster_id_in(namespace).store.all()

    def labelled(self) -> list[Metadata]:
        """The informers over Secrets with a label."""
        return [self._labelled_in(namespace) for namespace in self._watched]

    def sights(self) -> list[Metadata]:
        """All informers that are looked at."""
        return [*self.labelled(), *map(self._cluster_id_in, self._watched)]

    def _labelled_in(self, namespace: str) -> Metadata:
        if namespace == self._chart_namespace:
            return self._informer(namespace, labels=OURS_OR_BROKERS)
        return self._informer(namespace, fields=f"metadata.name={api.OPERAND_SECRET_NAME}")

    def _cluster_id_in(self, namespace: str) -> Metadata:
        return self._informer(namespace, fields=f"metadata.name={api.CLUSTER_ID_SECRET_NAME}")

    def _informer(self, namespace: str, *, labels: str = "", fields: str = "") -> Metadata:
        """The informer over these Secrets, opened when it is first asked for."""
        place = namespace, labels or fields
        if place not in self._opened:
            view = metadata_of(Secret)
            self._opened[place] = self._manager.informer(view, namespace=namespace, labels=labels, fields=fields)
            for handler in self._handlers:
                self._opened[place].on_change(handler)
        return self._opened[place]


USUAL_KINDS = frozenset(kind.resource.gvk for kind in (*MODULE_KINDS, Secret))
"""Kinds of Kubernetes itself."""


class Caches:
    """The informers of the operator. `wake` is called when an object of ours, or of users, changes.

    Objects in namespaces are watched in the chart namespace alone: elsewhere tenants may put our label on what they
    like, as often as they like. That namespace is a tunable which may change while we run.
    """

    def __init__(self, manager: Manager, *, wake: Callable[[], None], settings: Settings) -> None:
        self._manager = manager
        self._wake = wake
        self._watched: set[object] = set()
        self.namespace = settings.chart_namespace
        """The chart namespace that is watched."""
        self.secrets = WatchedSecrets(manager, self.namespace, wake)
        self.operators = manager.informer(BtpOperator, required=True)
        # Not awaited: a BtpOperator names what keeps them from being read.
        name = f"metadata.name={settings.config_name}"
        self.tunables = manager.informer(ConfigMap, namespace=self.namespace, fields=name, required=True, awaited=False)
        self.pods = self._pods()
        self.resources = {kind.resource: self._of_ours(kind.resource) for kind in MODULE_KINDS}
        """One for each resource of the module, Secrets excepted."""
        self.users: dict[Resource, Metadata] = {}
        """What users have: service instances and bindings, watched from when their kinds are served."""
        self._patient_until: dict[Resource, float] = {}
        """Until when passes wait for the first list of each of them, by the clock."""
        for kind in (ServiceInstance, ServiceBinding):
            self._open_when_served(kind)

    async def follow(self, namespace: str) -> None:
        """Watch the module in this chart namespace."""
        if namespace == self.namespace:
            return
        self.namespace = namespace
        self.pods = self._pods()
        self.resources = {resource: self._of_ours(resource) for resource in self.resources}
        await self.pods.wait_settled()
        for informer in self.resources.values():
            await informer.wait_settled()

    def of_users(self, kind: type[Kind]) -> Collection[HasMetadata]:
        """All service instances, or all bindings, as they are now; none while the kind is not served."""
        informer = self.users.get(kind.resource)
        if informer is None:
            return ()
        return (*informer.store.all(), *(informer.unreadable[key] for key in informer.hidden))

    def may_have(self, kind: type[Kind]) -> bool:
        """Whether users have objects of one of their kinds, as far as the caches do not exclude it."""
        informer = self.users.get(kind.resource)
        if informer is None:
            return self.is_defined(kind)
        if informer.has_synced:
            return bool(self.of_users(kind))
        return informer.parked is None or not informer.parked.is_not_served

    def is_defined(self, kind: type[Kind]) -> bool:
        """Whether the cache of the module's definitions has the one of a kind of users."""
        definitions = self.resources[CustomResourceDefinition.resource].store
        return ObjectKey("", kind.resource.group_resource) in definitions

    async def users_settled(self) -> None:
        """Return when the caches of users' objects are full or known to be impossible, or that takes too long.

        The time counts from when a kind came to be served: a list that is refused for longer holds up no pass.
        """
        for resource, informer in [*self.users.items()]:  # a kind may come to be served while we wait
            left = self._patient_until.get(resource, 0.0) - self._manager.clock.monotonic()
            if left > 0:
                await wait_at_most(self._manager.clock, left, informer.wait_settled())

    def users_unseen(self) -> str:
        """Why users may have instances and bindings that the caches do not hold; empty where they hold all."""
        return next((informer.parked.why for informer in self.users.values() if informer.parked is not None), "")

    async def cover(self, needed: Iterable[Resource]) -> None:
        """Watch these resources too, and return when their caches are full or known to be impossible."""
        for resource in needed:
            if resource != Secret.resource and resource not in self.resources:
                self.resources[resource] = self._of_ours(resource)
                await self.resources[resource].wait_settled()

    def of_module(self) -> Iterator[Cache]:
        """Where everything of the module is looked up."""
        yield from self.secrets.labelled()
        yield from self.resources.values()

    def expect(self, progress: SetProgress) -> None:
        """What was written must be seen before the next pass, where it can be."""
        for informer, key, version in self._shown_by(progress):
            informer.expect(key, version)

    async def show(self, progress: SetProgress) -> None:
        """Return when what was written is seen, where it can be: until then it would be taken for deleted by others.

        A cache that is long behind holds up nothing for ever.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(VISIBLE_WITHIN_SECONDS):
                for informer, key, _ in self._shown_by(progress):
                    if (write := informer.expected(key)) is not None:
                        await write.visible()

    def _shown_by(self, progress: SetProgress) -> Iterator[tuple[Cache, ObjectKey, str]]:
        """Which cache will show each object that was written, and at which version."""
        for result in progress.carried:
            if result.live is not None:
                resource, key = result.address.resource, result.address.key
                informer = self.secrets.of(key) if resource == Secret.resource else self.resources[resource]
                if informer is not None and not informer.is_forbidden:
                    yield informer, key, result.live.metadata.resource_version

    def _pods(self) -> Informer[Pod]:
        return self._watch(Pod, self.namespace, api.OPERAND_POD_SELECTOR)

    def _of_ours(self, resource: Resource) -> Informer[Unstructured]:
        place = self.namespace if resource.namespaced else ""
        return self._watch(unstructured(resource), place, api.MANAGED_SELECTOR)

    def _watch(self, target: Target[T], namespace: str = "", labels: str = "") -> Informer[T]:
        """The informer over these objects, whose changes wake. Asked for again, it is the same one."""
        informer = self._manager.informer(target, namespace=namespace, labels=labels)
        if informer not in self._watched:
            self._watched.add(informer)
            informer.on_change(lambda _: self._wake())
        return informer

    def _open_when_served(self, kind: type[Kind]) -> None:
        """Watch a kind of users from when its definition is established until it is deleted; asking at any other time
        would only be refused."""

        def on_change(delta: Delta[CustomResourceDefinition]) -> None:
            informer = self.users.get(kind.resource)
            if informer is not None and delta.new is None:
                informer.suspend(f"{delta.latest.ref} was deleted, and with it all objects of its kind")
                self._patient_until.pop(kind.resource, None)
            elif informer is not None and delta.new is not None:
                informer.is_ending = delta.new.metadata.is_terminating
            if delta.new is None or not delta.new.is_established:
                return
            now = self._manager.clock.monotonic()
            self._patient_until.setdefault(kind.resource, now + SETTLED_WITHIN_SECONDS)
            if informer is not None:
                informer.resume()
            else:
                self.users[kind.resource] = self._watch(metadata_of(kind))

        name = f"metadata.name={kind.resource.group_resource}"
        self._manager.informer(CustomResourceDefinition, fields=name).on_change(on_change)


def why_blind(informer: Cache) -> str:
    """Why objects may exist that this cache does not hold, in a clause; empty where it holds all there are."""
    if informer.parked is not None:
        # Only a kind that a definition brings can be gone, with all its objects; those of Kubernetes are always there.
        absent = informer.parked.is_not_served and informer.view.resource.gvk not in USUAL_KINDS
        return "" if absent else informer.parked.why
    if not informer.has_synced:
        return f"the cache of {informer.name} is not filled yet"
    hidden = [informer.unreadable[key] for key in informer.hidden]
    return f"{hidden[0].ref} cannot be read: {hidden[0].why}" if hidden else ""
