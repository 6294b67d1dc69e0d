"""What a Kyma that is being deleted needs next: the first step that applies, from one reading.

Each step is named as its Event. A remote cluster whose access Secret is gone is left alone; one that does not answer
is waited for, because what is left in it can be deleted only with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum, StrEnum

import msgspec

from stellwerk.kube.types.object_meta import kubernetes_time
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import Kyma, KymaStatus
from stellwerk.operators.kyma.api_manifest import Manifest
from stellwerk.operators.kyma.api_status import LastOperation, State

DELETING_MODULES = "waiting for modules to be deleted"
"""The operation of a Kyma that is being deleted."""
MANIFESTS_LEFT = "manifests still exist"
"""The operation while the former order of the steps waits for Manifests."""
SUCCESS = "Success"
"""The message of the Event of a step."""


class UseCase(StrEnum):
    """A step, in the order in which they are tried."""

    SET_STATE_DELETING = "SetKcpKymaStateDeleting"
    SET_RUNTIME_STATE_DELETING = "SetSkrKymaStateDeleting"
    DELETE_MANIFESTS = "DeleteManifests"
    DELETE_CERTIFICATE = "DeleteCertificateSetup"
    DELETE_WEBHOOK = "DeleteSkrWebhookResources"
    DELETE_TEMPLATE_DEFINITION = "DeleteSkrModuleTemplateCrd"
    DELETE_META_DEFINITION = "DeleteSkrModuleReleaseMetaCrd"
    DELETE_RUNTIME_KYMA = "DeleteSkrKyma"
    DELETE_KYMA_DEFINITION = "DeleteSkrKymaCrd"
    DELETE_METRICS = "DeleteMetrics"
    AWAIT_MANIFESTS = "EnsureManifestDeletion"
    DROP_FINALIZER = "DropKymaFinalizer"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeRemains:
    """What a remote cluster that answers still has."""

    kyma: Kyma | None = None
    has_webhook: bool = False
    has_template_definition: bool = False
    has_meta_definition: bool = False
    has_kyma_definition: bool = False
    has_catalog: bool = False
    """Whether it has entries of the catalog that this operator wrote. Only the former order deletes them one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remains:
    """What there still is of a Kyma, on both sides."""

    kyma: Kyma
    manifests: tuple[Manifest, ...] = ()
    """Those with the name of the Kyma in their label, mandatory ones included."""
    has_certificate: bool = False
    """Whether the certificate of its webhook, or the Secret of that, exists."""
    has_metrics: bool = False
    is_purged: bool = False
    """As in `own_finalizers`."""
    runtime: RuntimeRemains | None = None
    """None: there is no access Secret."""

    @property
    def own_finalizers(self) -> tuple[str, ...]:
        """Those that the deletion removes."""
        return own_finalizers(self.kyma, is_purged=self.is_purged)


_NOTHING = RuntimeRemains()


def next_use_case(remains: Remains) -> UseCase | None:
    """The first step that applies; None if the deletion is stuck."""
    kyma, runtime = remains.kyma, remains.runtime or _NOTHING
    shown = runtime.kyma.status.state if runtime.kyma is not None else State.Deleting
    applies = {
        UseCase.SET_STATE_DELETING: kyma.status.state != State.Deleting,
        UseCase.SET_RUNTIME_STATE_DELETING: shown != State.Deleting,
        UseCase.DELETE_MANIFESTS: bool(live_manifests(remains)),
        UseCase.DELETE_CERTIFICATE: remains.has_certificate,
        UseCase.DELETE_WEBHOOK: runtime.has_webhook,
        UseCase.DELETE_TEMPLATE_DEFINITION: runtime.has_template_definition,
        UseCase.DELETE_META_DEFINITION: runtime.has_meta_definition,
        UseCase.DELETE_RUNTIME_KYMA: runtime.kyma is not None,
        UseCase.DELETE_KYMA_DEFINITION: runtime.has_kyma_definition,
        UseCase.DELETE_METRICS: remains.has_metrics,
        UseCase.AWAIT_MANIFESTS: bool(remains.manifests),
        UseCase.DROP_FINALIZER: bool(remains.own_finalizers),
    }
    return next((each for each in UseCase if applies[each]), None)


class FormerUseCase(Enum):
    """A step of the former order, in which they are tried. They send no Events."""

    DELETE_RUNTIME_KYMA = "delete the Kyma of the remote cluster"
    SET_STATE_DELETING = "set the state Deleting"
    DELETE_WEBHOOK = "delete the webhook of the remote cluster"
    DELETE_CATALOG = "delete the catalog of the remote cluster"
    RELEASE_RUNTIME_KYMA = "remove the finalizers of the Kyma of the remote cluster"
    DELETE_MANIFESTS = "delete the Manifests"
    AWAIT_MANIFESTS = "wait for the end of the Manifests"
    DROP_FINALIZERS = "remove finalizers"


def next_former_use_case(remains: Remains) -> FormerUseCase | None:
    """The first step of the former order that applies. Without an access Secret the Manifests are not waited for."""
    kyma, runtime = remains.kyma, remains.runtime or _NOTHING
    remote = runtime.kyma.metadata if runtime.kyma is not None else None
    applies = {
        FormerUseCase.DELETE_RUNTIME_KYMA: remote is not None and not remote.is_terminating,
        FormerUseCase.SET_STATE_DELETING: kyma.status.state != State.Deleting,
        FormerUseCase.DELETE_WEBHOOK: runtime.has_webhook,
        FormerUseCase.DELETE_CATALOG: runtime.has_catalog,
        FormerUseCase.RELEASE_RUNTIME_KYMA: remote is not None and bool(remote.finalizers),
        FormerUseCase.DELETE_MANIFESTS: bool(live_manifests(remains)),
        FormerUseCase.AWAIT_MANIFESTS: bool(remains.manifests) and remains.runtime is not None,
        FormerUseCase.DROP_FINALIZERS: bool(
            kyma.metadata.finalizers if remains.runtime is None else remains.own_finalizers
        ),
    }
    return next((each for each in FormerUseCase if applies[each]), None)


def live_manifests(remains: Remains) -> tuple[Manifest, ...]:
    """Those whose deletion was not requested yet."""
    return tuple(each for each in remains.manifests if not each.metadata.is_terminating)


def own_finalizers(kyma: Kyma, *, is_purged: bool = False) -> tuple[str, ...]:
    """Those of this operator and of its earlier releases, which a deletion removes. The finalizers of others stay.

    `is_purged`: another controller of this operator removes that of earlier releases, when its time has come.
    """
    own = (labels.KYMA_FINALIZER,) if is_purged else (labels.KYMA_FINALIZER, labels.PURGE_FINALIZER)
    return tuple(each for each in kyma.metadata.finalizers if each in own)


def deleting(status: KymaStatus, operation: str, now: datetime) -> KymaStatus:
    """The status of a Kyma that is being deleted; the former one if it shows this operation already."""
    former = status.last_operation
    if status.state is State.Deleting and former is not None and former.operation == operation:
        return status
    last = LastOperation(operation=operation, last_update_time=kubernetes_time(now))
    return msgspec.structs.replace(status, state=State.Deleting, last_operation=last)
