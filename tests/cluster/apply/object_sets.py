"""The hands of the tests of rollouts: sets with an inventory, kept as an operator would, and others who meddle.

What a set is made of is seen as an operator's caches would show it: listed by the owner's label. It is read by another
user, so that the audit log of the operator's user holds what the object_set itself has asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from time import monotonic

from tests.kubectl import kubectl

from stellwerk.apply.objects.desired import Address
from stellwerk.apply.objects.discover import served
from stellwerk.apply.objects.manifests import read_text
from stellwerk.apply.set.checks.crd_usage import CrdUsage
from stellwerk.apply.set.model.confirmation import Live
from stellwerk.apply.set.model.desired_set import DesiredObject, prepared
from stellwerk.apply.set.model.inventory import Inventory, ObjectIdentity
from stellwerk.apply.set.model.owner import Owner
from stellwerk.apply.set.model.policy import Policies, UpdatePolicy
from stellwerk.apply.set.object_set import ObjectSet, ObservedState, SetProgress
from stellwerk.apply.set.plan.plan_input import ApplyOptions, LiveObject
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.errors import NotFound, NotServed
from stellwerk.kube.types.identifiers import GroupVersionKind, Resource
from stellwerk.kube.types.model import Unstructured, metadata_of, unstructured
from stellwerk.kube.types.object_meta import FieldManager
from stellwerk.local.cluster import LocalCluster
from stellwerk.testing.cluster import AuditEntry, AuditLog
from stellwerk.testing.eventually import eventually

R = "component-operator.cs.sap.com"
SSA = Policies(update=UpdatePolicy.SSA_OVERRIDE)
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", True)
NAMESPACES = Resource("", "v1", "Namespace", "namespaces", False)
DEFINITIONS = Resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False)


def annotated(text: str, **annotations: object) -> str:
    """A manifest with annotations of ours, `apply_order=1` for `.../apply-order: "1"`."""
    marks = ", ".join(f'{R}/{suffix.replace("_", "-")}: "{value}"' for suffix, value in annotations.items())
    return text.replace("metadata: {", f"metadata: {{annotations: {{{marks}}}, ", 1)


def joined(*manifests: str) -> str:
    """Manifests as one."""
    return "\n---\n".join(manifests)


@dataclass
class Place:
    """A test's part of the cluster: its namespace, the operator's client, and everybody else's."""

    client: Client
    """The operator's."""
    others: Client
    cluster: LocalCluster
    namespace: str
    user: str
    audit: AuditLog
    sets: list[KeptSet] = field(default_factory=list)

    def new_set(
        self,
        name: str = "one",
        *,
        policies: Policies = SSA,
        options: ApplyOptions | None = None,
        client: Client | None = None,
    ) -> KeptSet:
        """A set of an owner of its own."""
        owner = Owner(R, f"{self.namespace}/{name}")
        made = KeptSet(self, owner, policies=policies, options=options or ApplyOptions(), client=client or self.client)
        self.sets.append(made)
        return made

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """What a person does, under kubectl's own field managers."""
        text = stdin.replace("NAMESPACE", self.namespace)
        return kubectl(self.cluster.kubeconfig, "-n", self.namespace, *arguments, stdin=text)

    def requests(self) -> list[AuditEntry]:
        """What the operator asked since the last look."""
        found = self.audit.entries(lambda entry: entry.user == self.user)
        self.audit.mark()
        return found

    def asked(self) -> list[str]:
        """The same in short, in a fixed order: `list configmaps`, `patch configmaps a`."""
        return sorted(f"{each.verb} {each.resource} {each.name}".strip() for each in self.requests())

    async def find(self, kind: str, name: str, *, namespace: str | None = None) -> Unstructured | None:
        """An object as it is, Secrets too."""
        resource = await self._resource(kind)
        if resource is None:
            return None
        place = self.namespace if namespace is None else namespace
        try:
            return await self.others.find(unstructured(resource), name, place)
        except NotServed:
            return None

    async def body(self, kind: str, name: str, *, namespace: str | None = None) -> Unstructured:
        """An object that is there."""
        found = await self.find(kind, name, namespace=namespace)
        assert found is not None, f"{kind} {name} does not exist"
        return found

    async def managers(self, kind: str, name: str) -> list[FieldManager]:
        """Who wrote an object, statuses aside."""
        found = await self.body(kind, name)
        return [entry for entry in found.metadata.managers if not entry.subresource]

    async def _resource(self, kind: str) -> Resource | None:
        if kind == "Thing":
            return self.things
        return next((resource for resource in await self.others.mapper.all() if resource.kind == kind), None)

    async def discovery_tells_of_things(self) -> None:
        """Return when it does, which is a moment after they are served: kubectl knows no other way to them."""

        async def is_told() -> bool:
            self.others.mapper.invalidate()
            return self.things in await self.others.mapper.all()

        await eventually(is_told)

    @property
    def things(self) -> Resource:
        """The test's own kind."""
        return Resource(self.group, "v1", "Thing", "things", True)

    @property
    def group(self) -> str:
        """The group of the test's own kind."""
        return f"{self.namespace}.example.org"

    async def clean_up(self) -> None:
        """Remove what lies outside the namespace, which goes by itself."""
        for each in self.sets:
            await each.clean_up()
        await self.destroy(DEFINITIONS, f"things.{self.group}")

    async def destroy(self, resource: Resource, name: str, namespace: str = "") -> None:
        """Make an object go, whatever holds it."""
        view = metadata_of(resource)
        if await self.others.find(view, name, namespace) is not None:
            with suppress(NotFound):  # it may go by itself meanwhile
                await self.others.patch(view, name, namespace, MergePatch({"metadata": {"finalizers": None}}))
                await self.others.delete(view, name, namespace)


@dataclass
class KeptSet:
    """One set with its inventory, as the status of a custom resource would keep it, and a process that keeps it."""

    place: Place
    owner: Owner
    policies: Policies
    options: ApplyOptions
    client: Client
    inventory: Inventory = field(default_factory=Inventory)
    memory: ObservedState = field(default_factory=ObservedState)
    set_digest: str = "s1"
    passed: timedelta = timedelta()
    hidden: set[str] = field(default_factory=set)
    """Names of objects that the caches do not show."""
    knows_namespaces: bool = True
    watches_owners: bool = False
    """Whether its caches show what belongs to others."""

    # ---- the operator

    def now(self) -> datetime:
        """The time of day, moved on by `passes`."""
        return datetime.now(UTC) + self.passed

    def clock(self) -> float:
        """The process's clock, moved on by `passes`."""
        return monotonic() + self.passed.total_seconds()

    def passes(self, seconds: float) -> None:
        """Time goes on."""
        self.passed += timedelta(seconds=seconds)

    def restarts(self) -> None:
        """A new process takes over; it has the inventory and nothing else."""
        self.memory = ObservedState()

    async def wanted(self, text: str) -> tuple[DesiredObject, ...]:
        """The objects of a YAML text; NAMESPACE in it stands for the test's own."""
        documents = read_text(text.replace("NAMESPACE", self.place.namespace))
        kinds = await served(documents, self.place.others.mapper)
        return prepared(
            documents,
            kinds,
            namespace=self.place.namespace,
            owner=self.owner,
            policies=self.policies,
            set_digest=self.set_digest,
        )

    async def object_set(self) -> ObjectSet:
        """One pass's object_set."""
        listed = await self.place.others.list(metadata_of(NAMESPACES))
        names = {each.key.name for each in listed.items}
        owned = {Address(CONFIG_MAPS, each.key): each for each in await self._owned_by_anyone()}
        return ObjectSet(
            client=self.client,
            owner=self.owner,
            policies=self.policies,
            options=self.options,
            memory=self.memory,
            namespace_exists=lambda name: name in names if self.knows_namespaces else None,
            owned=owned.get if self.watches_owners else None,
            now=self.now(),
            clock=self.clock(),
        )

    async def apply(self, text: str) -> SetProgress:
        """One pass; the inventory is saved after it."""
        wanted = await self.wanted(text)
        resources = await self.resources(wanted)
        seen = await self.seen(resources)
        progress = await (await self.object_set()).apply(wanted, self.inventory, seen, resources)
        self.inventory = progress.inventory
        return progress

    async def passing(self, text: str) -> SetProgress:
        """Passes until all is done, or there is nothing to do but to wait. Fails where an object was not written."""
        for _ in range(20):
            progress = await self.apply(text)
            assert not progress.failures, [str(each) for each in progress.failures]
            if not progress.must_be_saved:
                return progress
        raise AssertionError("never comes to rest")

    async def rolled_out(self, text: str, *, within: float = 60.0) -> SetProgress:
        """Passes until all is done."""
        last: list[SetProgress] = []

        async def is_done() -> bool:
            last[:] = [await self.passing(text)]
            assert last[0].done, [str(each) for each in last[0].waits]
            return True

        await eventually(is_done, within=within, describe="a set that is rolled out")
        return last[0]

    async def delete(self, *, only_unused: bool = False) -> SetProgress:
        """One pass of deleting; the inventory is saved after it."""
        resources = await self.resources(())
        seen = await self.seen(resources)
        object_set = await self.object_set()
        progress = await object_set.delete(self.inventory, seen, resources, only_unused=only_unused)
        self.inventory = progress.inventory
        return progress

    async def deleted(self, *, within: float = 60.0) -> None:
        """Passes of deleting until nothing is left."""

        async def is_done() -> bool:
            progress = await self.delete()
            assert not progress.failures, [str(each) for each in progress.failures]
            assert progress.done, [str(each) for each in progress.waits]
            return True

        await eventually(is_done, within=within, describe="a set that is gone")
        assert not len(self.inventory)

    async def obstacle(self) -> str:
        """Why the set must not be deleted now."""
        return await CrdUsage(self.client, self.owner, self.now()).obstacle(self.inventory, self.policies.type_patterns)

    # ---- what its caches show

    async def resources(self, wanted: tuple[DesiredObject, ...]) -> dict[ObjectIdentity, Resource]:
        """Where the kinds of the set are served."""
        found = {one.identity: one.address.resource for one in wanted}
        for entry in self.inventory:
            resource = found.get(entry.identity) or await self._served(entry.gvk)
            if resource is not None:
                found[entry.identity] = resource
        return found

    async def seen(self, resources: Mapping[ObjectIdentity, Resource]) -> dict[ObjectIdentity, LiveObject]:
        """The objects that carry our label."""
        found: dict[ObjectIdentity, LiveObject] = {}
        for resource in {*resources.values()}:
            for obj in await self._labelled(resource):
                address = Address(resource, obj.key)
                if obj.key.name not in self.hidden:
                    found[ObjectIdentity.of(address.ref)] = LiveObject(address, obj)
        return found

    async def _labelled(self, resource: Resource) -> Sequence[Live]:
        labels = f"{self.owner.mark}={self.owner.label_value}"
        try:
            if (resource.group, resource.kind) == ("", "Secret"):
                return (await self.place.others.list(metadata_of(resource), labels=labels)).items
            return (await self.place.others.list(unstructured(resource), labels=labels)).items
        except NotServed:
            return ()

    async def _owned_by_anyone(self) -> Sequence[Live]:
        view = unstructured(CONFIG_MAPS)
        return (await self.place.others.list(view, self.place.namespace, labels=self.owner.mark)).items

    async def _served(self, gvk: GroupVersionKind) -> Resource | None:
        for resource in await self.place.others.mapper.all():
            if resource.gvk == gvk:
                return resource
        return None

    # ---- what it says

    def phases(self) -> dict[str, str]:
        """How far each object is."""
        return {entry.key.name: entry.phase.value for entry in self.inventory}

    async def clean_up(self) -> None:
        """Take away what lies outside the namespace, whatever holds it."""
        for entry in self.inventory:
            resource = None if entry.key.namespace == self.place.namespace else await self._served(entry.gvk)
            if resource is not None:
                await self.place.destroy(resource, entry.key.name, entry.key.namespace)
