"""The write of a pass on a Manifest that concerns many objects of a module at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from stellwerk.apply.errors import WriteFailed
from stellwerk.apply.fields.managed_fields import Claims
from stellwerk.apply.objects import json_edit
from stellwerk.apply.objects.desired import Address, Desired
from stellwerk.apply.set.model.confirmation import Live
from stellwerk.apply.set.model.desired_set import DesiredObject, uniform
from stellwerk.apply.set.model.inventory import ObjectIdentity
from stellwerk.apply.set.model.policy import AdoptionPolicy, Directive, MissingNamespacesPolicy, Policies, UpdatePolicy
from stellwerk.apply.set.object_set import ObjectSet
from stellwerk.apply.set.observed_state import ObservedState
from stellwerk.apply.set.plan import plan_apply
from stellwerk.apply.set.plan.inventory_update import of_wanted
from stellwerk.apply.set.plan.plan_input import LiveObject, PlanInput
from stellwerk.apply.set.plan.stage import Stage
from stellwerk.apply.set.untracked_set import apply_options
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.operators.kyma.collections import module_objects
from stellwerk.operators.kyma.manifest.objects import ModuleOwner
from stellwerk.operators.kyma.manifest.status import APPLY_FAILED
from stellwerk.runtime.cache.remote_clusters import Kubeconfig
from stellwerk.runtime.control.step import CONFLICT, Failure, Hands
from stellwerk.runtime.reading.view import Overlay

if TYPE_CHECKING:
    from stellwerk.delivery.step_preview import Draft

_FORCED = Directive(adoption=AdoptionPolicy.ALWAYS, update=UpdatePolicy.SSA_MERGE)
"""Fields of the module are taken from other clients; further fields of others stay."""
_OPTIONS = apply_options(Claims(lambda _: False))


@dataclass(frozen=True, slots=True)
class ModuleSet:
    """The objects of a module, as they should be and as they are seen."""

    owner: ModuleOwner
    wanted: tuple[DesiredObject, ...]
    live: Mapping[Address, Live]
    memory: ObservedState
    """What is known of them from answers of the API server. Losing it costs an apply for each object."""

    @classmethod
    def of(
        cls, owner: ModuleOwner, objects: Iterable[Desired], live: Mapping[Address, Live], memory: ObservedState
    ) -> ModuleSet:
        """All objects at once, as the original applies them: the readiness of some holds back no others."""
        wanted = tuple(replace(each, managed_types=()) for each in uniform(objects, owner, _FORCED))
        return cls(owner, wanted, live, memory)

    def stage(self, now: datetime) -> Stage:
        """What is to be written first. Pure."""
        state = PlanInput(
            owner=self.owner,
            options=_OPTIONS,
            seen=self._seen,
            resources=self._resources,
            confirmations=self.memory.confirmations,
            checked=self.memory.checked,
            now=now,
            clock=now.timestamp(),
        )
        return plan_apply.next_stage(self.wanted, of_wanted(self.wanted), state)

    async def apply(self, hands: Hands, cluster: Kubeconfig) -> None:
        """Write what is not as wanted. Ends the pass with what the API server refuses; raises ApiError."""
        place, now = hands.at(cluster), hands.clock.now()
        objects = ObjectSet(
            client=place.client,
            owner=self.owner,
            policies=Policies(missing_namespaces=MissingNamespacesPolicy.DO_NOT_CREATE),
            options=_OPTIONS,
            memory=self.memory,
            namespace_exists=lambda _: None,
            now=now,
            clock=now.timestamp(),
        )
        progress = await objects.apply(self.wanted, of_wanted(self.wanted), self._seen, self._resources)
        for each in progress.carried:
            if each.live is not None:
                place.learn(module_objects(each.address.resource), each.live)
        for address, live in progress.found.items():
            place.see(module_objects(address.resource), address.key, live)
        if progress.failures:
            failures = sorted(progress.failures, key=lambda each: each.ref)
            hands.fail(Failure(message=f"{WriteFailed(failures)}: {APPLY_FAILED}"))

    @property
    def _seen(self) -> dict[ObjectIdentity, LiveObject]:
        return {ObjectIdentity.of(each.ref): LiveObject(each, live) for each, live in self.live.items()}

    @property
    def _resources(self) -> dict[ObjectIdentity, Resource]:
        return {each.identity: each.address.resource for each in self.wanted}


@dataclass(frozen=True, slots=True)
class ApplyModule:
    """The objects of a module, applied in the order of their needs and side by side."""

    verbs: ClassVar[Mapping[str, str]] = {"create": "", "patch": "", "get": CONFLICT}

    objects: ModuleSet = field(compare=False)
    cluster: Kubeconfig = field(compare=False)
    why: tuple[tuple[Address, str], ...]
    """The objects that are not as wanted, with the digests of what is: two writes of the same are equal."""

    @property
    def about(self) -> str:
        """As `Write.about`."""
        return ", ".join(str(address) for address, _ in self.why)

    def describe(self, draft: Draft) -> None:
        """As `Described.describe`: the objects that are not as wanted."""
        part, due = draft.at(self.cluster, self.objects.owner.prefix), {address for address, _ in self.why}
        for each in self.objects.wanted:
            if each.address in due:
                part.apply(each.desired, "it is applied")

    async def perform(self, hands: Hands) -> None:
        """As `Write.perform`."""
        await self.objects.apply(hands, self.cluster)

    def rehearse(self, overlay: Overlay, now: datetime) -> None:
        """As `Write.rehearse`."""
        del now
        owner: list[JsonValue] = [{"manager": self.objects.owner.prefix, "operation": "Apply"}]
        for each in self.objects.wanted:
            collection = module_objects(each.address.resource)
            answered: JsonObject = {"managedFields": owner, "generation": 1}
            body = json_edit.merged(each.desired.body, answered, "metadata")
            overlay.on(self.cluster).put(collection, collection.shaped(body))
