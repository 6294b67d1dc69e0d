"""Takes the module out of the cluster: users' instances where that was asked for, then everything of ours.

Every step looks at what is left and takes the next piece; what is already going is left to its deletion. So a step may
be repeated after a crash at any point. Where a deletion would cost users their services, the word of a cache is not
enough: the last look before their kinds go, and before the CR goes, is at the API server itself.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.btp import ServiceBinding, ServiceBindingSpec, ServiceInstance
from stellwerk.api.core import Secret
from stellwerk.apply.objects import name_validation
from stellwerk.apply.objects.desired import Address
from stellwerk.apply.set.model import need_order
from stellwerk.apply.set.model.confirmation import Live
from stellwerk.apply.set.model.inventory import ObjectIdentity
from stellwerk.apply.set.observed_state import ObservedState
from stellwerk.apply.set.untracked_set import UntrackedSet
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.errors import (
    ApiError,
    NotFound,
    NotServed,
    ServerTimeout,
    StatusError,
    Undecodable,
    Unexplained,
    Unreachable,
)
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import HasMetadata, JsonObject, Kind, PartialObjectMetadata, metadata_of
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.btp import api
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.operators.btp.btpoperator.observe import Observer
from stellwerk.operators.btp.btpoperator.plan import noted_time
from stellwerk.operators.btp.btpoperator.provisioning import module_set
from stellwerk.operators.btp.errors import RemovalFailed, or_fail
from stellwerk.operators.btp.settings import Settings
from stellwerk.runtime import conditions

User = TypeVar("User", ServiceBinding, ServiceInstance)
SOFT_DELETED_FIRST = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "Deployment", "NetworkPolicy")
"""The obstacles of removing finalizers: the operand would put them back, its webhooks would refuse the cut."""
NAMED_RESISTING = 3
"""How many bindings, and how many instances, are quoted when the hard way is given up."""
NAMED_CHARACTERS = 60
SWEEP_SECONDS = 120.0
"""For how long one pass asks for deletions at most: a pass that takes too long fails, and the next one goes on."""
CUT_SECONDS = 60.0
"""For how long one pass cuts finalizers. A user may have ten thousand objects, and a pass that takes too long fails."""


class BoundSecret(Kind, frozen=True, kw_only=True):
    """A binding of which only the name of its Secret is read: no other field can make it unreadable."""

    resource: ClassVar[Resource] = ServiceBinding.resource

    spec: ServiceBindingSpec = ServiceBindingSpec()


def owns(uid: str, metadata: ObjectMeta) -> bool:
    """Whether the object with this uid is the controller of another one."""
    return any(owner.controller and owner.uid == uid for owner in metadata.owner_references)


@dataclass(slots=True)
class Removal:
    """Removes users' instances and the module."""

    client: Client
    observer: Observer
    _definitions_asked: bool = False
    """Whether the deletion of users' kinds was asked for, and they have not been made again since."""
    _kept: list[str] = field(default_factory=list)
    """Secrets that bindings name and that stay, not reported yet."""
    _resisted: set[str] = field(default_factory=set)
    """Objects of users, by uid, that the last pass could not cut."""
    _refused: set[tuple[str, str]] = field(default_factory=set)
    """Kinds and namespaces of which the API server refused the deletion when it was last asked."""
    _memory: ObservedState = field(default_factory=ObservedState)
    """Objects of which the API server has taken the deletion: a cache that is behind must not ask again."""

    async def note_start(self, operator: BtpOperator, annotation: str) -> bool:
        """Remember on the CR when the sweep began, or was given up; returns whether that is now.

        So a restart does not restart the clock, and what fails after the sweep does not make the deletion hard again.
        The condition cannot remember it, because it then shows the failure.
        """
        now = self.observer.clock.now()
        if noted_time(operator, annotation, now) is not None:
            return False
        await self._note(operator, {annotation: now.isoformat(timespec="seconds")})
        return True

    async def forget_start(self, operator: BtpOperator) -> None:
        """The sweep was called off: one that begins later has its whole time again."""
        notes = (api.HARD_DELETE_STARTED_ANNOTATION, api.SOFT_DELETE_STARTED_ANNOTATION)
        if any(name in operator.metadata.annotations for name in notes):
            await self._note(operator, dict.fromkeys(notes))

    async def _note(self, operator: BtpOperator, notes: JsonObject) -> None:
        metadata: JsonObject = {"uid": operator.metadata.uid, "annotations": notes}
        name, namespace = operator.metadata.name, operator.metadata.namespace
        written = await self.client.patch(BtpOperator, name, namespace, MergePatch({"metadata": metadata}))
        self.observer.caches.operators.expect(operator.key, written.metadata.resource_version)

    async def sweep(self, *, with_instances: bool) -> bool:
        """Delete all bindings, and all instances where these do not wait for bindings any more.

        Returns whether every request was answered in time; what was not is for the next pass. Raises ApiError for what
        the API server refuses, when everything was asked for and answered: a refusal in one namespace must not leave
        the services of all others behind. Where it refuses bindings, instances need not wait for them. A refusal ends
        the hard way for good, so the API server itself is asked then where users have what no cache shows yet.
        """
        refusals: list[ApiError] = []
        answered = True
        try:
            async with asyncio.timeout(sweep_seconds(self.observer.settings())):
                of_bindings = _places(self.observer.caches.of_users(ServiceBinding))
                of_instances = _places(self.observer.caches.of_users(ServiceInstance))
                answered = await self._sweep(ServiceBinding, of_bindings, refusals)
                if with_instances or refusals:
                    answered &= await self._sweep(ServiceInstance, of_instances, refusals)
                if refusals and answered:
                    unseen = await self._places_now(ServiceBinding) - of_bindings
                    answered &= await self._sweep(ServiceBinding, unseen, refusals)
                    unseen = await self._places_now(ServiceInstance) - of_instances
                    answered &= await self._sweep(ServiceInstance, unseen, refusals)
        except (TimeoutError, Unreachable, ServerTimeout):
            answered = False
        if refusals and answered:
            raise refusals[0]
        return answered

    async def _places_now(self, kind: type[Kind]) -> set[str]:
        """The namespaces where the API server has objects of a kind; none if it refuses to list them.

        Raises Unreachable and ServerTimeout.
        """
        places: set[str] = set()
        try:
            async for page in self.client.pages(metadata_of(kind), skip_unreadable=True):
                places |= _places((*page.items, *page.unreadable))
        except (Unreachable, ServerTimeout):
            raise
        except ApiError:
            return set()
        return places

    async def _sweep(self, kind: type[User], namespaces: set[str], refusals: list[ApiError]) -> bool:
        plural, answered = kind.resource.plural, True
        # Those that refused come last: they may refuse slowly, and must not use up the time of all others.
        for namespace in sorted(namespaces, key=lambda name: ((plural, name) in self._refused, name)):
            try:
                await self.client.delete_collection(metadata_of(kind), namespace)
                self._refused.discard((plural, namespace))
            except (Unreachable, ServerTimeout):
                answered = False  # slow, not refused: a soft deletion would leave services behind for no reason
            except ApiError as error:
                refusals.append(error)
                self._refused.add((plural, namespace))
        return answered

    async def resisting(self) -> Sequence[str]:
        """What the hard delete did not delete, some of each kind, with its own message: "Kind place/name: why"."""
        return [*await self._quoted(ServiceBinding), *await self._quoted(ServiceInstance)]

    async def _quoted(self, kind: type[User]) -> list[str]:
        with suppress(ApiError):  # gone with its kind, or not readable: then the cause is unknown
            async for page in self.client.pages(kind, limit=NAMED_RESISTING):
                return [_in_its_own_words(item) for item in page.items]
        return []

    async def misses_bindings(self) -> bool:
        """Whether the API server has bindings of which the cache shows none: each kind has a watch of its own.

        Instances must not be cut before them. Raises RemovalFailed where that is unknown.
        """
        if self.observer.caches.of_users(ServiceBinding):
            return False
        return await or_fail(self._has_any(ServiceBinding), RemovalFailed)

    async def cut_loose(self) -> Sequence[str]:
        """The soft delete: delete the operand, then finalizers and Secrets of bindings, then finalizers of instances.

        One object that resists does not protect the others: each has its turn. Returns which Secrets stay, and why.
        Raises RemovalFailed naming the first objects that resist, and ApiError never.
        """
        await or_fail(self._delete_operand(), RemovalFailed)
        bound = self.observer.caches.of_users(ServiceBinding)
        cut = self._cut_all(ServiceBinding) if bound else self._cut_all(ServiceInstance)
        failures = await or_fail(cut, RemovalFailed)
        if failures:
            raise RemovalFailed(conditions.first_of(failures, NAMED_RESISTING, "; "))
        kept, self._kept = self._kept, []
        return kept

    async def _cut_all(self, kind: type[User]) -> list[str]:
        """Cut the objects of a kind, those that resisted before last. Returns what the API server refused."""
        failures: list[str] = []
        objects = sorted(
            self.observer.caches.of_users(kind), key=lambda user: (user.metadata.uid in self._resisted, user.key)
        )
        self._resisted.clear()
        with suppress(TimeoutError):  # many, not resisting: the next pass cuts the others
            async with asyncio.timeout(CUT_SECONDS):
                for user in objects:
                    try:
                        await self._cut(kind, user)
                    except StatusError as error:
                        self._resisted.add(user.metadata.uid)
                        failures.append(str(error))
        return failures

    def left(self) -> str:
        """What of the module is still there: how many of each kind, and what holds the first that is held."""
        present = self.observer.removable()
        kinds = Counter(address.resource.kind for address in present)
        held = next(
            (f"; {address.ref} is held by {why}" for address, live in present.items() if (why := _held(live))), ""
        )
        return f"{', '.join(f'{number} {kind}' for kind, number in sorted(kinds.items()))}{held}"

    def endangers_users(self) -> bool:
        """Whether the next step takes something away before the end of users' kinds is decided.

        It is decided once their definitions go. That none of them is seen decides nothing, unless we have deleted them.
        """
        module = self.observer.module().items()
        definitions = [(address, live) for address, live in module if need_order.is_definition(address.resource)]
        if any(not self._goes(address, live) for address, live in definitions):
            self._definitions_asked = False
        elif definitions or self._definitions_asked:
            return False
        return bool(self._set().plan_delete(self.observer.removable()).actions)

    async def users_have_nothing(self) -> bool:
        """Whether the API server itself knows no service instance and no binding.

        Raises ApiError, and RemovalFailed, where that is unknown.
        """
        for kind in (ServiceBinding, ServiceInstance):
            if await self._has_any(kind):
                return False
        return True

    async def step(self) -> bool:
        """Delete what can go now of the module; True when nothing is left. Raises RemovalFailed."""
        await self._delete_cluster_id_secrets()
        removable = self.observer.removable()
        if not removable:
            return True
        progress = await self._set().delete(removable)
        if progress.failures:
            raise RemovalFailed("; ".join(map(str, progress.failures)))
        self._definitions_asked |= any(need_order.is_definition(result.address.resource) for result in progress.carried)
        return False

    # Inside

    def _goes(self, address: Address, live: Live) -> bool:
        """Whether an object is being deleted, or its deletion was asked for and the cache does not show it yet."""
        removed = self._memory.removed.get(ObjectIdentity.of(address.ref))
        return live.metadata.is_terminating or (removed is not None and removed.uid == live.metadata.uid)

    def _set(self) -> UntrackedSet:
        return module_set(self.client, self.observer, self._memory)

    async def _has_any(self, kind: type[Kind]) -> bool:
        if not self.observer.caches.is_defined(kind) and not await self._is_defined(kind):
            return False  # one request in place of a list whose 404 would have to be explained by discovery
        try:
            async for page in self.client.pages(metadata_of(kind), limit=1, skip_unreadable=True):
                if page.items or page.unreadable:
                    return True
        except (NotFound, NotServed, Unexplained) as error:
            # A kind that is not served has no objects only where it is not defined: they may be there, out of reach.
            # Its definition decides, because discovery may list a deleted kind for seconds.
            if await self._is_defined(kind):
                raise RemovalFailed(f"{kind.resource.kind}s cannot be counted: {error}") from error
        return False

    async def _is_defined(self, kind: type[Kind]) -> bool:
        """Whether the API server has the definition of a kind."""
        definition = await self.client.find(metadata_of(CustomResourceDefinition), kind.resource.group_resource)
        return definition is not None

    async def _delete_cluster_id_secrets(self) -> None:
        """The operand's own Secret has no label of ours. It is next to the credentials, so it goes before them."""
        keys = [address.key for address in self.observer.removable()]
        places = {self.observer.chart_namespace}
        places |= {key.namespace for key in keys if key.name == api.OPERAND_SECRET_NAME}
        for secret in self.observer.caches.secrets.cluster_ids():
            key = secret.key
            if secret.metadata.is_terminating or key.namespace not in places:
                continue
            deletion = self.client.delete(metadata_of(Secret), key.name, key.namespace, uid=secret.metadata.uid)
            await or_fail(deletion, RemovalFailed)

    async def _delete_operand(self) -> None:
        for address, live in self.observer.removable().items():
            if address.resource.kind in SOFT_DELETED_FIRST and not live.metadata.is_terminating:
                target, key, uid = metadata_of(address.resource), address.key, live.metadata.uid
                await self.client.delete(target, key.name, key.namespace, uid=uid, propagation="Background")

    async def _cut(self, kind: type[User], user: HasMetadata) -> None:
        """Delete one object and take all finalizers off it; gone at any point is what we want."""
        target, name, namespace = metadata_of(kind), user.metadata.name, user.metadata.namespace
        found = await self.client.find(target, name, namespace)
        if found is None:
            return
        if kind is ServiceBinding and (why := await self._delete_secret_of(found)):
            # The Secret first: once its binding is gone, only the garbage collector knows whose it was.
            self._kept.append(why)
        uid = found.metadata.uid
        if not found.metadata.is_terminating:
            await self.client.delete(target, name, namespace, uid=uid)
        if found.metadata.finalizers:
            without = MergePatch({"metadata": {"uid": uid, "finalizers": None}})
            with suppress(NotFound):
                await self.client.patch(target, name, namespace, without)

    async def _delete_secret_of(self, binding: PartialObjectMetadata) -> str:
        """Delete the Secret that the operand wrote for a binding. Returns why it stays; empty where it goes or is gone.

        A user writes the name into the binding, so the name proves nothing: it could lead to any Secret, with our
        rights. The operand makes the binding the controller of the Secret, and that decides.
        """
        name, namespace = binding.metadata.name, binding.metadata.namespace
        try:
            read = await self.client.get(BoundSecret, name, namespace)
        except (NotFound, Undecodable):
            return ""  # the garbage collector deletes what the binding owns
        secret_name = read.spec.secret_name or name
        if not name_validation.is_subdomain(secret_name):
            return f"{read.ref} names {secret_name[:NAMED_CHARACTERS]!r}, which no Secret can be called"
        secret = await self.client.find(metadata_of(Secret), secret_name, namespace)
        if secret is None:
            return ""
        if not owns(binding.metadata.uid, secret.metadata):
            return f"Secret {secret.key} does not belong to {read.ref}, which names it"
        await self.client.delete(metadata_of(Secret), secret_name, namespace, uid=secret.metadata.uid)
        return ""


async def is_forced_still(client: Client, operator: BtpOperator) -> bool:
    """Whether the API server itself has this very CR, going, with the label that asks for users' objects.

    What is swept carries no uid of the CR, so a cache that is behind must not decide. Raises ApiError.
    """
    found = await client.find(metadata_of(BtpOperator), operator.metadata.name, operator.metadata.namespace)
    if found is None or found.metadata.uid != operator.metadata.uid:
        return False
    return found.metadata.is_terminating and found.metadata.labels.get(api.FORCE_DELETE_LABEL) == "true"


def sweep_seconds(settings: Settings) -> float:
    """For how long one pass asks for deletions (pure)."""
    return min(settings.delete_request_timeout.total_seconds(), SWEEP_SECONDS)


def _places(users: Iterable[HasMetadata]) -> set[str]:
    """The namespaces of objects whose deletion was not asked for yet."""
    return {user.metadata.namespace for user in users if not user.metadata.is_terminating}


def _in_its_own_words(user: ServiceBinding | ServiceInstance) -> str:
    said = next(
        (condition.message for condition in user.status.conditions if not condition.is_true and condition.message), ""
    )
    return f"{user.ref}: {said or 'it has no message'}"


def _held(live: Live) -> str:
    return ", ".join(live.metadata.finalizers) if live.metadata.is_terminating else ""
