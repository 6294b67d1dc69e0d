"""The end of a Kyma whose deletion takes too long, as the original had it until release 1.20; only if it is asked for.

| the Kyma | needs |
| --- | --- |
| lives | the finalizer of this |
| is being deleted, for less than the time that is set | nothing |
| for longer | the finalizers of all custom resources in its cluster removed, then its own |
| has no access Secret any more | its own finalizer removed |

What those finalizers protect is lost, such as services of a hyperscaler that stay. Definitions of Kymas,
and those that are named by the settings, are left alone.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, TypeAlias

from prometheus_client import Counter, Gauge

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.kube.client import conditional
from stellwerk.kube.client.conditional import Written
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.errors import ApiError, NotFound, StatusError
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import HasMetadata, JsonObject, metadata_of
from stellwerk.operators.kyma import access, labels, metrics
from stellwerk.operators.kyma.api import Kyma, KymaStatus
from stellwerk.operators.kyma.collections import KYMAS
from stellwerk.operators.kyma.kyma import catalog
from stellwerk.operators.kyma.settings import Settings
from stellwerk.runtime.cache.remote_clusters import Kubeconfig
from stellwerk.runtime.control.step import Failure, Hands, Patch, RemoveFinalizer, Step, Wait
from stellwerk.runtime.reading.known import NotKnown
from stellwerk.runtime.reading.questions import Collection
from stellwerk.runtime.reading.view import Overlay, View
from stellwerk.runtime.telemetry.metrics import Metrics

PurgeStep: TypeAlias = Step[KymaStatus]

ACCESS_SECONDS = 30.0
"""When a cluster that cannot be used is tried again."""
_NAMED_FAILURES = 3

_log = logging.getLogger(__name__)


class Problem(StrEnum):
    """What went wrong, as a label of the metric and as the reason of the Event."""

    CLEANUP = "CleanupError"
    FINALIZER = "PurgeFinalizerRemovalError"


class PurgeMetrics:
    """The figures of the original."""

    def __init__(self, registry: Metrics) -> None:
        prefix = f"{metrics.PREFIX}purgectrl"
        self.seconds = Gauge(f"{prefix}_time", "How long the last purge took, in seconds", registry=None)
        self.purges = Counter(f"{prefix}_requests", "How many clusters were purged", registry=None)
        whose = ("kyma_name", "shoot", "instance_id", "err_reason")
        self.errors = Gauge(f"{prefix}_error", "1 for what failed in the last purge of a Kyma", whose, registry=None)
        for each in (self.seconds, self.purges, self.errors):
            registry.register(each)

    def show(self, kyma: Kyma, problem: Problem, *, failed: bool) -> None:
        """Whether the last purge of a Kyma has this problem."""
        series = (kyma.metadata.name, *(metrics.identity(kyma) or ("", "")), problem.value)
        if failed:
            self.errors.labels(*series).set(1)
        else:
            self.errors.remove(*series)


@dataclass(frozen=True, slots=True)
class Purge:
    """All finalizers of all custom resources in a cluster, removed. Safe to repeat."""

    verbs: ClassVar[Mapping[str, str]] = {}

    kyma: Kyma = field(compare=False)
    cluster: Kubeconfig
    kept: tuple[str, ...]
    """Definitions whose objects are left alone."""
    metrics: PurgeMetrics = field(compare=False)

    @property
    def about(self) -> str:
        """As `Write.about`."""
        return f"the finalizers in the cluster of {self.kyma.ref}"

    async def perform(self, hands: Hands) -> None:
        """As `Write.perform`."""
        begin = time.monotonic()
        self.metrics.purges.inc()
        failures = [each async for each in self._failures(hands)]
        self.metrics.seconds.set(time.monotonic() - begin)
        self.metrics.show(self.kyma, Problem.CLEANUP, failed=bool(failures))
        if failures:
            hands.fail(Failure(message=failed(failures), event_reason=Problem.CLEANUP))

    def rehearse(self, overlay: Overlay, now: datetime) -> None:
        """As `Write.rehearse`: no pass looks at these objects."""

    async def _failures(self, hands: Hands) -> AsyncIterator[tuple[str, str]]:
        client = hands.at(self.cluster).client
        kinds = [
            found
            async for page in client.pages(CustomResourceDefinition)
            for each in page.items
            if not self._is_kept(each) and (found := _stored(each)) is not None
        ]
        for kind in kinds:
            try:
                async for page in client.pages(metadata_of(kind)):
                    for each in page.items:
                        outcome = await conditional.change(client, metadata_of(kind), each, _released, any_version=True)
                        if isinstance(outcome, Written):
                            _log.warning("%s %s lost its finalizers: its Kyma is purged", kind.kind, each.key)
            except NotFound:  # its definition has just gone
                continue
            except ApiError as error:
                yield kind.group_resource, str(error)

    def _is_kept(self, definition: CustomResourceDefinition) -> bool:
        group, name = definition.spec.group, definition.metadata.name
        return name == Kyma.resource.group_resource or name in self.kept or f"*.{group}" in self.kept


def failed(failures: Sequence[tuple[str, str]]) -> str:
    """What is shown of resources and their errors: the first ones, and the command that lists what is left. Pure."""
    named = "; ".join(f"{resource}: {error}" for resource, error in failures[:_NAMED_FAILURES])
    more = f", and {len(failures) - _NAMED_FAILURES} more" if len(failures) > _NAMED_FAILURES else ""
    look = f"kubectl get {','.join(resource for resource, _ in failures[:_NAMED_FAILURES])} -A"
    return f"finalizers could not be removed: {named}{more}; see what is left, in the remote cluster: {look}"


def _released(obj: HasMetadata) -> MergePatch | None:
    return MergePatch({"metadata": {"finalizers": None}}) if obj.metadata.finalizers else None


def _stored(definition: CustomResourceDefinition) -> Resource | None:
    """Where the objects of a definition are, in the version that is stored; None if it is not served."""
    spec = definition.spec
    version = next((each.name for each in spec.versions if each.storage and each.served), "")
    if not version or not definition.is_established:
        return None
    return Resource(spec.group, version, spec.names.kind, spec.names.plural, spec.scope == "Namespaced")


def decide(kyma: Kyma, view: View) -> PurgeStep:
    """What the Kyma needs next of this. Raises NotKnown."""
    finalizers, settings = kyma.metadata.finalizers, view.setting(Settings)
    is_held = labels.PURGE_FINALIZER in finalizers
    deleted = kyma.metadata.deletion_timestamp
    if deleted is None:
        if is_held or catalog.is_marked(kyma, labels.SKIP_RECONCILIATION_LABEL):
            return Step()
        held: JsonObject = {"metadata": {"finalizers": [*finalizers, labels.PURGE_FINALIZER]}}
        return Step(writes=(Patch(KYMAS, kyma, held, _refused),))
    due = deleted + settings.purge_finalizer_timeout
    if not is_held:
        return Step()
    if not view.is_past(due):
        return Step(waits=(Wait(due, "the finalizers in its cluster are removed then"),))
    try:
        there = access.runtime(view, kyma.key)
    except access.AccessSecretNotFound:
        return Step(writes=(RemoveFinalizer(labels.PURGE_FINALIZER),))
    except access.AccessUnclear as error:
        return Step(waits=(Wait(str(error), seconds=ACCESS_SECONDS),))
    assert there.cluster is not None, "this is another cluster"
    purge = Purge(kyma, there.cluster, settings.skip_finalizer_purging_for, view.setting(PurgeMetrics))
    return Step(writes=(purge, RemoveFinalizer(labels.PURGE_FINALIZER)))


def _refused(message: str, _: StatusError | None) -> Failure:
    return Failure(message=f"{message}; see what is lacking: stellwerk check kyma", event_reason=Problem.FINALIZER)


@dataclass(slots=True)
class PurgeLogic:
    """A Kyma that may be purged, for the engine. Its status belongs to another controller."""

    collection: Collection[Kyma] = KYMAS

    def decide(self, kyma: Kyma, view: View) -> PurgeStep:
        """As `Logic.decide`."""
        return decide(kyma, view)

    def unknown(self, kyma: Kyma, view: View, missing: NotKnown) -> PurgeStep:
        """As `Logic.unknown`."""
        return Step(waits=(Wait(str(missing)),))

    def failed(self, kyma: Kyma, failure: Failure) -> None:
        """As `Logic.failed`."""

    def unexpected(self, kyma: Kyma, message: str) -> None:
        """As `Logic.unexpected`."""
