"""The Manifests of mandatory modules that a Kyma gets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from tests.unit.kyma.kyma.worlds import PREFIX, a_kyma, a_meta, a_template, metadata

from stellwerk.kube.types.model import Unreadable
from stellwerk.kube.types.object_meta import Record
from stellwerk.operators.kyma.api import Kyma
from stellwerk.operators.kyma.api_manifest import InstallInfo, Manifest, ManifestStatus
from stellwerk.operators.kyma.api_module import ModuleReleaseMeta, ModuleTemplate
from stellwerk.operators.kyma.api_status import State
from stellwerk.operators.kyma.collections import MANIFESTS, METAS, TEMPLATES
from stellwerk.operators.kyma.mandatory.decide import MandatoryLogic, MandatorySettings
from stellwerk.operators.kyma.mandatory.modules import version_of
from stellwerk.operators.kyma.module.resolution import Component, FirstSeen, Offers, manifest_name, release_of
from stellwerk.render.errors import SourceError
from stellwerk.runtime.control.executor import next_step
from stellwerk.runtime.control.step import Apply, Step
from stellwerk.runtime.reading.known import ABSENT, Known, Present, Unknown
from stellwerk.runtime.reading.loads import PlainLoads
from stellwerk.runtime.reading.questions import PlainSource
from stellwerk.runtime.reading.view import Overlay, PlainSources, View
from stellwerk.runtime.reconciler import Retry

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAME = manifest_name("k", "kyma-project.io/module/amod", "amod")


def component(template: ModuleTemplate, name: str) -> Known[Component]:
    return Present(Component(name, version_of(template), InstallInfo(name="raw-manifest")))


def unreadable_registry(*_: object) -> Known[Component]:
    raise SourceError("there is no such component")


@dataclass
class World:
    """A Kyma, and the mandatory modules."""

    kyma: Kyma = field(default_factory=a_kyma)
    metas: Sequence[ModuleReleaseMeta] = (a_meta("amod", "1.0.0"),)
    templates: Sequence[ModuleTemplate] = (a_template("amod", "1.0.0", mandatory=True),)
    manifests: list[Manifest] = field(default_factory=list)
    hidden: Sequence[Unreadable] = ()
    why: str = ""
    component: Callable[..., Known[Component]] = component
    longest_delay: timedelta = timedelta(0)

    def step(self) -> Step[Record]:
        sources = PlainSources()
        sources.add(METAS, PlainSource(self.metas, why=self.why)).add(TEMPLATES, PlainSource(self.templates))
        sources.add(MANIFESTS, PlainSource(self.manifests, self.hidden))
        settings = MandatorySettings(
            offers=lambda _: Offers(component=self.component, longest_delay=self.longest_delay)
        )
        loads = PlainLoads({FirstSeen(release_of(each)): NOW for each in self.metas})
        view = View(sources=sources, now=NOW, settings=(settings,), loads=loads)
        return next_step(MandatoryLogic(), self.kyma, view)

    def do(self) -> list[Apply[Manifest]]:
        """Perform the step, as the API server would."""
        written = [each for each in self.step().writes if isinstance(each, Apply)]
        for each in written:
            overlay = Overlay()
            each.rehearse(overlay, NOW)
            (made,) = [obj for obj in overlay.of(MANIFESTS).values() if obj is not None]
            self.manifests = [*(old for old in self.manifests if old.key != made.key), made]
        return written


@pytest.mark.req("KYMA-48")
def test_a_kyma_gets_the_manifest_of_a_mandatory_module_once() -> None:
    world = World()
    (written,) = world.do()
    body: Any = written.body
    assert body["metadata"]["name"] == NAME
    assert body["metadata"]["labels"] == {
        f"{PREFIX}/kyma-name": "k",
        f"{PREFIX}/module-name": "amod",
        f"{PREFIX}/managed-by": "lifecycle-manager",
        f"{PREFIX}/mandatory-module": "true",
    }
    assert [each["name"] for each in body["metadata"]["ownerReferences"]] == ["k"]
    assert (body["spec"]["version"], written.field_manager) == ("1.0.0", "lifecycle-manager")
    assert world.do() == []
    (made,) = world.manifests
    world.manifests = [msgspec.structs.replace(made, status=ManifestStatus(state=State.Error))]
    assert world.do() == [], "how it is decides nothing"


def test_another_version_or_an_edit_is_written_and_what_others_add_stays() -> None:
    world = World()
    world.do()
    (made,) = world.manifests
    world.manifests = [msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, version="9.9.9"))]
    assert len(world.do()) == 1
    more = msgspec.structs.replace(made.metadata, labels={**made.metadata.labels, "mine": "x"})
    world.manifests = [msgspec.structs.replace(made, metadata=more)]
    assert world.do() == []
    world.metas, world.templates = [a_meta("amod", "2.0.0")], [a_template("amod", "2.0.0", mandatory=True)]
    world.longest_delay = timedelta(hours=1)
    assert world.do() == [], "not all clusters get it at once"
    world.longest_delay = timedelta(0)
    (upgrade,) = world.do()
    assert upgrade.body["spec"]["version"] == "2.0.0"  # type: ignore[index, call-overload]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"templates": ()}, "failed to get module template: ModuleTemplate kcp-system/amod-1.0.0"),
        ({"component": unreadable_registry}, "mandatory module amod: there is no such component"),
        ({"component": lambda *_: ABSENT}, "ModuleTemplate kcp-system/amod-1.0.0 has none"),
        (
            {"component": lambda *_: Present(Component("x/a?b", "1.0.0", InstallInfo()))},
            "module amod of ModuleTemplate kcp-system/amod-1.0.0 can have no Manifest",
        ),
    ],
)
def test_a_module_that_cannot_be_installed_is_a_failure_until_that_changes(
    changed: dict[str, Any], message: str
) -> None:
    """One that cannot be installed keeps all others from it, as with the original."""
    step = World(**changed).step()
    assert step.failure is not None
    assert message in step.failure.message
    assert step.failure.retry is Retry.WHEN_CHANGED


def test_what_is_not_known_is_neither_written_nor_removed() -> None:
    hidden = Unreadable(
        Manifest.resource,
        msgspec.convert(metadata(NAME, labels={f"{PREFIX}/kyma-name": "k"}), type(a_kyma().metadata)),
        "spec is no object",
    )
    for world in (
        World(why="they are not listed yet"),
        World(component=lambda *_: Unknown("the registry does not answer")),
        World(hidden=[hidden]),
    ):
        step = world.step()
        assert (step.writes, step.failure) == ((), None)


def test_a_kyma_that_is_skipped_gets_none() -> None:
    world = World(kyma=a_kyma(labels={f"{PREFIX}/skip-reconciliation": "true"}))
    assert world.step() == Step()
