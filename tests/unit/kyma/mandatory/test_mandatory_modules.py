"""Which mandatory modules a Kyma gets, and what removes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from tests.unit.kyma.kyma.worlds import DELETED, PREFIX, a_kyma, a_manifest, a_meta, a_template

from stellwerk.kube.types.model import Unreadable
from stellwerk.kube.types.object_meta import Record
from stellwerk.operators.kyma.api_manifest import Manifest
from stellwerk.operators.kyma.api_module import ModuleReleaseMeta, ModuleTemplate
from stellwerk.operators.kyma.collections import MANIFESTS, METAS, TEMPLATES
from stellwerk.operators.kyma.mandatory import modules, removal
from stellwerk.operators.kyma.mandatory.modules import MandatoryTemplateMissing
from stellwerk.runtime.control.step import Delete, Patch, RemoveFinalizer, Step
from stellwerk.runtime.reading.known import NotKnown
from stellwerk.runtime.reading.questions import PlainSource
from stellwerk.runtime.reading.view import PlainSources, View

OURS = f"{PREFIX}/mandatory-module"
MANDATORY = {f"{PREFIX}/mandatory-module": "true"}
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def former(module: str, version: str, name: str = "", **metadata: Any) -> ModuleTemplate:
    """A template that makes a module mandatory as in earlier releases."""
    template = a_template(module, version, labels=MANDATORY)
    changed = msgspec.structs.replace(template.metadata, name=name or template.metadata.name, **metadata)
    return msgspec.structs.replace(template, metadata=changed)


def removed(obj: Any) -> Any:
    """An object that is being deleted, and held by our finalizer."""
    metadata = msgspec.structs.replace(
        obj.metadata, deletion_timestamp=datetime.fromisoformat(DELETED), finalizers=(OURS, "others/one")
    )
    return msgspec.structs.replace(obj, metadata=metadata)


def chosen(metas: Sequence[ModuleReleaseMeta], templates: Sequence[ModuleTemplate]) -> list[str]:
    """The templates of the mandatory modules."""
    return [each.template.metadata.name for each in modules.mandatory_modules(metas, templates)]


@pytest.mark.req("KYMA-48")
@pytest.mark.parametrize(
    ("metas", "templates", "expected"),
    [
        pytest.param([], [a_template("a-mod", "1.0.0")], [], id="no mandatory module"),
        pytest.param([a_meta("a-mod", regular="1.0.0")], [a_template("a-mod", "1.0.0")], [], id="not mandatory"),
        pytest.param(
            [a_meta("b-mod", "2.0.0"), a_meta("a-mod", "1.0.0")],
            [a_template("a-mod", "1.0.0"), a_template("a-mod", "9.0.0"), a_template("b-mod", "2.0.0")],
            ["a-mod-1.0.0", "b-mod-2.0.0"],
            id="the version of the meta",
        ),
        pytest.param([removed(a_meta("a-mod", "1.0.0"))], [], [], id="a removed meta needs no template"),
        pytest.param(
            [], [former("a-mod", "1.9.0"), former("a-mod", "1.10.0-rc1"), former("a-mod", "1.9.1")],
            ["a-mod-1.10.0-rc1"], id="the highest version of the older form",
        ),
        pytest.param(
            [], [former("a-mod", "1.0.0"), removed(former("a-mod", "2.0.0"))], ["a-mod-1.0.0"],
            id="a removed template of the older form",
        ),
        pytest.param(
            [a_meta("a-mod", "1.0.0")], [a_template("a-mod", "1.0.0"), former("a-mod", "2.0.0")], ["a-mod-1.0.0"],
            id="a meta wins over the older form",
        ),
        pytest.param(
            [removed(a_meta("a-mod", "1.0.0"))], [former("a-mod", "1.0.0")], [],
            id="a removed meta is not replaced by the older form",
        ),
        pytest.param(
            [], [former("", "", "old-a", annotations={f"{PREFIX}/module-version": "1.0.0"},
                        labels={**MANDATORY, f"{PREFIX}/module-name": "a-mod"}), former("", "", "nameless")],
            ["old-a"], id="module and version of the older form in its metadata",
        ),
    ],
)  # fmt: skip
def test_each_mandatory_module_is_there_once(
    metas: list[ModuleReleaseMeta], templates: list[ModuleTemplate], expected: list[str]
) -> None:
    assert chosen(metas, templates) == expected


def test_a_mandatory_module_without_a_template_is_an_error_that_names_both() -> None:
    with pytest.raises(MandatoryTemplateMissing) as error:
        chosen([a_meta("a-mod", "1.0.0"), a_meta("b-mod", "1.0.0")], [a_template("b-mod", "1.0.0")])
    assert str(error.value) == (
        "failed to get module template: ModuleTemplate kcp-system/a-mod-1.0.0 of ModuleReleaseMeta kcp-system/a-mod "
        "does not exist. Create it, or correct spec.mandatory: kubectl edit mrm -n kcp-system a-mod"
    )


@pytest.mark.req("KYMA-48")
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, True),
        ({"labels": {f"{PREFIX}/skip-reconciliation": "True"}}, False),
        ({"labels": {f"{PREFIX}/skip-reconciliation": "false"}}, True),
        ({"deletionTimestamp": DELETED}, False),
    ],
)
def test_a_kyma_that_is_deleted_or_skipped_gets_no_mandatory_module(fields: dict[str, Any], expected: bool) -> None:
    assert modules.is_served(a_kyma(**fields)) is expected


# ---- removal


@dataclass
class World:
    """Objects around a mandatory module."""

    metas: tuple[ModuleReleaseMeta, ...] = ()
    templates: tuple[ModuleTemplate, ...] = ()
    manifests: tuple[Manifest, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()

    def view(self) -> View:
        """A view of them."""
        sources = PlainSources().add(METAS, PlainSource(self.metas)).add(TEMPLATES, PlainSource(self.templates))
        return View(sources=sources.add(MANIFESTS, PlainSource(self.manifests, self.unreadable)), now=NOW)


def described(step: Step[Record]) -> list[str]:
    """What a step writes and waits for."""
    found: list[str] = []
    for write in step.writes:
        match write:
            case Delete():
                found.append(f"delete {write.seen.key.name}")
            case Patch():
                found.append(f"patch {write.seen.key.name} {write.fields}")
            case RemoveFinalizer():
                found.append(f"remove {write.name}")
            case _:
                pytest.fail(f"{write}")
    return found + [each.message for each in step.waits]


def installed(name: str, module: str = "a-mod", *, mandatory: bool = True, **fields: Any) -> Manifest:
    """A Manifest of a module."""
    marks = {f"{PREFIX}/module-name": module, **(MANDATORY if mandatory else {})}
    return a_manifest(name, labels=marks, **fields)


def test_a_mandatory_module_is_held_by_a_finalizer_and_another_one_is_not() -> None:
    meta, view = a_meta("a-mod", "1.0.0"), World().view()
    assert described(removal.decide_meta(meta, view)) == [f"patch a-mod {{'metadata': {{'finalizers': ['{OURS}']}}}}"]
    assert removal.decide_meta(a_meta("a-mod", regular="1.0.0"), view) == Step()
    template = former("a-mod", "1.0.0")
    step = removal.decide_template(template, view)
    assert described(step) == [f"patch a-mod-1.0.0 {{'metadata': {{'finalizers': ['{OURS}']}}}}"]
    assert removal.decide_template(a_template("a-mod", "1.0.0"), view) == Step()


def test_a_held_module_needs_no_write() -> None:
    for meta in (a_meta("a-mod", "1.0.0"), former("a-mod", "1.0.0")):
        held = msgspec.structs.replace(meta, metadata=msgspec.structs.replace(meta.metadata, finalizers=(OURS,)))
        step = (
            removal.decide_meta(held, World().view())
            if isinstance(held, ModuleReleaseMeta)
            else removal.decide_template(held, World().view())
        )
        assert step == Step()


@pytest.mark.req("KYMA-48")
@pytest.mark.parametrize("meta", [a_meta("a-mod", "1.0.0"), a_meta("a-mod", regular="1.0.0")])
def test_the_manifests_of_a_removed_module_go_before_its_finalizer(meta: ModuleReleaseMeta) -> None:
    others = (installed("other", "b-mod"), installed("wanted", mandatory=False))
    gone = removed(meta)

    def course(*manifests: Manifest) -> list[str]:
        return described(removal.decide_meta(gone, World(manifests=(*manifests, *others)).view()))

    going = installed("two", deletionTimestamp=DELETED)
    assert course(installed("one"), going) == ["delete one"]
    assert course(going) == ["waiting for the end of Manifest kcp-system/two"]
    assert course() == [f"remove {OURS}"]


def test_a_removed_module_without_our_finalizer_is_left_alone() -> None:
    gone = a_meta("a-mod", "1.0.0")
    metadata = msgspec.structs.replace(removed(gone).metadata, finalizers=("others/one",))
    world = World(manifests=(installed("one"),))
    assert removal.decide_meta(msgspec.structs.replace(gone, metadata=metadata), world.view()) == Step()


def test_the_finalizer_stays_while_a_manifest_cannot_be_read() -> None:
    hidden = Unreadable(Manifest.resource, installed("one").metadata, "spec: broken")
    with pytest.raises(NotKnown):
        removal.decide_meta(removed(a_meta("a-mod", "1.0.0")), World(unreadable=(hidden,)).view())


def test_manifests_stay_while_another_template_or_a_meta_makes_the_module_mandatory() -> None:
    gone, manifests = removed(former("a-mod", "1.0.0")), (installed("one"),)
    alone = World(templates=(gone, former("b-mod", "1.0.0")), manifests=manifests)
    assert described(removal.decide_template(gone, alone.view())) == ["delete one"]
    for world in (
        World(templates=(gone, former("a-mod", "2.0.0")), manifests=manifests),
        World(templates=(gone,), metas=(a_meta("a-mod", "2.0.0"),), manifests=manifests),
    ):
        assert described(removal.decide_template(gone, world.view())) == [f"remove {OURS}"]
    leaving_both = World(templates=(gone, removed(former("a-mod", "2.0.0"))), manifests=manifests)
    assert described(removal.decide_template(gone, leaving_both.view())) == ["delete one"]
    not_mandatory = World(templates=(gone,), metas=(a_meta("a-mod", regular="2.0.0"),), manifests=manifests)
    assert described(removal.decide_template(gone, not_mandatory.view())) == ["delete one"]
