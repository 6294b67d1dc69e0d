"""Every word by which the state of a Kyma, a Manifest and the other kinds is explained. Texts are in `help/`.

The original has one reason, Ready, for all conditions of a Kyma, and explains a state by a sentence: that of
`status.lastOperation` and of a module. Types of conditions and reasons of Events are words already. A sentence gets a
word of ours, by the part of it that is always the same (`ReasonFacts.message`), so that users can look it up.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from stellwerk.operators.kyma.api_status import State
from stellwerk.operators.kyma.kyma import deletion, status
from stellwerk.operators.kyma.kyma.deletion import UseCase
from stellwerk.operators.kyma.kyma.status import MESSAGES, ConditionType
from stellwerk.operators.kyma.manifest import status as of_manifest
from stellwerk.operators.kyma.manifest.removal import SAME_LAYER, WAITING_FOR_USERS
from stellwerk.runtime.insight.reason_catalog import ITSELF, NO_USER, YOURS, ReasonFacts


class KymaEvent(StrEnum):
    """Reasons of Events about a Kyma, besides the steps of a deletion."""

    INSTALLED = "RemoteInstallation"
    NOT_MARKED = "MetadataSynchronization"
    NOT_SHOWN = "StatusSynchronization"
    NO_METRICS = "MetricsError"
    NOT_HELD = "UpdateSpecError"
    NOT_WRITTEN = "PatchStatus"
    STUCK = "KymaDeletionStuck"


class KymaCause(StrEnum):
    """Why a Kyma, or one of its modules, is as it is."""

    WAITS_FOR_MODULES = "WaitsForModules"
    NO_ACCESS_SECRET = "AccessSecretNotFound"  # noqa: S105  # a reason
    SEVERAL_ACCESS_SECRETS = "SeveralAccessSecrets"  # a reason
    NO_KUBECONFIG = "NoKubeconfig"
    CLUSTER_UNUSABLE = "RemoteClusterUnusable"
    ANOTHER_CLUSTER = "AnotherCluster"
    NO_PULL_SECRET = "PullSecretMissing"  # noqa: S105  # a reason
    DEFINITION_MISSING = "DefinitionMissing"
    CATALOG_UNREADABLE = "CatalogUnreadable"
    CATALOG_REFUSED = "CatalogRefused"
    NO_CHANNEL = "ChannelNone"
    NO_META = "NoModuleReleaseMeta"
    NO_CHANNELS = "NoChannels"
    NO_VERSION = "NoVersionForChannel"
    NO_TEMPLATE = "ModuleTemplateMissing"
    SEVERAL_TEMPLATES = "SeveralModuleTemplates"
    MANDATORY = "MandatoryModule"
    FORMER_MANDATORY = "MandatoryModuleTemplate"
    NOT_ALLOWED = "ModuleNotAllowed"
    DOWNGRADE = "DowngradeRefused"
    NO_DESCRIPTOR = "DescriptorUnreadable"
    INVALID_COMPONENT = "InvalidComponent"
    WAITS_FOR_WINDOW = "WaitsForMaintenanceWindow"
    NO_WINDOW = "MaintenanceWindowUnknown"
    WAITS_FOR_TURN = "WaitsForTurn"
    NAME_TAKEN = "ManifestNameTaken"
    DELETES_MODULES = "DeletesModules"
    MANIFESTS_LEFT = "ManifestsLeft"
    OTHER_FINALIZERS = "OtherFinalizers"


class ManifestCause(StrEnum):
    """Why a Manifest is as it is."""

    WAITS_FOR_OBJECTS = "WaitsForObjects"
    OBJECTS_CHANGE = "ObjectsChange"
    ORPHANED = "OrphanedManifest"
    NO_REGISTRY_SECRET = "RegistrySecretMissing"  # noqa: S105  # a reason
    NOT_RENDERED = "RenderingFailed"
    INCOMPLETE_LAYER = "IncompleteLayer"
    KIND_NOT_SERVED = "KindNotServed"
    NOT_APPLIED = "ApplyFailed"
    NO_DEFAULT_RESOURCE = "DefaultResourceRefused"
    MANAGER_FAILS = "ManagerFails"
    USERS_RESOURCES = "CustomResourcesExist"
    DELETES_OBJECTS = "DeletesObjects"
    OTHER_FINALIZERS = "OtherFinalizers"


class WatcherReason(StrEnum):
    """The condition of a Watcher, and Events about what reports come in by."""

    ROUTE = "VirtualService"
    NO_GATEWAY = "WatcherGatewayNotFound"
    NO_ROUTE = "WatcherRouteFailed"
    GATEWAY_SECRET = "GatewaySecretFailed"  # noqa: S105  # a reason


class ModuleEvent(StrEnum):
    """Reasons of Events about ModuleReleaseMetas and ModuleTemplates."""

    NOT_HELD = "SettingMandatoryModuleTemplateFinalizerError"
    ROLLOUT = "RolloutFailed"


TURNS = {
    State.Unset: ITSELF,
    State.Ready: NO_USER,
    State.Unmanaged: NO_USER,
    State.Processing: ITSELF,
    State.Deleting: ITSELF,
    State.Warning: YOURS,
    State.Error: "The operator tries again: on every change, and without one after 5 to 30 seconds.",
}
"""Who has to act next, in one sentence."""


def _yours(state: State, message: str = "") -> ReasonFacts[State]:
    return ReasonFacts(state, message, only_user_can_fix=True, asks_user=True)


def _failed(message: str = "") -> ReasonFacts[State]:
    return ReasonFacts(State.Error, message, asks_user=True)


KYMA: Mapping[ConditionType | KymaCause | KymaEvent | UseCase, ReasonFacts[State]] = {
    ConditionType.DEFINITIONS: ReasonFacts(State.Error, MESSAGES[ConditionType.DEFINITIONS].false),
    ConditionType.MODULES: ReasonFacts(State.Processing, MESSAGES[ConditionType.MODULES].false),
    ConditionType.CATALOG: ReasonFacts(State.Processing, MESSAGES[ConditionType.CATALOG].false),
    ConditionType.WEBHOOK: ReasonFacts(State.Processing, MESSAGES[ConditionType.WEBHOOK].false),
    ConditionType.PULL_SECRET: ReasonFacts(State.Error, MESSAGES[ConditionType.PULL_SECRET].false),
    KymaCause.WAITS_FOR_MODULES: ReasonFacts(State.Processing, status.WAITING),
    KymaCause.NO_ACCESS_SECRET: _yours(State.Error, "access secret not found"),
    KymaCause.SEVERAL_ACCESS_SECRETS: _yours(State.Error, "more than one secret found"),
    KymaCause.NO_KUBECONFIG: _yours(State.Error, " with a kubeconfig. Set it"),
    KymaCause.CLUSTER_UNUSABLE: _failed("the cluster of Secret "),
    KymaCause.ANOTHER_CLUSTER: _yours(State.Error, "leads to another cluster than before"),
    KymaCause.NO_PULL_SECRET: _yours(State.Error, "failed to sync the image pull secret"),
    KymaCause.DEFINITION_MISSING: _failed("failed to sync CRDs to SKR"),
    KymaCause.CATALOG_UNREADABLE: _yours(State.Processing, "so the catalog stays as it is"),
    KymaCause.CATALOG_REFUSED: _failed("catalog sync: Could not apply ModuleTemplates"),
    KymaCause.NO_CHANNEL: _yours(State.Error, '"none" is not allowed'),
    KymaCause.NO_META: _yours(State.Warning, "no ModuleReleaseMeta found"),
    KymaCause.NO_CHANNELS: _yours(State.Error, "no channels found for module"),
    KymaCause.NO_VERSION: _yours(State.Error, "no versions found for channel"),
    KymaCause.NO_TEMPLATE: _yours(State.Error, "failed to get module template"),
    KymaCause.SEVERAL_TEMPLATES: _yours(State.Error, "no unique template could be identified"),
    KymaCause.MANDATORY: _yours(State.Warning, "no templates were found"),
    KymaCause.FORMER_MANDATORY: _yours(State.Warning, "template marked as mandatory"),
    KymaCause.NOT_ALLOWED: _yours(State.Error, "module template not allowed"),
    KymaCause.DOWNGRADE: _yours(State.Warning, "module template update not allowed"),
    KymaCause.NO_DESCRIPTOR: _failed("failed to get descriptor"),
    KymaCause.INVALID_COMPONENT: _yours(State.Error, "invalid component "),
    KymaCause.WAITS_FOR_WINDOW: ReasonFacts(State.Unset, "waiting for next maintenance window"),
    KymaCause.NO_WINDOW: _yours(State.Error, "failed to determine if maintenance window is active"),
    KymaCause.WAITS_FOR_TURN: ReasonFacts(State.Unset, "waiting for its turn to get version"),
    KymaCause.NAME_TAKEN: _yours(State.Error, "whose name is cut to the same one"),
    KymaCause.DELETES_MODULES: ReasonFacts(State.Deleting, deletion.DELETING_MODULES),
    KymaCause.MANIFESTS_LEFT: ReasonFacts(State.Deleting, deletion.MANIFESTS_LEFT),
    KymaCause.OTHER_FINALIZERS: _yours(State.Deleting, of_manifest.OTHER_FINALIZERS),
    **dict.fromkeys(KymaEvent, ReasonFacts(State.Unset)),
    **dict.fromkeys(UseCase, ReasonFacts(State.Deleting)),
}
MANIFEST: Mapping[of_manifest.ConditionType | ManifestCause, ReasonFacts[State]] = {
    of_manifest.ConditionType.RESOURCES: ReasonFacts(State.Processing, "resources not parsed"),
    of_manifest.ConditionType.INSTALLATION: ReasonFacts(State.Processing, "installation is not ready"),
    of_manifest.ConditionType.MODULE_CR: ReasonFacts(State.Processing, "module CR has not been created to SKR"),
    ManifestCause.WAITS_FOR_OBJECTS: ReasonFacts(State.Processing, of_manifest.WAITING),
    ManifestCause.OBJECTS_CHANGE: ReasonFacts(State.Processing, of_manifest.CHANGED),
    ManifestCause.ORPHANED: _yours(State.Error, "orphaned manifest detected"),
    ManifestCause.NO_REGISTRY_SECRET: _yours(State.Error, "no private oci registry auth secret found"),
    ManifestCause.NOT_RENDERED: _failed("cannot be rendered"),
    ManifestCause.INCOMPLETE_LAYER: _yours(State.Warning, SAME_LAYER),
    ManifestCause.KIND_NOT_SERVED: _failed("the API server serves no "),
    ManifestCause.NOT_APPLIED: _failed(of_manifest.APPLY_FAILED),
    ManifestCause.NO_DEFAULT_RESOURCE: _failed("the default custom resource cannot be created"),
    ManifestCause.MANAGER_FAILS: _failed(of_manifest.MANAGER_FAILS),
    ManifestCause.USERS_RESOURCES: _yours(State.Deleting, WAITING_FOR_USERS),
    ManifestCause.DELETES_OBJECTS: ReasonFacts(State.Deleting, "waiting for the deletion of"),
    ManifestCause.OTHER_FINALIZERS: _yours(State.Deleting, of_manifest.OTHER_FINALIZERS),
}
WATCHER: Mapping[WatcherReason, ReasonFacts[State]] = {
    WatcherReason.ROUTE: _yours(State.Error, "VirtualService is not configured"),
    WatcherReason.NO_GATEWAY: _yours(State.Error),
    WatcherReason.NO_ROUTE: _failed(),
    WatcherReason.GATEWAY_SECRET: ReasonFacts(State.Unset, asks_user=True),
}
MODULE: Mapping[ModuleEvent, ReasonFacts[State]] = dict.fromkeys(ModuleEvent, ReasonFacts(State.Unset))
