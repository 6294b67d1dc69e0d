"""What the next passes would write, by the `decide` of the controllers, with the rights of the user on both clusters.

| the object of `diff` | shows |
| --- | --- |
| Kyma, Manifest, Watcher | the writes of its next pass, those in the remote cluster included |
| the Kyma of a remote cluster, in a file | those of the pass on its Kyma of the control plane, as if it were stored |
| ModuleReleaseMeta, also in a file | which Kymas would get another version, and what changes in the cluster of one |

The settings are those of the operator that runs, as far as the user may read its Deployment. Delays and limits of
rollouts are left out: they decide when, and not what.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias, TypeVar

import msgspec

from stellwerk.api.apps import Deployment
from stellwerk.api.core import ConfigMap
from stellwerk.delivery import deployed_process
from stellwerk.delivery.insight import Preview, PreviewFailed, PreviewRequest
from stellwerk.delivery.step_preview import MOST_LOADS, StepPreview
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import Forbidden
from stellwerk.kube.types.identifiers import ObjectRef
from stellwerk.kube.types.model import JsonObject, Kind, dig, unstructured
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import Kyma, Module, ModuleStatus
from stellwerk.operators.kyma.api_manifest import Manifest
from stellwerk.operators.kyma.api_module import ModuleReleaseMeta, ModuleTemplate
from stellwerk.operators.kyma.api_status import State
from stellwerk.operators.kyma.api_watcher import Watcher
from stellwerk.operators.kyma.collections import MANIFESTS_OF_KYMA, METAS, RUNTIME_KYMAS
from stellwerk.operators.kyma.controllers import offers_of, settings_of_kymas
from stellwerk.operators.kyma.insight.surroundings import POLICY_KEY
from stellwerk.operators.kyma.installation import INSTALLATION
from stellwerk.operators.kyma.kyma.catalog import module_of
from stellwerk.operators.kyma.kyma.decide import KymaLogic
from stellwerk.operators.kyma.mandatory import decide as mandatory
from stellwerk.operators.kyma.mandatory.decide import MandatorySettings
from stellwerk.operators.kyma.mandatory.modules import is_served
from stellwerk.operators.kyma.manifest.decide import ManifestLogic, ManifestSettings
from stellwerk.operators.kyma.manifest.objects import DEPLOYER
from stellwerk.operators.kyma.module.resolution import Offers, Plan, resolve
from stellwerk.operators.kyma.module.windows import BadPolicy, Policy
from stellwerk.operators.kyma.process import CONNECT_SECONDS, SILENCE_SECONDS
from stellwerk.operators.kyma.settings import TABLE, Settings
from stellwerk.operators.kyma.sources.loads import Sources
from stellwerk.operators.kyma.watcher.decide import WatcherLogic, WatcherSettings
from stellwerk.render.sources.http import HttpClient
from stellwerk.runtime.clock import SystemClock
from stellwerk.runtime.control.step import Apply
from stellwerk.runtime.reading.known import NotKnown, Present
from stellwerk.runtime.reading.live_sources import LiveClusters, LiveSources
from stellwerk.runtime.reading.view import Overlay, View

K = TypeVar("K", bound=Kind)

_NAMED = 50
"""How many Kymas a preview names one by one."""


@dataclass(frozen=True, slots=True)
class Operator:
    """What the operator decides with."""

    settings: Settings
    modules: Sources
    policy: Policy | None

    @classmethod
    async def of(cls, request: PreviewRequest, namespace: str) -> Operator:
        """As far as the user may read it; else with the defaults. Raises ApiError."""
        settings = await settings_in(request, namespace)
        http = HttpClient(
            tls=None, user_agent="stellwerk-cli", connect_seconds=CONNECT_SECONDS, silence_seconds=SILENCE_SECONDS
        )
        request.connections.push_async_callback(http.close)
        modules = Sources.of(settings, http, settings.egress)
        return cls(settings, modules, await _policy(request.client, namespace))

    def offers(self, view: View) -> Offers:
        """What decides about modules, without delays."""
        at_once = replace(self.settings, module_upgrade_rollout_max_delay=timedelta(0), module_rollout_at_once=0)
        return offers_of(at_once, self.modules, self.policy, view)

    @property
    def of_kymas(self) -> tuple[object, ...]:
        """For passes on Kymas."""
        return (settings_of_kymas(self.settings, self.offers),)

    @property
    def of_manifests(self) -> tuple[object, ...]:
        """For passes on Manifests."""
        injects = DEPLOYER in self.settings.restricted_default_modules
        return self.modules, ManifestSettings(pull_secret=self.settings.skr_image_pull_secret, injects_data=injects)


async def settings_in(request: PreviewRequest, namespace: str) -> Settings:
    """The settings of the operator that runs in a namespace, or of the original; the defaults if none can be read."""
    if request.local_folder is not None:
        return TABLE.of_process(INSTALLATION.local_flags(request.local_folder), INSTALLATION.local_environment)
    try:
        deployments = (await request.client.list(unstructured(Deployment.resource), namespace)).items
    except Forbidden:
        return Settings()
    for deployment in deployments:
        is_original = deployed_process.is_original(deployment, INSTALLATION.original)
        for process in deployed_process.of_deployment(deployment):
            if is_original or process.runs("kyma"):
                return TABLE.of_process(process.words, process.variables)
    return Settings()


async def _policy(client: Client, namespace: str) -> Policy | None:
    try:
        found = await client.find(ConfigMap, labels.POLICY_CONFIG_MAP, namespace)
        return Policy.parse(found.data.get(POLICY_KEY, "").encode()) if found is not None else None
    except (Forbidden, BadPolicy):
        return None


async def as_stored(subject: K, client: Client) -> K:
    """An object of a file as it would be stored; one of the cluster as it is. Raises ApiError."""
    if subject.metadata.uid:
        return subject
    kind, (namespace, name) = type(subject), subject.key
    live = await client.find(kind, name, namespace)
    if live is None:
        return subject
    given, seen = subject.metadata, live.metadata
    metadata = msgspec.structs.replace(
        seen,
        labels={**seen.labels, **given.labels},
        annotations={**seen.annotations, **given.annotations},
        generation=seen.generation + 1,
    )
    return msgspec.structs.replace(subject, metadata=metadata, **_status_of(live))


def _status_of(live: Kind) -> dict[str, Any]:
    return {"status": live.status} if hasattr(live, "status") else {}


@dataclass(frozen=True, slots=True)
class KymaPreviewer:
    """Of Kymas of the control plane, and, from files, of remote clusters."""

    kind: type[Kind] = Kyma
    accepts_image: bool = False

    async def preview(self, subject: Kyma, request: PreviewRequest) -> Preview:
        """As `Previewer.preview`."""
        client, clusters = request.client, LiveClusters(request.connections)
        kyma = subject
        if subject.key == labels.SKR_KYMA:
            kyma = await _followed_by(subject, client)
        kyma = await as_stored(kyma, client)
        operator = await Operator.of(request, kyma.metadata.namespace)
        steps = StepPreview(logic=KymaLogic(SystemClock()), field_manager=labels.FIELD_MANAGER)

        def edited() -> Overlay:
            overlay = Overlay()
            for kubeconfig, there in clusters.opened.items():
                found = there.of(RUNTIME_KYMAS).get(labels.SKR_KYMA)
                if isinstance(found, Present) and subject.key == labels.SKR_KYMA:
                    changed = msgspec.structs.replace(found.value, spec=subject.spec)
                    overlay.on(kubeconfig).put(RUNTIME_KYMAS, changed)
            return overlay

        return await steps.preview(kyma, client, datetime.now(UTC), operator.of_kymas, clusters, edited)


async def _followed_by(subject: Kyma, client: Client) -> Kyma:
    """The Kyma of the control plane that follows the one of a remote cluster. Raises PreviewFailed, ApiError."""
    owner = subject.metadata.annotations.get(labels.OWNED_BY_ANNOTATION, "")
    namespace, _, name = owner.partition("/")
    found = await client.find(Kyma, name, namespace) if namespace and name else None
    if found is None:
        raise PreviewFailed(
            f"no Kyma of the control plane follows {subject.ref}",
            fix=f"name it in the file by the annotation {labels.OWNED_BY_ANNOTATION}: {labels.KCP_NAMESPACE}/NAME",
        )
    return found


@dataclass(frozen=True, slots=True)
class ManifestPreviewer:
    """Of Manifests: the objects of their modules."""

    kind: type[Kind] = Manifest
    accepts_image: bool = False

    async def preview(self, subject: Manifest, request: PreviewRequest) -> Preview:
        """As `Previewer.preview`."""
        manifest = await as_stored(subject, request.client)
        operator = await Operator.of(request, manifest.metadata.namespace)
        return await of_manifest(manifest, request, operator)


async def of_manifest(manifest: Manifest, request: PreviewRequest, operator: Operator) -> Preview:
    """What the pass on a Manifest would write. Raises PreviewFailed, ApiError."""
    steps = StepPreview(logic=ManifestLogic(SystemClock()), field_manager=labels.FIELD_MANAGER)
    clusters, now = LiveClusters(request.connections), datetime.now(UTC)
    return await steps.preview(manifest, request.client, now, operator.of_manifests, clusters)


@dataclass(frozen=True, slots=True)
class WatcherPreviewer:
    """Of Watchers: their routes."""

    kind: type[Kind] = Watcher
    accepts_image: bool = False

    async def preview(self, subject: Watcher, request: PreviewRequest) -> Preview:
        """As `Previewer.preview`."""
        watcher = await as_stored(subject, request.client)
        settings = await settings_in(request, watcher.metadata.namespace)
        steps = StepPreview(logic=WatcherLogic(SystemClock()), field_manager=labels.FIELD_MANAGER)
        own = WatcherSettings(gateway_namespace=settings.istio_gateway_namespace)
        return await steps.preview(watcher, request.client, datetime.now(UTC), (own,))


# ---- a changed ModuleReleaseMeta


@dataclass(slots=True)
class Reach:
    """The Kymas that a ModuleReleaseMeta concerns."""

    changed: dict[ObjectRef, str] = field(default_factory=dict)
    deleted: dict[ObjectRef, str] = field(default_factory=dict)
    held: Counter[str] = field(default_factory=Counter)
    """How many Kymas keep what they have, by the cause."""
    same: int = 0
    candidates: list[tuple[Kyma, ModuleStatus, JsonObject]] = field(default_factory=list)
    """Those that would get another version, and their Manifests then."""

    @property
    def example(self) -> tuple[Kyma, JsonObject] | None:
        """One of them, a Ready one if there is one."""
        ranks = {State.Ready: 0, State.Processing: 1}
        found = min(self.candidates, key=lambda each: ranks.get(each[1].state, 2), default=None)
        return (found[0], found[2]) if found is not None else None

    def note(self, kyma: Kyma, module: ModuleStatus, plan: Plan) -> None:
        """Note what becomes of the module of a Kyma."""
        if plan.removed is not None:
            self.deleted[plan.removed.ref] = f"{plan.status.message if plan.status is not None else ''}"
        elif plan.wanted is not None:
            body = msgspec.convert(plan.wanted, Manifest)
            self.changed[body.ref] = f"{kyma.ref}: version {module.version or 'none'} -> {body.spec.version}"
            self.candidates.append((kyma, module, plan.wanted))
        elif plan.status is not None and plan.status.message and plan.status.message != module.message:
            self.held[plan.status.message] += 1
        else:
            self.same += 1


@dataclass(frozen=True, slots=True)
class MetaPreviewer:
    """Of ModuleReleaseMetas: which clusters would change, and what in the first of them."""

    kind: type[Kind] = ModuleReleaseMeta
    accepts_image: bool = False

    async def preview(self, subject: ModuleReleaseMeta, request: PreviewRequest) -> Preview:
        """As `Previewer.preview`."""
        client, namespace = request.client, subject.metadata.namespace
        meta = await as_stored(subject, client)
        operator = await Operator.of(request, namespace)
        kymas = (await client.list(Kyma, namespace, skip_unreadable=True)).items
        reach = await reach_of(meta, kymas, client, operator)
        warnings = [f"{count} Kymas keep what they have: {why}" for why, count in sorted(reach.held.items())]
        if len(reach.changed) > _NAMED:
            warnings.append(f"{len(reach.changed)} Kymas would change, of which {_NAMED} are named")
        if reach.changed and (delay := operator.settings.module_upgrade_rollout_max_delay):
            warnings.append(f"each Kyma changes at a time of its own, within {int(delay.total_seconds())} s")
        if reach.changed and (at_once := operator.settings.module_rollout_at_once):
            warnings.append(f"at most {at_once} clusters change at a time")
        others: tuple[Preview, ...] = ()
        if reach.example is not None:
            kyma, wanted = reach.example
            found = await _in_one(kyma, wanted, request, operator)
            others = tuple(replace(each, place=f"{each.place} of {kyma.ref}") for each in found.others if each.client)
            warnings += found.warnings
        return Preview(
            field_manager=labels.FIELD_MANAGER,
            changed=dict(list(reach.changed.items())[:_NAMED]),
            deleted=reach.deleted,
            kept=reach.same + sum(reach.held.values()),
            warnings=tuple(dict.fromkeys(warnings)),
            others=others,
        )


async def reach_of(meta: ModuleReleaseMeta, kymas: Sequence[Kyma], client: Client, operator: Operator) -> Reach:
    """The Kymas that a ModuleReleaseMeta concerns, if it is like this. Raises PreviewFailed, ApiError."""
    sources, overlay, why = LiveSources(client, meta.metadata.namespace), Overlay(), ""
    overlay.put(METAS, meta)
    plans_of = _chosen_plan if meta.spec.mandatory is None else _mandatory_plan
    concerned = [each for each in sorted(kymas, key=lambda each: each.key) if is_served(each)]
    settings, now, plans = (MandatorySettings(offers=operator.offers),), datetime.now(UTC), list[_Planned]()
    for _ in range(MOST_LOADS):
        view = View(sources=sources, settings=settings, now=now, overlay=overlay, loads=sources.loads)
        try:
            plans, why = [each for kyma in concerned for each in plans_of(kyma, meta, view)], ""
        except NotKnown as error:
            plans, why = [], str(error)
        if not await sources.load():
            break
    else:
        raise PreviewFailed(f"{meta.ref} asks for more and more objects", fix="report this as a bug")
    if why:
        raise PreviewFailed(why, fix="ask for the right to read what the cause names")
    reach = Reach()
    for kyma, module, plan in plans:
        reach.note(kyma, module, plan)
    return reach


_Planned: TypeAlias = tuple[Kyma, ModuleStatus, Plan]
"""What becomes of one module of a Kyma, and what the module is like now."""


def _chosen_plan(kyma: Kyma, meta: ModuleReleaseMeta, view: View) -> Iterator[_Planned]:
    """Of a module that the user of a Kyma has chosen. The channel is in the status."""
    for module in kyma.status.modules:
        if module.name == meta.metadata.name:
            is_managed = module.state is not State.Unmanaged
            wanted = Module(name=module.name, channel=module.channel, managed=is_managed)
            spec = msgspec.structs.replace(kyma.spec, modules=(wanted,))
            plans = resolve(kyma, spec, view.setting(MandatorySettings).offers(view), view)
            yield from ((kyma, module, each) for each in plans if each.name == module.name)


def _mandatory_plan(kyma: Kyma, meta: ModuleReleaseMeta, view: View) -> Iterator[_Planned]:
    """Of a mandatory module, by the pass that gives a Kyma all of them. What becomes of the others is left out."""
    name = meta.metadata.name
    step = mandatory.decide(kyma, view)
    manifests = view.by(MANIFESTS_OF_KYMA, str(kyma.key), lambda each: each).values
    seen = next((each for each in manifests if each.metadata.labels.get(labels.MODULE_NAME_LABEL) == name), None)
    state, version = (seen.status.state, seen.spec.version) if seen is not None else (State.Processing, "")
    now = ModuleStatus(name=name, state=state, version=version)
    if step.failure is not None:
        yield kyma, now, Plan(name=name, status=msgspec.structs.replace(now, message=step.failure.message))
        return
    bodies = (each.body for each in step.writes if isinstance(each, Apply))
    wanted = (each for each in bodies if dig(each, "metadata", "labels", labels.MODULE_NAME_LABEL) == name)
    yield kyma, now, Plan(name=name, status=None, wanted=next(wanted, None))


async def _in_one(kyma: Kyma, wanted: JsonObject, request: PreviewRequest, operator: Operator) -> Preview:
    """What changes in the cluster of one Kyma, as soon as its Manifest is as it is wanted."""
    manifest = msgspec.convert(wanted, Manifest)
    live = await request.client.find(Manifest, manifest.metadata.name, manifest.metadata.namespace)
    if live is not None:  # the policy that its user has chosen is in no status
        policy = live.spec.custom_resource_policy
        spec = msgspec.structs.replace(manifest.spec, custom_resource_policy=policy)
        manifest = msgspec.structs.replace(manifest, spec=spec)
    return await of_manifest(await as_stored(manifest, request.client), request, operator)


@dataclass(frozen=True, slots=True)
class TemplatePreviewer:
    """Of ModuleTemplates, for which nothing is written: they are offered by a ModuleReleaseMeta."""

    kind: type[Kind] = ModuleTemplate
    accepts_image: bool = False

    async def preview(self, subject: ModuleTemplate, request: PreviewRequest) -> Preview:
        """As `Previewer.preview`."""
        raise PreviewFailed(
            "a ModuleTemplate is what a channel of its ModuleReleaseMeta leads to",
            fix=f"compare that: stellwerk diff mrm/{module_of(subject)} -n {subject.metadata.namespace}",
            nothing_to_do=True,
        )


PREVIEWERS: dict[str, Any] = {
    "Kyma": KymaPreviewer(),
    "Manifest": ManifestPreviewer(),
    "Watcher": WatcherPreviewer(),
    "ModuleReleaseMeta": MetaPreviewer(),
    "ModuleTemplate": TemplatePreviewer(),
}
