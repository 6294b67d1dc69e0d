"""Manifests in worlds of values, for the properties of all kinds that decide by steps."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
from tests.unit.kyma.manifest.test_decide import (
    CONFIG_MAPS,
    DEFAULT,
    DEFINITION,
    DEPLOYMENTS,
    FAR,
    KYMA,
    LOGIN,
    MODULE,
    NOW,
    ROLES,
    SAMPLE,
    SOURCES,
    built_in,
    live,
    manifest,
)

from stellwerk.api.core import Secret
from stellwerk.kube.types.model import PartialObjectMetadata, Unreadable
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import Kyma
from stellwerk.operators.kyma.api_manifest import Manifest, ManifestStatus
from stellwerk.operators.kyma.api_module import Manager
from stellwerk.operators.kyma.collections import (
    ACCESS_SECRETS,
    KYMAS,
    module_objects,
    module_resources,
)
from stellwerk.operators.kyma.manifest.decide import ManifestLogic, ManifestSettings
from stellwerk.operators.kyma.manifest.writes import ApplyModule
from stellwerk.operators.kyma.sources.descriptors import ModuleObjects
from stellwerk.operators.kyma.sources.loads import InlineObjects
from stellwerk.runtime.control.step import Write
from stellwerk.runtime.reading.loads import PlainLoads, SecretData, ServedKind
from stellwerk.runtime.reading.questions import Collection
from stellwerk.testing import steps as kit
from stellwerk.testing.clock import FakeClock

NEWER = MODULE.replace("settings", "newer").replace("red", "blue")
WITH_KIND = MODULE + DEFINITION
DEFINITIONS = built_in("apiextensions.k8s.io/v1", "CustomResourceDefinition")
THERE: list[Collection[Any]] = [module_objects(each) for each in (CONFIG_MAPS, DEPLOYMENTS, ROLES, DEFINITIONS, SAMPLE)]
RESOURCES: Collection[Any] = module_resources(SAMPLE)


def in_steps(some: random.Random) -> kit.World[Manifest, ManifestStatus]:
    """A Manifest that has gone some way from its beginning; then others have changed something."""
    clock = FakeClock(NOW)
    seen = ObjectMeta(
        name=LOGIN.name, namespace=LOGIN.namespace, resource_version="7", labels={labels.KYMA_NAME_LABEL: KYMA}
    )
    loads: dict[Any, Any] = {
        SecretData(LOGIN, "7"): Secret(metadata=seen, data={"config": base64.b64encode(FAR.content).decode()})
    }
    loads.update({InlineObjects(text): ModuleObjects.of(text) for text in (MODULE, NEWER, WITH_KIND)})
    loads.update({ServedKind("", SAMPLE.gvk, any_version=each): SAMPLE for each in (False, True)})
    parent = Kyma(metadata=ObjectMeta(name=KYMA, namespace=labels.KCP_NAMESPACE, uid="k1"))
    world = kit.World(
        logic=ManifestLogic(clock),
        obj=_new(some),
        objects={
            KYMAS: [parent] if some.random() < 0.95 else [],
            ACCESS_SECRETS: [PartialObjectMetadata(metadata=seen)] if some.random() < 0.95 else [],
        },
        there={each: [] for each in (*THERE, RESOURCES)},
        login=FAR,
        settings=(SOURCES, ManifestSettings()),
        loads=PlainLoads(loads),
        clock=clock,
        ends_at_once=True,
        split=parts,
    )
    for _ in range(some.choice([0, 1, 2, 2])):
        if not world.is_released:
            world.passed(some.choice([None, None, 2, 5]))
        _others_act(world, some)
    return world


def parts(write: Write) -> Iterable[Write]:
    """The writes of single objects that a write consists of."""
    if isinstance(write, ApplyModule):
        return [
            replace(write, objects=replace(write.objects, wanted=(each,)), why=write.why)
            for each in write.objects.wanted
        ]
    return (write,)


def _new(some: random.Random) -> Manifest:
    fields: dict[str, Any] = {}
    if some.random() < 0.3:
        fields["resource"] = DEFAULT
        fields["custom_resource_policy"] = some.choice(["CreateAndDelete", "Ignore"])
    if some.random() < 0.2:
        name = some.choice(["manager", "other"])
        fields["manager"] = Manager(group="apps", version="v1", kind="Deployment", namespace="default", name=name)
    if some.random() < 0.1:
        fields["creation_timestamp"] = NOW - timedelta(minutes=6)
    if some.random() < 0.1:
        fields["finalizers"] = ("others/one",)
    return manifest(some.choice([MODULE, MODULE, WITH_KIND]), **fields)


def _others_act(world: kit.World[Manifest, ManifestStatus], some: random.Random) -> None:
    """Users, other controllers and the API server of the remote cluster do something."""
    match some.randint(0, 9):
        case 0 | 1:
            _change(world, deletion_timestamp=NOW)
        case 2:
            _change(world, annotations={**world.obj.metadata.annotations, labels.IS_UNMANAGED_ANNOTATION: "true"})
        case 3:
            newer = manifest(some.choice([NEWER, MODULE, WITH_KIND])).spec.install
            spec = msgspec.structs.replace(world.obj.spec, install=newer)
            world.obj = msgspec.structs.replace(world.obj, spec=spec)
        case 4:
            collection = some.choice(THERE)
            world.there[collection] = []
        case 5:
            leaving = {"deletionTimestamp": "2026-05-01T12:00:00Z", "finalizers": ["others/one"]}
            former = live(CONFIG_MAPS, "settings", "ours", metadata=leaving)
            world.there[THERE[0]], world.hidden = [former], {}
        case 6:
            theirs = ObjectMeta(name=some.choice(["s", "theirs"]), namespace="ours", uid="r", finalizers=("a/b",))
            world.there[RESOURCES] = [PartialObjectMetadata(metadata=theirs)]
        case 7 if some.random() < 0.5:
            world.trouble = "it is silent"
        case 8 if some.random() < 0.5:
            seen = world.there[THERE[0]] or [live(CONFIG_MAPS, "settings", "ours")]
            world.there[THERE[0]] = []
            world.hidden = {THERE[0]: [Unreadable(CONFIG_MAPS, seen[0].metadata, "odd")]}
        case _:
            _change(world, labels={**world.obj.metadata.labels, labels.MANDATORY_MODULE_LABEL: "true"})


def _change(world: kit.World[Manifest, ManifestStatus], **metadata: Any) -> None:
    if not world.is_released:
        changed = msgspec.structs.replace(world.obj.metadata, **metadata)
        world.obj = msgspec.structs.replace(world.obj, metadata=changed)
