"""The operator may die, or lose the answer to a write, at any of its writes: the end is the same as without.

The Component brings a kind with an instance, a Deployment and a Job that is purged. One replay meets three points: the
n-th write that brings it up, the n-th that takes a new revision over, which no longer has one of the objects, and the
n-th that takes it away; so the world is as new after it, which is a part of the proof. Writes of Events and of leases
are left out, as they leave nothing behind.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.cluster.component.given import Given, config_map
from tests.cluster.component.process import Operator, end_state, operator, same_end
from tests.cluster.component.then import Then

from stellwerk.kube.names import Resource
from stellwerk.local.cluster import LocalCluster
from stellwerk.testing.eventually import StillUntrue, eventually
from stellwerk.testing.faults import Cut, Kill, RequestFault, Rule, nth
from stellwerk.testing.faults.traffic import Request
from stellwerk.testing.nursery import Nursery
from stellwerk.testing.recorder import LASTING_WRITES, Run

SHARES = 4
"""Into how many tests the points of a sweep are dealt, so that they can run side by side."""
CONVERGED_SECONDS = 30.0

MakeFault = Callable[[Operator], RequestFault]

DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.NAMESPACE.example.org}
spec:
  group: NAMESPACE.example.org
  scope: Namespaced
  names: {kind: Thing, listKind: ThingList, plural: things, singular: thing}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {
      spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}}
"""
INSTANCE = """
apiVersion: NAMESPACE.example.org/v1
kind: Thing
metadata: {name: one}
spec: {note: hello}
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: example.com/web:1}]}
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata:
  name: prepare
  annotations:
    component-operator.cs.sap.com/apply-order: "-1"
    component-operator.cs.sap.com/purge-order: "-1"
    component-operator.cs.sap.com/reconcile-policy: once
spec:
  template:
    spec: {restartPolicy: Never, containers: [{name: prepare, image: example.com/prepare:1}]}
"""


def files(namespace: str) -> dict[str, str]:
    """The first revision."""
    named = {"crd.yaml": DEFINITION, "thing.yaml": INSTANCE, "web.yaml": DEPLOYMENT, "job.yaml": JOB}
    return {"kept.yaml": config_map("kept"), "dropped.yaml": config_map("dropped")} | {
        name: text.replace("NAMESPACE", namespace) for name, text in named.items()
    }


@dataclass(frozen=True, slots=True)
class CleanRun:
    """What happens without faults: the writes of each part, and what is there at its end."""

    parts: Sequence[Sequence[str]]
    ends: Sequence[Run]


@dataclass(frozen=True, slots=True)
class Stage:
    """Plays one life of a Component, and looks at the cluster at its turning points."""

    cluster: LocalCluster
    given: Given
    then: Then
    operator: Operator

    @property
    def parts(self) -> tuple[Callable[[], Awaitable[None]], ...]:
        """What is asked for, one after the other."""
        return self._create, self._update, self.given.deleted

    async def _create(self) -> None:
        await self.given.source(files(self.given.namespace), revision="r1")
        await self.given.component()

    async def _update(self) -> None:
        revised = files(self.given.namespace) | {"kept.yaml": config_map("kept", a="c"), "new.yaml": config_map("new")}
        del revised["dropped.yaml"]
        await self.given.source(revised, revision="r2")

    def _has_ended(self, part: int) -> bool:
        found = self.then.diary.latest.get("comp")
        if part == 2:
            return found is None
        return found is not None and found.is_ready and found.status.last_applied_revision == f"r{part + 1}"

    async def _ended(self, part: int) -> None:
        if part == 2:
            await self.then.gone(within=CONVERGED_SECONDS)
        else:
            await self.then.ready(revision=f"r{part + 1}", within=CONVERGED_SECONDS)

    async def clean_run(self) -> CleanRun:
        """A life without faults."""
        writes, ends = [], []
        for part, ask in enumerate(self.parts):
            await ask()
            await self._ended(part)
            writes.append(await self._writes())
            ends.append(await self._end())
        return CleanRun(writes, ends)

    async def replay(self, clean: CleanRun, number: int, fault: MakeFault) -> None:
        """A life with a fault at the n-th write of each part. Raises AssertionError naming the write."""
        for part, ask in enumerate(self.parts):
            if number <= len(clean.parts[part]):
                with self.operator.proxy.on_requests(LASTING_WRITES, fault(self.operator), nth(number)) as rule:
                    await ask()
                    await self._revived(rule, part)
            else:
                await ask()
            await self._ended(part)
            await self._is_as(clean.ends[part], f"part {part + 1}, at write {number}")
            await self._writes()

    async def _revived(self, rule: Rule[Request], part: int) -> None:
        """Return when the fault has happened; a killed operator is started again, as a kubelet would.

        How often a status is written on the way depends on what was seen when: the last points of the clean run may
        not be there.
        """
        history = self.operator.proxy.history
        try:
            await eventually(lambda: bool(rule.fired) or self._has_ended(part), within=20, on=history.changed)
        except StillUntrue:
            raise AssertionError(f"{rule}\n{history}\n{self.operator.process.log_text()}") from None
        if rule.fired and rule.what.startswith("operator killed"):
            await self.operator.process.wait()
            await self.operator.process.start()

    async def _is_as(self, clean: Run, where: str) -> None:
        await eventually(
            lambda: same_end(self.cluster, self.given.namespace, clean, self._things),
            describe=f"the same end as without faults; {where}",
        )

    async def _end(self) -> Run:
        return await end_state(self.cluster, self.given.namespace, self._things)

    @property
    def _things(self) -> Resource:
        return Resource(f"{self.given.namespace}.example.org", "v1", "Thing", "things", namespaced=True)

    async def _writes(self) -> Sequence[str]:
        """The writes since the last call."""
        await self.operator.proxy.history.settled()
        found = [str(one.request) for one in self.operator.proxy.history.writes(LASTING_WRITES)]
        self.operator.proxy.history.clear()
        return found


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """Where the operators of a sweep start in a moment."""
    with Nursery(["stellwerk.assembly", "stellwerk.operators.component.assembled", "uvloop"]) as nursery:
        yield nursery


@pytest.fixture
async def stage(
    component_cluster: LocalCluster, given: Given, then: Then, tmp_path: Path, nursery: Nursery
) -> AsyncIterator[Stage]:
    async with operator(component_cluster, tmp_path, nursery=nursery) as running:
        await running.process.start()
        yield Stage(component_cluster, given, then, running)


async def sweep(stage: Stage, share: int, fault: MakeFault) -> None:
    """Replay this share's points."""
    clean = await stage.clean_run()
    assert [len(part) >= least for part, least in zip(clean.parts, (12, 5, 8), strict=True)] == [True] * 3, clean.parts
    for number in range(1 + share, 1 + max(map(len, clean.parts)), SHARES):
        await stage.replay(clean, number, fault)
    stage.operator.process.assert_clean_log()


@pytest.mark.req("R-101")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("share", range(SHARES))
async def test_killed_before_any_write_it_ends_as_if_nothing_had_happened(stage: Stage, share: int) -> None:
    await sweep(stage, share, lambda running: Kill(running.process))


@pytest.mark.req("R-101")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("share", range(SHARES))
async def test_killed_after_any_write_it_ends_as_if_nothing_had_happened(stage: Stage, share: int) -> None:
    await sweep(stage, share, lambda running: Kill(running.process, after_forwarding=True))


@pytest.mark.req("R-102")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("share", range(SHARES))
async def test_when_the_reply_to_any_write_is_cut_it_ends_as_if_nothing_had_happened(stage: Stage, share: int) -> None:
    await sweep(stage, share, lambda _: Cut(after_forwarding=True))
