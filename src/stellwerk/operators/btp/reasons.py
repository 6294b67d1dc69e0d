"""Every reason that a BtpOperator's condition can carry, and its meaning.

One table: the operator takes state and status from it, `stellwerk explain` and the reference page take the rest. The
words are those of the original operator, because alerts and scripts compare them; a word that is not in the table
cannot be written.

The chart reasons are written only while the module comes from a chart (`ModuleSource` is `chart`).
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum

import msgspec

from stellwerk.kube.types.model import JsonObject, Unreadable, to_json_object
from stellwerk.kube.types.object_meta import Condition
from stellwerk.operators.btp import api
from stellwerk.operators.btp.api import BtpOperatorStatus, State
from stellwerk.runtime import conditions
from stellwerk.runtime.insight.reason_catalog import ITSELF, NOBODY, NOTHING_TO_FIX, YOURS, Catalogue, Meaning
from stellwerk.runtime.reconciler import Severity


class Reason(StrEnum):
    """Why a BtpOperator is in its state."""

    ReconcileSucceeded = "ReconcileSucceeded"
    UpdateCheckSucceeded = "UpdateCheckSucceeded"
    UpdateDone = "UpdateDone"
    Initialized = "Initialized"
    Processing = "Processing"
    UpdateCheck = "UpdateCheck"
    Updated = "Updated"
    CredentialsNamespaceChanged = "CredentialsNamespaceChanged"
    ClusterIdChanged = "ClusterIdChanged"
    HardDeleting = "HardDeleting"
    SoftDeleting = "SoftDeleting"
    ServiceInstancesAndBindingsNotCleaned = "ServiceInstancesAndBindingsNotCleaned"
    OlderCRExists = "OlderCRExists"
    WrongNamespaceOrName = "WrongNamespaceOrName"
    MissingSecret = "MissingSecret"
    InvalidSecret = "InvalidSecret"
    ProvisioningFailed = "ProvisioningFailed"
    ReconcileFailed = "ReconcileFailed"
    ResourceRemovalFailed = "ResourceRemovalFailed"
    DeletionOfOrphanedResourcesFailed = "DeletionOfOrphanedResourcesFailed"
    AnnotatingSecretFailed = "AnnotatingSecretFailed"
    GettingDefaultCredentialsSecretFailed = "GettingDefaultCredentialsSecretFailed"
    GettingSapBtpServiceOperatorConfigMapFailed = "GettingSapBtpServiceOperatorConfigMapFailed"
    GettingSapBtpServiceOperatorClusterIdSecretFailed = "GettingSapBtpServiceOperatorClusterIdSecretFailed"
    GettingConfigMapFailed = "GettingConfigMapFailed"
    StoringChartDetailsFailed = "StoringChartDetailsFailed"
    ChartPathEmpty = "ChartPathEmpty"
    PreparingInstallInfoFailed = "PreparingInstallInfoFailed"
    ChartInstallFailed = "ChartInstallFailed"
    ConsistencyCheckFailed = "ConsistencyCheckFailed"
    InconsistentChart = "InconsistentChart"


_TURNS = {
    State.Ready: NOBODY,
    State.Processing: ITSELF,
    State.Deleting: ITSELF,
    State.Warning: YOURS,
    State.Error: "The operator tries again: on every change, after 30 seconds, and later every 5 minutes.",
}

_SHOW = "kubectl get btpoperators -A -o wide"
_WHY = "stellwerk why btp/btpoperator -n kyma-system"
_KEYS = "kubectl -n kyma-system describe secret sap-btp-manager"
_OPERAND = "kubectl -n kyma-system get deployment,pod -l app.kubernetes.io/instance=sap-btp-operator"
_INSTANCES = "kubectl get servicebindings.services.cloud.sap.com,serviceinstances.services.cloud.sap.com -A"
_CORRECT = (
    "Correct the object, file or right that the message names; the operator tries again by itself, or at once: "
    "stellwerk reconcile btp/btpoperator -n kyma-system"
)
_FOLLOW = f"{NOTHING_TO_FIX} Follow it: stellwerk wait btp/btpoperator -n kyma-system"
_NOTHING = f"{NOTHING_TO_FIX} Compare with what is in the cluster: stellwerk diff btp/btpoperator -n kyma-system"
_API = "The API server was not reachable, refused the call, or took too long; the message has its answer."


def _grant(verb: str, resource: str, scope: str) -> str:
    return (
        "Give the ServiceAccount of the operator the right that the message names, and see that it has it: "
        f"kubectl auth can-i {verb} {resource}{scope} --as=SERVICE_ACCOUNT"
    )


MEANINGS: dict[Reason, Meaning[State]] = {
    # ---- Ready
    Reason.ReconcileSucceeded: Meaning(
        state=State.Ready,
        message="Module provisioning succeeded",
        meaning="All module resources are applied, and the SAP BTP service operator is available.",
        fix=(_NOTHING,),
    ),
    Reason.UpdateCheckSucceeded: Meaning(
        state=State.Ready,
        message="Update not required",
        meaning="After a restart the operator compared the recorded chart version with its own: they are the same.",
        fix=(_NOTHING,),
    ),
    Reason.UpdateDone: Meaning(
        state=State.Ready,
        message="Updated",
        meaning="A new chart version was applied, and what only the former version had is deleted.",
        fix=(_NOTHING,),
    ),
    # ---- Processing
    Reason.Initialized: Meaning(
        state=State.Processing,
        message="Initialized",
        meaning="The CR was accepted, and the module is being provisioned. The message tells what is waited for.",
        causes=("The operand's pods are not available yet.",),
        check=(_WHY, _OPERAND),
        fix=(
            _FOLLOW,
            (
                "Read the log of an operand that does not become available: "
                "kubectl logs deployment/sap-btp-operator-controller-manager -n kyma-system"
            ),
        ),
    ),
    Reason.Processing: Meaning(
        state=State.Processing,
        message="After deprovisioning",
        meaning="This CR takes over, because the CR that represented the module is gone.",
        fix=(_FOLLOW,),
    ),
    Reason.UpdateCheck: Meaning(
        state=State.Processing,
        message="Checking for updates",
        meaning="The operator has restarted and looks whether it brings another chart version.",
        fix=(_FOLLOW,),
    ),
    Reason.Updated: Meaning(
        state=State.Processing,
        message="CR has been updated",
        meaning="The cause of a former Error or Warning may be gone: the operator starts over.",
        fix=(_FOLLOW,),
    ),
    Reason.CredentialsNamespaceChanged: Meaning(
        state=State.Processing,
        meaning="The required Secret names another namespace for the credentials; they are being moved there.",
        causes=("credentials_namespace in the Secret sap-btp-manager was changed.",),
        fix=(_FOLLOW,),
    ),
    Reason.ClusterIdChanged: Meaning(
        state=State.Processing,
        meaning="The operand runs with another cluster id than the required Secret has; it is being restarted with "
        "the right one.",
        causes=(
            "cluster_id in the Secret sap-btp-manager was changed.",
            "CLUSTER_ID in the ConfigMap sap-btp-operator-config was edited; it is put back.",
        ),
        fix=(_FOLLOW,),
    ),
    # ---- Deleting
    Reason.HardDeleting: Meaning(
        state=State.Deleting,
        message="BtpOperator is to be deleted",
        meaning="The CR is being deleted: first all service bindings, then all service instances, then the module.",
        causes=("An instance or binding takes its time: the service's broker deletes it.",),
        check=(_INSTANCES,),
        fix=(
            (
                f"{NOTHING_TO_FIX} Wait up to 20 minutes (HardDeleteTimeout), then the finalizers are removed instead: "
                "stellwerk wait btp/btpoperator -n kyma-system --for=deleted"
            ),
        ),
    ),
    Reason.SoftDeleting: Meaning(
        state=State.Deleting,
        message="Being soft deleted",
        meaning="Deleting through the brokers failed or took too long. The operand is taken away and the finalizers of "
        "the remaining bindings and instances are removed. The services themselves may live on in SAP BTP.",
        check=(_INSTANCES,),
        fix=(
            (
                "Look in the SAP BTP cockpit for service instances that were left behind, and delete them "
                "there. Follow the deletion: "
                "stellwerk wait btp/btpoperator -n kyma-system --for=deleted"
            ),
        ),
    ),
    # ---- Warning: the user's turn
    Reason.ServiceInstancesAndBindingsNotCleaned: Meaning(
        state=State.Warning,
        meaning="The CR is to be deleted, but there are service instances or bindings. Deleting the module would "
        "delete the services, so the deletion waits; the module keeps working meanwhile.",
        causes=("Service instances or bindings exist in some namespace; the message counts them and names some.",),
        check=(_INSTANCES,),
        fix=(
            (
                "Delete the bindings, then the instances; the deletion goes on when the last one is gone: "
                "kubectl delete servicebindings.services.cloud.sap.com BINDING -n NAMESPACE"
            ),
            'To delete them all with the module: kubectl -n kyma-system label btp btpoperator force-delete="true"',
        ),
    ),
    Reason.OlderCRExists: Meaning(
        state=State.Warning,
        meaning="Another BtpOperator represents the module: the oldest in the cluster. This one has no effect.",
        causes=("More than one BtpOperator was created.",),
        check=(_SHOW,),
        fix=(
            "Delete this BtpOperator: kubectl delete btpoperators NAME -n NAMESPACE",
            "To let it take over instead, delete the BtpOperator that the message names; its module is removed first.",
        ),
    ),
    Reason.WrongNamespaceOrName: Meaning(
        state=State.Warning,
        message="Your resource must be in the kyma-system namespace. The resource's name must be btpoperator.",
        meaning="Only the BtpOperator kyma-system/btpoperator represents the module. This one has no effect.",
        causes=("CrSelection is `fixed`, and the BtpOperator has another name or namespace.",),
        check=(_SHOW,),
        fix=(
            "Delete this BtpOperator and create kyma-system/btpoperator: kubectl delete btpoperators NAME -n NAMESPACE",
        ),
    ),
    Reason.MissingSecret: Meaning(
        state=State.Warning,
        message="sap-btp-manager Secret in kyma-system namespace not found",
        meaning="The Secret with the SAP Service Manager credentials is not there.",
        causes=(
            "Kyma Environment Broker has not delivered it yet, or somebody deleted it.",
            "It exists but lacks the label app.kubernetes.io/managed-by: kcp-kyma-environment-broker.",
        ),
        check=("kubectl -n kyma-system get secret sap-btp-manager --show-labels",),
        fix=(
            "Create the Secret with its label; samples/btp/30-secret.yaml shows one.",
            (
                "Or add the label that is missing: "
                "kubectl -n kyma-system label secret sap-btp-manager "
                "app.kubernetes.io/managed-by=kcp-kyma-environment-broker"
            ),
        ),
    ),
    # ---- Error: the system could not
    Reason.InvalidSecret: Meaning(
        state=State.Error,
        meaning="The Secret with the SAP Service Manager credentials lacks keys or values, or cannot be used as it is.",
        causes=(
            "One of clientid, clientsecret, sm_url, tokenurl and cluster_id is absent or empty.",
            "credentials_namespace names a namespace of the cluster's own, or cannot be the name of one.",
            "The API server did not let the operator read the Secret.",
        ),
        check=(_KEYS,),
        fix=(
            (
                "Add the keys and values that the message names; samples/btp/30-secret.yaml shows a complete "
                "Secret: "
                "kubectl edit secret sap-btp-manager -n kyma-system"
            ),
        ),
        only_you_can_mend_it=True,
    ),
    Reason.ProvisioningFailed: Meaning(
        state=State.Error,
        meaning="The module could not be provisioned. The message names the object and the cause.",
        causes=(
            "The operand's Deployment did not become available within ReadyTimeout.",
            "The API server refused an object: quota, policy, admission webhook, missing right.",
            "credentials_namespace names a namespace that does not exist.",
            "SAP_BTP_SERVICE_OPERATOR, the operand's image, is empty.",
        ),
        check=(_WHY, _OPERAND),
        fix=(_CORRECT,),
    ),
    Reason.ReconcileFailed: Meaning(
        state=State.Error,
        meaning="The module was ready, and bringing it up to date failed. The message names the object and the cause.",
        causes=(
            "The operand's Deployment is not available any more.",
            "The API server refused an object: quota, policy, admission webhook, missing right.",
        ),
        check=(_WHY, _OPERAND),
        fix=(_CORRECT,),
    ),
    Reason.ResourceRemovalFailed: Meaning(
        state=State.Error,
        message="Unable to remove installed resources",
        meaning="Removing module resources failed; some may still be there.",
        causes=(_API, "An object has a finalizer whose controller is gone."),
        check=("kubectl get all,crd,networkpolicy -A -l app.kubernetes.io/managed-by=btp-manager",),
        fix=(
            _CORRECT,
            "See what blocks the deletion: stellwerk unstick btp/btpoperator -n kyma-system",
        ),
    ),
    Reason.DeletionOfOrphanedResourcesFailed: Meaning(
        state=State.Error,
        message="Deletion of orphaned resources failed",
        meaning="Deleting what only a former version or cluster id needed failed.",
        causes=(_API,),
        check=("kubectl -n kyma-system get secret sap-btp-operator-clusterid",),
        fix=(_grant("delete", "secrets", " -n kyma-system"),),
    ),
    Reason.AnnotatingSecretFailed: Meaning(
        state=State.Error,
        meaning="The former cluster id or credentials namespace could not be noted on the required Secret.",
        causes=(_API,),
        check=("kubectl auth can-i patch secrets -n kyma-system --as=SERVICE_ACCOUNT",),
        fix=(_grant("patch", "secrets", " -n kyma-system"),),
    ),
    Reason.GettingDefaultCredentialsSecretFailed: Meaning(
        state=State.Error,
        meaning="The operand's credentials Secrets could not be listed.",
        causes=(_API,),
        check=("kubectl auth can-i list secrets -A --as=SERVICE_ACCOUNT",),
        fix=(_grant("list", "secrets", " -A"),),
    ),
    Reason.GettingSapBtpServiceOperatorConfigMapFailed: Meaning(
        state=State.Error,
        meaning="The operand's ConfigMap sap-btp-operator-config could not be read.",
        causes=(_API,),
        check=("kubectl auth can-i get configmaps -n kyma-system --as=SERVICE_ACCOUNT",),
        fix=(_grant("get", "configmaps", " -n kyma-system"),),
    ),
    Reason.GettingSapBtpServiceOperatorClusterIdSecretFailed: Meaning(
        state=State.Error,
        meaning="The operand's Secret sap-btp-operator-clusterid could not be read.",
        causes=(_API,),
        check=("kubectl auth can-i get secrets -n kyma-system --as=SERVICE_ACCOUNT",),
        fix=(_grant("get", "secrets", " -n kyma-system"),),
    ),
    # ---- Error: chart mode
    Reason.GettingConfigMapFailed: Meaning(
        state=State.Error,
        message="Getting config map failed",
        meaning="The record of the applied version, ConfigMap btp-manager-versions, could not be read.",
        causes=(_API,),
        check=("kubectl -n kyma-system get configmap btp-manager-versions -o yaml",),
        fix=(_grant("get", "configmaps", " -n kyma-system"),),
    ),
    Reason.StoringChartDetailsFailed: Meaning(
        state=State.Error,
        message="Failure of storing chart details",
        meaning="The record of the applied version, ConfigMap btp-manager-versions, is damaged or not writable.",
        causes=(_API, "A key of the ConfigMap is missing or is not what the operator wrote."),
        check=("kubectl -n kyma-system get configmap btp-manager-versions -o yaml",),
        fix=(
            "Delete the ConfigMap, it is made again: kubectl delete configmap btp-manager-versions -n kyma-system",
            _grant("patch", "configmaps", " -n kyma-system"),
        ),
    ),
    Reason.ChartPathEmpty: Meaning(
        state=State.Error,
        message="No chart path available for processing",
        meaning="The module is to come from a chart, and no chart is named.",
        causes=("ChartPath is empty in the flags or in the tunables ConfigMap.",),
        check=("kubectl -n kyma-system get configmap sap-btp-manager -o yaml",),
        fix=("Set ChartPath, or set ModuleSource to resources: kubectl edit configmap sap-btp-manager -n kyma-system",),
    ),
    Reason.PreparingInstallInfoFailed: Meaning(
        state=State.Error,
        message="Error while preparing InstallInfo",
        meaning="The chart or its values could not be rendered.",
        causes=("The chart or overrides.yaml is missing or damaged; the message names file and line.",),
        fix=("Correct the file that the message names, then: stellwerk reconcile btp/btpoperator -n kyma-system",),
    ),
    Reason.ChartInstallFailed: Meaning(
        state=State.Error,
        meaning="An object of the chart could not be applied.",
        causes=("The API server refused the object that the message names.",),
        check=(_WHY,),
        fix=(_CORRECT,),
    ),
    Reason.ConsistencyCheckFailed: Meaning(
        state=State.Error,
        meaning="The chart could not be compared with the cluster.",
        causes=(_API,),
        check=(_WHY,),
        fix=(_CORRECT,),
    ),
    Reason.InconsistentChart: Meaning(
        state=State.Error,
        meaning="The cluster differs from the chart; the operator puts that right at once.",
        causes=("Somebody changed or deleted the objects that the message names.",),
        check=("kubectl get events -A --field-selector reason=InconsistentChart",),
        fix=(_FOLLOW,),
    ),
}

CATALOGUE = Catalogue(MEANINGS, _TURNS)


def severity_of(reason: Reason) -> Severity:
    """The type of the Event about a reason: Warning exactly where the user has to act."""
    return Severity.WARNING if MEANINGS[reason].asks_user else Severity.NORMAL


def is_stalled(reason: Reason) -> bool:
    """Whether the CR shows `Stalled`: it is in `Warning` or `Error`, and the user has to act."""
    meaning = MEANINGS[reason]
    return meaning.state in (State.Warning, State.Error) and meaning.asks_user


def status_for(
    previous: BtpOperatorStatus | None, reason: Reason, message: str, generation: int, now: datetime
) -> BtpOperatorStatus:
    """The status that shows a reason. `message` may be empty where the reason has a text of its own.

    The original has the condition `Ready` alone. It stays the first one, and the only one unless `is_stalled`: then a
    condition `Stalled` says the same, because kstatus takes `Ready` `False` for progress.

    `lastTransitionTime` moves only when the condition turns true or false. Raises `ValueError` for a reason that has
    no text of its own and was given none: the API server would refuse such a condition.
    """
    meaning = MEANINGS[reason]
    text = message or meaning.message
    if not text:
        raise ValueError(f"{reason} needs a message")
    condition = Condition(
        type=api.READY,
        status="True" if meaning.state is State.Ready else "False",
        reason=reason.value,
        message=text,
        observed_generation=generation,
    )
    shown = [condition]
    if is_stalled(reason):
        shown.append(msgspec.structs.replace(condition, type=api.STALLED, status="True"))
    former = previous.conditions if previous else ()
    return BtpOperatorStatus(
        state=meaning.state,
        conditions=tuple(_set(former, one, now) for one in shown),
        observed_generation=generation,
        last_handled_reconcile_at=previous.last_handled_reconcile_at if previous else "",
    )


def _set(former: tuple[Condition, ...], condition: Condition, now: datetime) -> Condition:
    same_type = tuple(old for old in former if old.type == condition.type)[:1]
    return conditions.set_condition(same_type, condition, now)[0]


def unreadable(obj: Unreadable) -> JsonObject:
    """The fields of the status that report a BtpOperator that cannot be decoded. Equal for an equal cause.

    The API server requires a lastTransitionTime; when the object became unreadable is not known, so it is the time of
    its creation.
    """
    since = obj.metadata.creation_timestamp or datetime.fromtimestamp(0, UTC)
    message = f"object cannot be read: {obj.why}; correct the field"
    said = status_for(None, Reason.ReconcileFailed, message, obj.metadata.generation, since)
    return {
        "state": said.state.value,
        "conditions": [to_json_object(each) for each in said.conditions],
        "observedGeneration": said.observed_generation,
    }


def page() -> str:
    """The reference page of all reasons, as Markdown."""
    return "\n".join([_HEAD, *CATALOGUE.table(Reason), "", *CATALOGUE.sections()])


_HEAD = """# Reasons of a BtpOperator

The condition `Ready` of a BtpOperator carries one of these reasons. `stellwerk explain REASON` prints the same text.

| reason | state | meaning |
| --- | --- | --- |"""
