"""Kymas, modules and remote clusters as values."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import msgspec
from tests.unit.kyma.objects import DELETED as DELETED
from tests.unit.kyma.objects import HOME as HOME
from tests.unit.kyma.objects import PREFIX as PREFIX
from tests.unit.kyma.objects import metadata as metadata
from tests.unit.kyma.watcher import authorities
from tests.unit.kyma.watcher.worlds import a_gateway, a_watcher

from stellwerk.api.core import ConfigMap, Secret
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import PartialObjectMetadata, Unreadable, Unstructured
from stellwerk.operators.kyma import collections as known
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import Kyma, KymaStatus
from stellwerk.operators.kyma.api_manifest import InstallInfo, Manifest
from stellwerk.operators.kyma.api_module import ModuleReleaseMeta, ModuleTemplate
from stellwerk.operators.kyma.api_status import State
from stellwerk.operators.kyma.kyma.decide import DefinitionContent, KymaLogic, KymaSettings
from stellwerk.operators.kyma.kyma.sync import DEFINITIONS
from stellwerk.operators.kyma.mandatory.modules import version_of
from stellwerk.operators.kyma.module.resolution import Component, Offers
from stellwerk.operators.kyma.settings import Settings
from stellwerk.operators.kyma.watcher import webhook
from stellwerk.operators.kyma.watcher.certificates import CERTIFICATE_SECRETS, CERTIFICATES, GATEWAY_SECRETS
from stellwerk.runtime.cache.remote_clusters import Kubeconfig
from stellwerk.runtime.reading.known import Known, Present
from stellwerk.runtime.reading.loads import PlainLoads, SecretData
from stellwerk.runtime.reading.questions import Collection
from stellwerk.testing import steps as kit
from stellwerk.testing.clock import FakeClock

LOGIN = Kubeconfig(ObjectKey(HOME, "access"), b"a kubeconfig")


def a_kyma(name: str = "k", *, spec: Any = None, status: Any = None, namespace: str = HOME, **fields: Any) -> Kyma:
    """A Kyma."""
    body = {
        "metadata": metadata(name, namespace, **fields),
        "spec": {"channel": "regular", **(spec or {})},
        "status": status or {},
    }
    return msgspec.convert(body, Kyma)


def a_template(module: str, version: str, *, labels: Any = None, written: bool = False, **spec: Any) -> ModuleTemplate:
    """A template. `written`: by this operator, in a remote cluster."""
    managers = [{"manager": "catalog-sync", "operation": "Apply"}] if written else []
    meta = metadata(f"{module}-{version}", labels=labels or {}, managedFields=managers)
    wanted = {"descriptor": {}, "moduleName": module, "version": version, **spec}
    return msgspec.convert({"metadata": meta, "spec": wanted}, ModuleTemplate)


def a_meta(module: str, mandatory: str = "", labels: Any = None, **channels: str) -> ModuleReleaseMeta:
    """A ModuleReleaseMeta: versions by channel, or that of a mandatory module."""
    spec: dict[str, Any] = {"moduleName": module, "ocmComponentName": f"kyma-project.io/module/{module}"}
    if mandatory:
        spec["mandatory"] = {"version": mandatory}
    else:
        spec["channels"] = [{"channel": channel, "version": version} for channel, version in channels.items()]
    return msgspec.convert({"metadata": metadata(module, labels=labels or {}), "spec": spec}, ModuleReleaseMeta)


def a_manifest(name: str, *, labels: Any = None, **fields: Any) -> Manifest:
    """A Manifest."""
    return msgspec.convert({"metadata": metadata(name, labels=labels or {}, **fields)}, Manifest)


def a_rollout(template: str, *, state: str = "Running", done: int = 0, **turns: Any) -> ConfigMap:
    """The ConfigMap of the rollout of a version, with turns by Kyma."""
    data = {"state": state, "done": str(done), "forgiven": "0", "turns": msgspec.json.encode(turns).decode()}
    meta = metadata(f"rollout-{template}", labels={f"{PREFIX}/rollout": template.partition("-")[0]})
    return msgspec.convert({"metadata": meta, "data": data}, ConfigMap)


def component(template: ModuleTemplate, ocm_name: str) -> Known[Component]:
    """The component of a template, which is what the template states."""
    return Present(Component(ocm_name, version_of(template), InstallInfo(name="raw-manifest")))


def seen_of(name: str, namespace: str = HOME, **fields: Any) -> PartialObjectMetadata:
    """What is seen of an object whose content is not in a cache."""
    return msgspec.convert({"metadata": metadata(name, namespace, **fields)}, PartialObjectMetadata)


def access(name: str = "access", kyma: str = "k") -> PartialObjectMetadata:
    """What is seen of an access Secret."""
    return seen_of(name, labels={f"{PREFIX}/kyma-name": kyma})


def a_secret(name: str, **data: str) -> Secret:
    """A Secret with its content."""
    return msgspec.convert({"metadata": metadata(name), "data": data}, Secret)


def a_definition(name: str) -> Unstructured:
    """A definition of the control plane."""
    spec: Any = {"group": PREFIX, "names": {"kind": name}, "conversion": {"strategy": "Webhook"}}
    return Unstructured.of({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                            "metadata": {"name": name}, "spec": spec})  # fmt: skip


def contents(definitions: Iterable[str] = DEFINITIONS) -> dict[Any, Any]:
    """What can be loaded: the logins, the pull Secret, and definitions of generation 3."""
    found: dict[Any, Any] = {SecretData(LOGIN.secret, "7"): a_secret("access", config="YSBrdWJlY29uZmln")}
    found[SecretData(ObjectKey(HOME, "pull"), "7")] = a_secret("pull", a="e30=")
    return found | {DefinitionContent(name, f"uid-of-{name}", 3): a_definition(name) for name in definitions}


# ---- for the properties of all kinds

WATCHED = Settings(skr_watcher_image_tag="1.2.3")
AUTHORITY = authorities.an_authority(kit.NOW, 400)
LEAF = authorities.a_leaf(AUTHORITY, kit.NOW, 60)
CERTIFICATE = authorities.a_secret(Secret, "k-webhook-tls", authorities.content(LEAF))


def in_steps(some: random.Random) -> kit.World[Kyma, KymaStatus]:
    """A random world, for the properties of all kinds that decide by steps.

    It has gone some way from its beginning; then users or other controllers have changed something.
    """
    clock = FakeClock()
    listed = [{"name": each, "managed": True} for each in some.sample(["amod", "bmod", "absent"], some.randint(0, 2))]
    rare = some.random() < 0.1
    settings = KymaSettings(
        offers=lambda _: Offers(component=component),
        pull_secret=some.choice(["", "pull", "pull", "missing" if rare else "pull"]),
        is_deleted_as_before=some.random() < 0.3,
        watcher=some.choice([None, Settings(disable_watcher=True), WATCHED, WATCHED]),
    )
    marks = {"kyma-project.io/runtime-id": "r-1"} if some.random() < 0.9 else {}
    world = kit.World(
        logic=KymaLogic(clock),
        obj=a_kyma(
            spec={"modules": listed, "channel": some.choice(["regular", "fast"])},
            labels=_labels(some) | marks,
            annotations={"skr-domain": "c-1.kyma.example.com"},
        ),
        objects={
            known.ACCESS_SECRETS: [] if rare else [access()],
            known.METAS: [a_meta("amod", regular="1.0.0", fast="2.0.0"), a_meta("bmod", regular="1.0.0")],
            known.TEMPLATES: [a_template("amod", "1.0.0"), a_template("amod", "2.0.0"), a_template("bmod", "1.0.0")],
            known.HOME_DEFINITIONS: [seen_of(name, "", generation=3) for name in DEFINITIONS],
            known.OTHER_SECRETS: [seen_of("pull")],
            known.MANIFESTS: [],
            known.WATCHERS: [a_watcher()],
            known.GATEWAYS: [a_gateway("klm-watcher", "kcp-system/listen.example.com")],
            GATEWAY_SECRETS: [authorities.a_gateway(AUTHORITY)],
            CERTIFICATE_SECRETS: [],
            CERTIFICATES[WATCHED.cert_management]: [],
        },
        there={each: [] for each in (*known.RUNTIME_COLLECTIONS, *webhook.RUNTIME_COLLECTIONS)},
        login=LOGIN,
        settings=(settings,),
        loads=PlainLoads(contents() | {SecretData(CERTIFICATE.key, "7"): CERTIFICATE}),
        clock=clock,
        ends_at_once=True,
    )
    for _ in range(some.choice([0, 0, 1, 3])):
        if not world.is_released:
            world.passed(some.choice([None, 5, 10, 20]))
        _others_act(world, some)
    return world


def _labels(some: random.Random) -> dict[str, str]:
    return some.choice([{}, {}, {}, {labels.SKIP_RECONCILIATION_LABEL: "true"}, {labels.SYNC_LABEL: "false"}])


def _others_act(world: kit.World[Kyma, KymaStatus], some: random.Random) -> None:
    """Users and other controllers do something."""
    manifests = world.objects[known.MANIFESTS]
    for number, each in enumerate(manifests):
        state = some.choice([State.Ready, State.Ready, State.Processing, State.Warning, State.Error])
        held = msgspec.structs.replace(each.metadata, finalizers=("declarative.kyma-project.io/finalizer",))
        shown = msgspec.structs.replace(each.status, state=state)
        manifests[number] = msgspec.structs.replace(each, metadata=held, status=shown)
    if some.random() < 0.7 and world.objects[CERTIFICATES[WATCHED.cert_management]]:
        world.objects[CERTIFICATE_SECRETS] = [authorities.a_certificate_secret(LEAF)]
    deployments: Collection[Any] = webhook.DEPLOYMENTS
    world.there[deployments] = [
        Unstructured({**each.body, "status": {"readyReplicas": 1}}, each.metadata) for each in world.there[deployments]
    ]
    remote = world.there[known.RUNTIME_KYMAS]
    match some.randint(0, 6):
        case 0 | 1:
            gone = msgspec.structs.replace(world.obj.metadata, deletion_timestamp=kit.NOW)
            world.obj = msgspec.structs.replace(world.obj, metadata=gone)
        case 2 if remote:
            spec = msgspec.structs.replace(remote[0].spec, channel=some.choice(["fast", "none"]), modules=())
            remote[0] = msgspec.structs.replace(remote[0], spec=spec)
        case 3:
            world.trouble = "it is silent"
        case 4:
            seen = world.objects[known.TEMPLATES].pop()
            world.hidden = {known.TEMPLATES: [Unreadable(seen.resource, seen.metadata, "odd")]}
        case 5 if world.there[known.RUNTIME_DEFINITIONS]:
            world.there[known.RUNTIME_DEFINITIONS].pop()
        case 6 if manifests:
            leaving = msgspec.structs.replace(manifests[0].metadata, deletion_timestamp=kit.NOW)
            manifests[0] = msgspec.structs.replace(manifests[0], metadata=leaving)
        case _:
            pass
