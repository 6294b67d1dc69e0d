"""The hands of the tests: plan and execute as an operator would, meddle as others would."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.kubectl import kubectl

from stellwerk.apply.labelled.execute import ApplyReport, execute
from stellwerk.apply.labelled.plan import LastApplied, Live, Plan, Rules, plan, plan_delete
from stellwerk.apply.objects.desired import Address, Desired, desired_set, read_text
from stellwerk.apply.objects.discover import served
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import NotServed
from stellwerk.kube.types.model import Unstructured, metadata_of, unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.testing.cluster import AuditEntry, AuditLog
from stellwerk.testing.eventually import eventually

RULES = Rules("btp-manager")


@dataclass
class Ground:
    """One set of objects, one operator that keeps it."""

    client: Client
    cluster: LocalCluster
    namespace: str
    user: str
    audit: AuditLog
    ledger: LastApplied = field(default_factory=LastApplied)
    now: float = 0.0
    made: dict[Address, Live] = field(default_factory=dict)

    # ---- the operator

    async def wanted(self, text: str) -> tuple[Desired, ...]:
        """The objects of a YAML text; NAMESPACE in it stands for the test's own."""
        documents = read_text(text.replace("NAMESPACE", self.namespace))
        return desired_set(documents, await served(documents, self.client.mapper), namespace=self.namespace)

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

    async def plan(self, desired: tuple[Desired, ...]) -> Plan:
        """What has to be done now."""
        return plan(desired, await self.live(desired), self.ledger, RULES, now=self.now)

    async def keep(self, desired: tuple[Desired, ...]) -> ApplyReport:
        """One pass."""
        report = await execute(await self.plan(desired), self.client, self.ledger, RULES, now=self.now)
        self.made.update({outcome.address: outcome.live for outcome in report.written if outcome.live is not None})
        return report

    async def kept(self, desired: tuple[Desired, ...]) -> ApplyReport:
        """One pass that must succeed."""
        report = await self.keep(desired)
        report.raise_for_failures()
        return report

    async def calm(self, desired: tuple[Desired, ...]) -> None:
        """Wait until a pass has nothing to do any more."""

        async def is_calm() -> bool:
            report = await self.keep(desired)  # a kind may be established a moment before it is served
            assert not report.failures, [str(each) for each in report.failures]
            return (await self.plan(desired)).is_calm

        await eventually(is_calm, describe="a pass with nothing to do")

    def forget(self) -> None:
        """Become a new process."""
        self.ledger = LastApplied()

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

    async def delete(self, live: dict[Address, Live]) -> ApplyReport:
        """One pass of deleting."""
        return await execute(plan_delete(live), self.client, self.ledger, RULES, now=self.now)
