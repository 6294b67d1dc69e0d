"""Whatever the user of a cluster asked for before, what is asked for last is there; or the Kyma says why it is not.

A run of 200 wishes with each seed is WISHES=200; the few of every day, with one of them, take as long as another test.
"""

from __future__ import annotations

import contextlib
import os
import random
from dataclasses import dataclass

import pytest
from tests.cluster.kyma.manifest.test_modules import DEPLOYMENTS, HOME, SAMPLES, USER_KYMA, Works, body, works

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.core import ConfigMap
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.errors import NotFound
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, JsonValue, metadata_of, unstructured
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import Kyma, ModuleStatus
from stellwerk.operators.kyma.api_manifest import Manifest
from stellwerk.testing.eventually import StillUntrue, eventually
from stellwerk.testing.scenarios.normalize import Masks

__all__ = ["works"]  # a fixture

WISHES = int(os.environ.get("WISHES", "5"))
SEEDS = (1, 2) if "WISHES" in os.environ else (2,)
VERSIONS = {"regular": "1.0.0", "fast": "2.0.0"}
NOWHERE = "nowhere"
"""A channel without a version."""
MADE = (
    ConfigMap.resource,
    DEPLOYMENTS,
    CustomResourceDefinition.resource,
    Resource(SAMPLES.group, "v1", "Gadget", "gadgets", True),
)
OURS = f"{labels.MANAGED_BY_LABEL}={labels.KYMA},{labels.PART_OF_LABEL}"
OF_THE_CONTROL_PLANE = ("status", "conditions", "*", "observedGeneration")
"""In the cluster of the user it is the generation of another object."""
MASKS = Masks(paths=(("metadata", "creationTimestamp"), OF_THE_CONTROL_PLANE))


@dataclass(slots=True)
class Walk:
    """Draws one wish after the other and makes it true."""

    works: Works
    chance: random.Random
    channel: str = "regular"
    """Of the module; empty: the user does not want it."""
    is_managed: bool = True
    version: str = "1.0.0"
    """What is installed and ours; empty: nothing."""

    async def step(self) -> str:
        """One wish, and what it is."""
        kind = self.chance.choice(("channel", "channel", "nowhere", "leave", "let go", "note"))
        if kind == "note":
            if self.version:
                await self.note(str(self.chance.random()))
            return kind
        if kind == "leave" and self.channel:
            self.channel = ""
            self.version = self.version if not self.is_managed else ""
        elif kind == "let go" and self.channel in VERSIONS and self.version == VERSIONS[self.channel]:
            self.is_managed, self.version = False, ""
        else:
            self.is_managed = True
            self.channel = NOWHERE if kind == "nowhere" else self.chance.choice([*VERSIONS])
            self.version = max(self.version, VERSIONS.get(self.channel, ""))
        await self.ask()
        return f"{kind}: channel {self.channel!r}, version {self.version!r}, managed: {self.is_managed}"

    async def note(self, text: str | None) -> None:
        """Someone writes on the Manifest, or takes it off again with None."""
        patch = MergePatch({"metadata": {"annotations": {"example.org/note": text}}})
        await self.works.home.patch(Manifest, self.works.manifest_name, HOME, patch)

    @property
    def modules(self) -> list[JsonValue]:
        """As the user lists them."""
        module: JsonObject = {"name": "sample", "managed": self.is_managed, "channel": self.channel}
        return [module] if self.channel else []

    async def ask(self) -> None:
        """The wish, in the cluster of the user."""
        await self.works.edit(modules=self.modules)

    # ---- what is there

    @property
    def expected(self) -> tuple[str, str]:
        """The state of the module, and a part of its message."""
        if not self.is_managed:
            return "Unmanaged", ""
        if self.channel == NOWHERE:
            return "Error", f"no versions found for channel: {NOWHERE} in module sample"
        if self.version != VERSIONS[self.channel]:
            return "Warning", "ignore channel skew"
        return "Ready", ""

    async def come_true(self, what: str) -> None:
        """Wait until all is there. A failure tells how all stands then."""
        try:
            await eventually(self.is_met, within=60, describe=what)
        except StillUntrue as error:
            raise StillUntrue(f"{error}\n{await self.works.story()}") from error

    async def is_met(self) -> bool:
        """Whether all that was wished is there, or the module shows why it is not."""
        await self._roll_out()
        module = await self._module()
        shown = (module.state, module.message) if module is not None else None
        if (shown is not None) != bool(self.channel):
            return False
        if shown is not None:
            state, message = self.expected
            if shown[0] != state or message not in shown[1]:
                return False
        manifest = await self.works.manifest()
        if manifest is None or not self.version:
            return manifest is None and not self.version and not await self.objects()
        there = {each["metadata"]["name"] for each in await self.objects()}  # type: ignore[index,call-overload]  # JSON
        return (
            (manifest.spec.version, manifest.status.state) == (self.version, "Ready")
            and ("former" in there) is (self.version == "1.0.0")
            and there >= {"settings", "manager", "built-in"}
        )

    async def _roll_out(self) -> None:
        found = await self.works.deployment()
        if found is not None and found.at("status", "observedGeneration") != found.metadata.generation:
            with contextlib.suppress(NotFound):  # it may be removed at this moment
                await self.works.run(found)

    async def _module(self) -> ModuleStatus | None:
        """As the user reads it."""
        shown = (await self.works.remote.get(Kyma, *USER_KYMA)).status.modules
        return shown[0] if shown else None

    async def objects(self) -> list[JsonObject]:
        """Those of the module that are ours."""
        found: list[JsonObject] = []
        for resource in MADE:
            if resource.group != SAMPLES.group or self.version:
                listed = await self.works.remote.list(unstructured(resource), labels=OURS)
                found += [each.body for each in listed.items]
        return found

    async def end_state(self) -> dict[str, JsonObject]:
        """What is there of it on both sides."""
        manifest = await self.works.home.get(unstructured(Manifest.resource), self.works.manifest_name, HOME)
        user = await self.works.remote.get(unstructured(Kyma.resource), *USER_KYMA)
        return MASKS.objects([*await self.objects(), manifest.body, user.body])


@pytest.mark.req("R-109")
@pytest.mark.timeout(max(120, 10 * WISHES))
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_walk_through_wishes_ends_where_a_fresh_kyma_begins(works: Works, seed: int) -> None:
    await works.offer(**VERSIONS)
    await works.begin()
    await works.roll_out("manager:1.0.0")
    walk = Walk(works, random.Random(seed))
    await walk.come_true("the module is there")
    for number in range(WISHES):
        wish = await walk.step()
        where = f"seed {seed}, wish {number}: {wish}"
        await walk.come_true(where)
        await works.rest()
        await walk.come_true(f"{where}, and it stays so")
    walk.channel, walk.version, walk.is_managed = "fast", "2.0.0", True
    await walk.ask()
    await walk.come_true("the last wish is met")
    await walk.note(None)
    await works.rest()
    ended = await walk.end_state()

    await works.home.delete(metadata_of(Kyma), "k", HOME)

    async def is_gone() -> bool:
        return await works.home.find(Kyma, "k", HOME) is None

    await eventually(is_gone, within=60, describe="the Kyma is gone")
    await works.home.create(Kyma, body(Kyma, "k", {"channel": "regular", "modules": walk.modules}))
    await works.roll_out("manager:2.0.0")
    await walk.come_true("a fresh Kyma comes to the same")
    await works.rest()
    assert await walk.end_state() == ended
