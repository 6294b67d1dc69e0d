"""Mandatory modules in worlds of values, for the properties of all kinds that decide by steps."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import msgspec
from tests.unit.kyma.kyma.worlds import DELETED, PREFIX, a_kyma, a_manifest, a_meta, a_template, component

from stellwerk.kube.types.model import Unreadable
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api_manifest import Manifest
from stellwerk.operators.kyma.collections import KYMAS, MANIFESTS, METAS, TEMPLATES
from stellwerk.operators.kyma.mandatory.decide import MandatoryLogic, MandatorySettings, MetaLogic, TemplateLogic
from stellwerk.operators.kyma.module.resolution import Offers, manifest_name
from stellwerk.runtime.reading.questions import Collection
from stellwerk.testing import steps as kit
from stellwerk.testing.clock import FakeClock

HELD = {"finalizers": [labels.MANDATORY_MODULE_FINALIZER]}
MARK = {labels.MANDATORY_MODULE_LABEL: "true"}


def in_steps(some: random.Random) -> kit.World[Any, Any]:
    """A Kyma that gets mandatory modules, or the meta or template of one."""
    metas = [a_meta("amod", some.choice(["1.0.0", "2.0.0"]))] if some.random() < 0.7 else []
    templates = [a_template("amod", "1.0.0"), a_template("amod", "2.0.0"), a_template("bmod", "1.0.0", labels=MARK)]
    manifests = [_manifest(kyma, some) for kyma in some.sample("kl", some.randint(0, 2))]
    world: kit.World[Any, Any] = kit.World(
        logic=MandatoryLogic(),
        obj=a_kyma(labels={labels.SKIP_RECONCILIATION_LABEL: "true"} if some.random() < 0.1 else {}),
        objects={
            KYMAS: [],
            METAS: metas,
            TEMPLATES: some.sample(templates, 2 if some.random() < 0.1 else 3),
            MANIFESTS: manifests,
        },
        settings=(MandatorySettings(offers=lambda _: Offers(component=component, longest_delay=timedelta(hours=1))),),
        clock=FakeClock(),
        ends_at_once=True,
    )
    if some.random() < 0.15:
        hidden: Collection[Any] = some.choice([METAS, TEMPLATES, MANIFESTS])
        world.hidden = {hidden: [Unreadable(each.resource, each.metadata, "odd") for each in world.objects[hidden][:1]]}
        world.objects[hidden] = world.objects[hidden][1:]
    leaving = {"deletionTimestamp": DELETED} if some.random() < 0.6 else {}
    held = some.choice([HELD, HELD, {"finalizers": ["others/one"]} if leaving else {}])
    match some.randint(0, 2):
        case 0:
            meta = a_meta("amod", some.choice(["", "1.0.0", "1.0.0"]))
            world.logic, world.obj = MetaLogic(), _with(meta, **leaving, **held)
        case 1:
            template = a_template("bmod", "1.0.0", labels=some.choice([MARK, MARK, {}]))
            world.logic, world.obj = TemplateLogic(), _with(template, **leaving, **held)
            world.objects[METAS] += [a_meta("bmod", "1.0.0")] if some.random() < 0.3 else []
        case _:
            pass
    return world


def _manifest(kyma: str, some: random.Random) -> Manifest:
    """The Manifest of a mandatory module, or of one that a user has asked for."""
    module = some.choice(["amod", "bmod"])
    marks = {f"{PREFIX}/kyma-name": kyma, labels.MODULE_NAME_LABEL: module} | (MARK if some.random() < 0.8 else {})
    name = manifest_name(kyma, f"kyma-project.io/module/{module}" if module == "amod" else "", module)
    held: dict[str, Any] = some.choice(
        [{}, {"finalizers": ["x/y"]}, {"finalizers": ["x/y"], "deletionTimestamp": DELETED}]
    )
    return a_manifest(name, labels=marks, **held)


def _with(obj: Any, **metadata: Any) -> Any:
    """An object with other metadata."""
    body = msgspec.to_builtins(obj)
    return msgspec.convert({**body, "metadata": {**body["metadata"], **metadata}}, type(obj))
