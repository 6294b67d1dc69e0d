"""What is around a Kyma and its Manifests on both clusters, read with the rights of the user.

The remote cluster is reached with the login of the access Secret, as the operator does, if the user may read that. What
is not reached is named, and no cause is made of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.core import ConfigMap, Secret
from stellwerk.delivery import workloads
from stellwerk.delivery.sets import unsettled_objects
from stellwerk.delivery.sets.unsettled_objects import NAMED, UnsettledObject
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types import lenient
from stellwerk.kube.types.errors import ApiError, LoginFailed
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, ObjectRef
from stellwerk.kube.types.model import Unstructured
from stellwerk.kube.types.object_meta import ObjectMeta, rfc3339
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import Kyma, ModuleStatus
from stellwerk.operators.kyma.api_manifest import Manifest, SyncedResource
from stellwerk.operators.kyma.api_module import ModuleReleaseMeta
from stellwerk.operators.kyma.api_status import LastOperation, State
from stellwerk.operators.kyma.fleet.rollout import WAITING
from stellwerk.operators.kyma.kyma.sync import DEFINITIONS
from stellwerk.operators.kyma.module.windows import BadPolicy, NoWindow, Policy
from stellwerk.runtime.insight.diagnosis import ClusterReader
from stellwerk.runtime.insight.related_objects import NotReached

POLICY_KEY = "policy.json"
"""The ConfigMap with the maintenance windows, and its key."""
LEAST_WINDOW = timedelta(minutes=20)
"""Of a window, so much must be left, unless `--min-maintenance-window-size` sets another size."""
CALL_SECONDS = 5.0
"""How long a remote cluster may take for an answer."""


@asynccontextmanager
async def remote_cluster(reader: ClusterReader, kyma: ObjectKey) -> AsyncIterator[ClusterReader]:
    """The cluster of a Kyma of the control plane. Raises NotReached."""
    marked = f"{labels.KYMA_NAME_LABEL}={kyma.name}"
    secrets = await reader.list(Secret.resource, kyma.namespace, labels=marked)
    if not secrets:
        is_hidden = reader.may_not_see(Secret.resource, kyma.namespace)
        why = "you may not read its access Secret" if is_hidden else "it has no access Secret"
        raise NotReached(why)
    if len(secrets) > 1:
        raise NotReached("it has more than one access Secret")
    try:
        content = lenient.convert(secrets[0].body, Secret).decoded().get(labels.KUBECONFIG_KEY, b"")
        config = ClusterConfig.from_kubeconfig_text(content.decode())
    except (ValueError, LoginFailed) as error:
        raise NotReached(f"the login in Secret {secrets[0].key} cannot be used: {error}") from None
    async with Client.connect(config, user_agent="stellwerk-cli", call_seconds=CALL_SECONDS) as client:
        yield ClusterReader(client)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestSurroundings:
    """A Manifest, and what of its module decides whether it is well."""

    manifest: Manifest
    objects: tuple[UnsettledObject, ...] = ()
    """In the remote cluster: workloads that are not ready, or objects that hold up a deletion."""
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class KymaSurroundings:
    """A Kyma, and all that the answer rests on."""

    kyma: Kyma
    manifests: tuple[ManifestSurroundings, ...] = ()
    """Mandatory ones, too."""
    remains: tuple[Unstructured, ...] = ()
    """What of a Kyma that is being deleted is held in its remote cluster."""
    rollouts: tuple[ConfigMap, ...] = ()
    """Those for which one of its modules waits."""
    channels: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Of modules whose channel has no version: the channels that they have."""
    window: str = ""
    """When the next maintenance window begins, or why that is not known; empty: nothing waits for one."""
    unreached: str = ""
    """Why the remote cluster was not looked at; empty: it was, or there was no need."""
    hidden: tuple[str, ...] = ()
    now: datetime

    def manifest_of(self, module: ModuleStatus) -> ManifestSurroundings | None:
        """The Manifest of a module."""
        name = module.manifest.metadata.name if module.manifest is not None else ""
        marked = (each for each in self.manifests if _module_of(each.manifest) == module.name)
        named = (each for each in self.manifests if each.manifest.metadata.name == name)
        return next(named, None) or next(marked, None)


def _module_of(manifest: Manifest) -> str:
    is_mandatory = labels.MANDATORY_MODULE_LABEL in manifest.metadata.labels
    return "" if is_mandatory else manifest.metadata.labels.get(labels.MODULE_NAME_LABEL, "")


def kyma_of(manifest: Manifest) -> ObjectKey:
    """The Kyma that a Manifest is for."""
    metadata = manifest.metadata
    return ObjectKey(metadata.namespace, metadata.labels.get(labels.KYMA_NAME_LABEL, ""))


# ---- reading


async def of_kyma(reader: ClusterReader, subject: Unstructured, now: datetime) -> KymaSurroundings:
    """Read what is around a Kyma."""
    kyma = lenient.convert(subject.body, Kyma)
    marked = f"{labels.KYMA_NAME_LABEL}={kyma.metadata.name}"
    listed = await reader.list(Manifest.resource, kyma.metadata.namespace, labels=marked)
    manifests = tuple(lenient.convert(each.body, Manifest) for each in listed)
    rollouts, channels, window = await asyncio.gather(
        _rollouts(reader, kyma), _channels(reader, kyma), _window(reader, kyma, now)
    )
    found = KymaSurroundings(
        kyma=kyma,
        manifests=tuple(ManifestSurroundings(manifest=each, now=now) for each in manifests),
        rollouts=rollouts,
        channels=channels,
        window=window,
        now=now,
    )
    if is_reached(kyma.status.last_operation) and (kyma.metadata.is_terminating or any(map(needs_a_look, manifests))):
        found = await _with_remote(reader, found)
    return replace(found, hidden=reader.hidden)


async def of_manifest(reader: ClusterReader, subject: Unstructured, now: datetime) -> KymaSurroundings:
    """The same for one Manifest; of its Kyma, only the key counts."""
    manifest = lenient.convert(subject.body, Manifest)
    key = kyma_of(manifest)
    seen = ManifestSurroundings(manifest=manifest, now=now)
    kyma = Kyma(metadata=ObjectMeta(name=key.name, namespace=key.namespace))
    found = KymaSurroundings(kyma=kyma, manifests=(seen,), now=now)
    if key.name and needs_a_look(manifest):
        found = await _with_remote(reader, found)
    return replace(found, hidden=reader.hidden)


async def _with_remote(reader: ClusterReader, found: KymaSurroundings) -> KymaSurroundings:
    try:
        async with remote_cluster(reader, found.kyma.key) as there:
            looked = [await _looked_at(there, each) for each in found.manifests]
            remains = await _remains(there) if found.kyma.metadata.is_terminating else ()
            hidden = f"; you may not read there: {', '.join(there.hidden)}" if there.hidden else ""
            return replace(found, manifests=tuple(looked), remains=remains, unreached=hidden.removeprefix("; "))
    except (NotReached, ApiError, LoginFailed) as error:
        return replace(found, unreached=str(error))


def needs_a_look(manifest: Manifest) -> bool:
    """Whether the remote cluster can show more than the status does: not one that the operator does not reach."""
    is_unwell = manifest.status.state not in (State.Ready, State.Unset)
    return is_unwell and bool(manifest.status.synced) and is_reached(manifest.status.last_operation)


def is_reached(last: LastOperation | None) -> bool:
    """Whether the operator has reached the remote cluster. If not, a user would wait for it, too."""
    return last is None or not last.operation.startswith(_UNUSABLE)


_UNUSABLE = "the cluster of Secret "
"""How the operation begins then."""


async def _looked_at(there: ClusterReader, seen: ManifestSurroundings) -> ManifestSurroundings:
    manifest = seen.manifest
    if not needs_a_look(manifest):
        return seen
    listed = [*map(ref_of, manifest.status.synced)]
    workers = [each for each in listed if (each.gvk.group, each.gvk.kind) in workloads.OWNERS_OF_PODS]
    others = [each for each in listed if each not in workers] if manifest.metadata.is_terminating else []
    objects = [each for each in await unsettled_objects.read(there, workers) if not each.is_done(seen.now)]
    going = await unsettled_objects.read(there, others)
    objects += [each for each in going if each.live is not None and each.live.metadata.is_terminating]
    return replace(seen, objects=tuple(each for each in objects if _is_of_note(each, manifest)))


def _is_of_note(each: UnsettledObject, manifest: Manifest) -> bool:
    """What is gone from a module that goes is as it should be."""
    return each.live is not None or not manifest.metadata.is_terminating


async def _remains(there: ClusterReader) -> tuple[Unstructured, ...]:
    """Of what goes with a Kyma: what is being deleted, and held."""
    kyma = await there.find(Kyma.resource, labels.SKR_KYMA.name, labels.SKR_KYMA.namespace)
    definitions = [await there.find(CustomResourceDefinition.resource, name, "") for name in DEFINITIONS]
    found = [each for each in (kyma, *definitions) if each is not None]
    return tuple(each for each in found if each.metadata.is_terminating and each.metadata.finalizers)[:NAMED]


async def _rollouts(reader: ClusterReader, kyma: Kyma) -> tuple[ConfigMap, ...]:
    waiting = (each for each in kyma.status.modules if each.message.startswith(WAITING))
    names = [f"rollout-{each.name}-{each.message.removeprefix(WAITING)}" for each in waiting]
    found = [await reader.find(ConfigMap.resource, each, kyma.metadata.namespace) for each in names]
    return tuple(lenient.convert(each.body, ConfigMap) for each in found if each is not None)


async def _channels(reader: ClusterReader, kyma: Kyma) -> tuple[tuple[str, tuple[str, ...]], ...]:
    known: list[tuple[str, tuple[str, ...]]] = []
    for module in kyma.status.modules:
        if module.message.startswith("no versions found for channel"):
            found = await reader.find(ModuleReleaseMeta.resource, module.name, kyma.metadata.namespace)
            if found is not None:
                spec = lenient.convert(found.body, ModuleReleaseMeta).spec
                known.append((module.name, tuple(each.channel for each in spec.channels)))
    return tuple(known)


async def _window(reader: ClusterReader, kyma: Kyma, now: datetime) -> str:
    if not any(each.maintenance for each in kyma.status.modules):
        return ""
    found = await reader.find(ConfigMap.resource, labels.POLICY_CONFIG_MAP, kyma.metadata.namespace)
    if found is None:
        return f"ConfigMap {kyma.metadata.namespace}/{labels.POLICY_CONFIG_MAP} with the windows is not found"
    try:
        policy = Policy.parse(lenient.convert(found.body, ConfigMap).data.get(POLICY_KEY, "").encode())
        window = policy.window(kyma.metadata.labels, now, LEAST_WINDOW)
        return f"it begins at {rfc3339(window.begin.astimezone(UTC))}"
    except (BadPolicy, NoWindow) as error:
        return f"when it begins is not known: {error}"


def ref_of(synced: SyncedResource) -> ObjectRef:
    """The object of an entry."""
    return ObjectRef(
        GroupVersionKind(synced.group, synced.version, synced.kind), ObjectKey(synced.namespace, synced.name)
    )
