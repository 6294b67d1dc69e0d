"""A set that keeps no inventory: caches show all its objects, by the marks of their owner.

The operator passes what the caches show, and gets the same plans, writes and throttling as with an inventory. It finds
objects that are no longer wanted by itself, for example by a label with their version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from stellwerk.apply.fields.managed_fields import CONTROL_PLANE, Claims, all_but
from stellwerk.apply.objects.desired import Address, Desired
from stellwerk.apply.set.model import need_order
from stellwerk.apply.set.model.confirmation import Live
from stellwerk.apply.set.model.desired_set import uniform
from stellwerk.apply.set.model.inventory import ObjectIdentity
from stellwerk.apply.set.model.owner import Ownership
from stellwerk.apply.set.model.policy import AdoptionPolicy, Directive, MissingNamespacesPolicy, Policies, UpdatePolicy
from stellwerk.apply.set.object_set import ObjectSet, SetProgress
from stellwerk.apply.set.observed_state import ObservedState
from stellwerk.apply.set.plan import plan_apply, plan_prune
from stellwerk.apply.set.plan.inventory_update import of_live, of_wanted
from stellwerk.apply.set.plan.plan_input import ApplyOptions, LiveObject
from stellwerk.apply.set.plan.stage import Stage
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.identifiers import Resource

EVERYTHING = all_but(CONTROL_PLANE)
"""The fields of all clients but the control plane are taken over."""

DIRECTIVE = Directive(adoption=AdoptionPolicy.ALWAYS, update=UpdatePolicy.SSA_OVERRIDE)
"""Objects are applied, and taken over from whichever owner they have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UntrackedSet:
    """One pass over such a set. `live` is what the caches show of it; Secrets as metadata."""

    client: Client
    owner: Ownership
    memory: ObservedState
    live: Mapping[Address, Live]
    now: datetime
    clock: float
    """The same moment on the clock of the memory, in seconds."""
    reclaims: Claims = EVERYTHING
    directive: Directive = DIRECTIVE
    digest_of: Callable[[Desired], str] | None = None
    """The hash of an object's content, for owners that write one."""

    def plan(self, desired: Iterable[Desired]) -> Stage:
        """What `apply` would write first. Pure."""
        wanted = uniform(desired, self.owner, self.directive, self.digest_of)
        return self._object_set().next_stage(
            partial(plan_apply.next_stage, wanted),
            of_wanted(wanted),
            self._seen(self.live),
            _resources(one.address for one in wanted),
        )

    async def apply(self, desired: Iterable[Desired]) -> SetProgress:
        """Write what is not as wanted, and nothing else. Raises ApiError where the cluster cannot be asked."""
        wanted = uniform(desired, self.owner, self.directive, self.digest_of)
        resources = _resources(one.address for one in wanted)
        return await self._object_set().apply(wanted, of_wanted(wanted), self._seen(self.live), resources)

    def plan_delete(self, unwanted: Mapping[Address, Live]) -> Stage:
        """What `delete` would delete. Pure."""
        seen = self._seen(unwanted)
        inventory = of_live(seen.values(), _delete_order(unwanted))
        return self._object_set().next_stage(plan_prune.of_set, inventory, seen, _resources(unwanted))

    async def delete(self, unwanted: Mapping[Address, Live], *, at_once: bool = False) -> SetProgress:
        """Delete what can be deleted now; what others need waits for the end of those (`need_order`).

        With `at_once` nothing waits.
        """
        seen = self._seen(unwanted)
        inventory = of_live(seen.values(), (lambda _: 0) if at_once else _delete_order(unwanted))
        return await self._object_set().delete(inventory, seen, _resources(unwanted), once=True)

    def _seen(self, objects: Mapping[Address, Live]) -> dict[ObjectIdentity, LiveObject]:
        return {ObjectIdentity.of(address.ref): LiveObject(address, live) for address, live in objects.items()}

    def _object_set(self) -> ObjectSet:
        return ObjectSet(
            client=self.client,
            owner=self.owner,
            policies=Policies(missing_namespaces=MissingNamespacesPolicy.DO_NOT_CREATE),
            options=apply_options(self.reclaims),
            memory=self.memory,
            namespace_exists=lambda _: None,
            now=self.now,
            clock=self.clock,
        )


def apply_options(reclaims: Claims) -> ApplyOptions:
    """How such sets are applied. Their operators judge readiness themselves, and only of the objects that matter."""
    return ApplyOptions(reclaims, need_order.apply_wave, repairs_drift=True, needs_readable_status=False)


def _delete_order(unwanted: Iterable[Address]) -> Callable[[Resource], int]:
    definitions = {address.key.name for address in unwanted if need_order.is_definition(address.resource)}
    return lambda resource: need_order.delete_wave(resource, definitions)


def _resources(addresses: Iterable[Address]) -> dict[ObjectIdentity, Resource]:
    return {ObjectIdentity.of(address.ref): address.resource for address in addresses}
