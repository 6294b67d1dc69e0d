"""The hands of the tests: plan and execute as an operator would, meddle as others would."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.kubectl import kubectl

from stellwerk.apply.objects.desired import Address, Desired, desired_set
from stellwerk.apply.objects.discover import served
from stellwerk.apply.objects.json_edit import with_labels
from stellwerk.apply.objects.manifests import read_text
from stellwerk.apply.set.model.confirmation import Live
from stellwerk.apply.set.model.owner import LabelOwner
from stellwerk.apply.set.object_set import SetProgress
from stellwerk.apply.set.observed_state import ObservedState
from stellwerk.apply.set.plan.stage import Stage
from stellwerk.apply.set.untracked_set import UntrackedSet
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import NotServed
from stellwerk.kube.types.model import Unstructured, metadata_of, unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.runtime.clock import SystemClock
from stellwerk.testing.cluster import AuditEntry, AuditLog
from stellwerk.testing.eventually import eventually

LABELS = {"set": "of-the-test"}
OWNER = LabelOwner("btp-manager", LABELS)


@dataclass
class Ground:
    """One set of objects, one operator that keeps it."""

    client: Client
    cluster: LocalCluster
    namespace: str
    user: str
    audit: AuditLog
    memory: ObservedState = field(default_factory=ObservedState)
    now: float = 0.0
    made: dict[Address, Live] = field(default_factory=dict)

    # ---- the operator

    async def wanted(self, text: str) -> tuple[Desired, ...]:
        """The objects of a YAML text; NAMESPACE in it stands for the test's own."""
        documents = read_text(text.replace("NAMESPACE", self.namespace))
        found = desired_set(documents, await served(documents, self.client.mapper), namespace=self.namespace)
        return tuple(Desired(one.address, with_labels(one.body, LABELS), one.origin) for one in found)

    async def live(self, desired: tuple[Desired, ...]) -> dict[Address, Live]:
        """What the caches of an operator would hold."""
        found: dict[Address, Live] = {}
        for one in desired:
            if (live := await self.find(one.address)) is not None:
                found[one.address] = live
        return found

    async def find(self, address: Address) -> Live | None:
        """An object in the shape in which a cache holds it."""
        key = address.key
        try:
            if address.is_secret:
                return await self.client.find(metadata_of(address.resource), key.name, key.namespace)
            return await self.client.find(unstructured(address.resource), key.name, key.namespace)
        except NotServed:
            return None

    def set_of(self, live: dict[Address, Live], client: Client | None = None) -> UntrackedSet:
        """The set at this moment."""
        clock = SystemClock()
        return UntrackedSet(
            client=client or self.client, owner=OWNER, memory=self.memory, live=live, now=clock.now(), clock=self.now
        )

    async def plan(self, desired: tuple[Desired, ...]) -> Stage:
        """What has to be done now."""
        return self.set_of(await self.live(desired)).plan(desired)

    async def is_calm(self, desired: tuple[Desired, ...]) -> bool:
        """Whether all objects are there, and nothing has to be written."""
        live = await self.live(desired)
        stage = self.set_of(live).plan(desired)
        return len(live) == len(desired) and not (stage.actions or stage.throttled)

    async def keep(self, desired: tuple[Desired, ...], client: Client | None = None) -> SetProgress:
        """One pass."""
        progress = await self.set_of(await self.live(desired), client).apply(desired)
        self.made.update({result.address: result.live for result in progress.carried if result.live is not None})
        return progress

    async def kept(self, desired: tuple[Desired, ...]) -> SetProgress:
        """One pass that must succeed."""
        progress = await self.keep(desired)
        assert not progress.failures, [str(each) for each in progress.failures]
        return progress

    async def calm(self, desired: tuple[Desired, ...]) -> None:
        """Wait until a pass has nothing to do any more."""

        async def is_calm() -> bool:
            await self.kept(desired)  # a kind may be established a moment before it is served
            return await self.is_calm(desired)

        await eventually(is_calm, describe="a pass with nothing to do")

    def forget(self) -> None:
        """Become a new process."""
        self.memory = ObservedState()

    def writes(self) -> list[AuditEntry]:
        """What the operator wrote since the last look."""
        found = self.audit.entries(lambda entry: entry.user == self.user and entry.is_write)
        self.audit.mark()
        return found

    # ---- others

    def kubectl(self, *arguments: str) -> str:
        """What a person does, under kubectl's own field managers."""
        return kubectl(self.cluster.kubeconfig, "-n", self.namespace, *arguments)

    # ---- what is there

    async def body(self, one: Desired) -> Unstructured:
        """An object whole, Secrets too."""
        return await self.client.get(unstructured(one.resource), one.key.name, one.key.namespace)

    async def clean_up(self) -> None:
        """Remove what lies outside the namespace, which goes by itself."""
        for address, live in self.made.items():
            if not address.key.namespace:
                target = metadata_of(address.resource)
                await self.client.delete(target, address.key.name, uid=live.metadata.uid)

    async def delete(self, live: dict[Address, Live]) -> SetProgress:
        """One pass of deleting."""
        return await self.set_of(live).delete(live)
