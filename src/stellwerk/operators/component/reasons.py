"""Every reason that a Component can show, and what it means to whom.

There are two vocabularies. The condition `Ready` speaks the original's eleven words, because alerts and scripts compare
them; they tell how far a pass came, not what was wrong. What was wrong is the *cause*: a word of ours, carried by the
conditions `Reconciling` and `Stalled`, which the original does not have. `stellwerk explain` knows both.
"""

from __future__ import annotations

from enum import StrEnum

from stellwerk.operators.component.api import ABANDON_ANNOTATION
from stellwerk.operators.component.api_status import State
from stellwerk.runtime.reasons import ITSELF, NOBODY, Catalogue, Meaning


class Reason(StrEnum):
    """Why a Component is in its state: the reason of its condition Ready."""

    FirstSeen = "FirstSeen"
    Retrying = "Retrying"
    Restarting = "Restarting"
    Processing = "Processing"
    Ready = "Ready"
    Error = "Error"
    Timeout = "Timeout"
    Suspended = "Suspended"
    DeletionRetrying = "DeletionRetrying"
    DeletionBlocked = "DeletionBlocked"
    DeletionProcessing = "DeletionProcessing"


class Cause(StrEnum):
    """What is missing or wrong: the reason of Reconciling or Stalled."""

    ObjectsNotReady = "ObjectsNotReady"
    SourceNotReady = "SourceNotReady"
    SourceUnusable = "SourceUnusable"
    WaitingForPin = "WaitingForPin"
    ReferenceNotFound = "ReferenceNotFound"
    DependencyNotReady = "DependencyNotReady"
    DependencyCycle = "DependencyCycle"
    InvalidReadyExpression = "InvalidReadyExpression"
    DependantsExist = "DependantsExist"
    TypesInUse = "TypesInUse"
    ForeignFinalizers = "ForeignFinalizers"
    InvalidSpec = "InvalidSpec"
    InvalidKubeConfig = "InvalidKubeConfig"
    InvalidCredentials = "InvalidCredentials"
    TargetClusterChanged = "TargetClusterChanged"
    CrossNamespaceReference = "CrossNamespaceReference"
    ServiceAccountRequired = "ServiceAccountRequired"
    TargetNamespaceRefused = "TargetNamespaceRefused"
    RenderingFailed = "RenderingFailed"
    InvalidObjects = "InvalidObjects"
    ApplyFailed = "ApplyFailed"
    ClusterUnreachable = "ClusterUnreachable"


_TURNS = {
    State.Ready: NOBODY,
    State.Processing: ITSELF,
    State.Deleting: ITSELF,
    State.Pending: "The operator goes on as soon as what is missing appears, and looks at least every retryInterval.",
    State.DeletionPending: "The operator goes on as soon as nobody needs the Component any more.",
    State.Error: "The operator tries again: on every change, and later and later without one.",
}

_WHY = "stellwerk why comp/NAME -n NAMESPACE"
_SHOW = "kubectl get components -A -o wide"
_INVENTORY = "stellwerk status comp/NAME -n NAMESPACE"
_SOURCES = "kubectl get gitrepositories,ocirepositories,buckets,helmcharts -A"
_ABANDON = (
    "In a deletion, where the other cluster is gone for good: annotate the Component with "
    f"{ABANDON_ANNOTATION} and its own metadata.uid; its objects stay where they are."
)
_CYCLE_FIX = "Remove the entry from spec.dependencies of one of the Components that the message names."

MEANINGS: dict[Reason | Cause, Meaning[State]] = {
    # ---- how far a pass came
    Reason.FirstSeen: Meaning(
        state=State.Pending,
        message="First seen",
        meaning="The Component is new; the operator starts with it at once.",
    ),
    Reason.Retrying: Meaning(
        state=State.Pending,
        meaning="Something that the Component needs is not there yet. Its objects are left as they are.",
        causes=(
            "The source does not exist or is not ready.",
            "A Secret, a ConfigMap or a key that the spec names does not exist.",
            "spec.revision or spec.digest pins another artifact than the source has.",
            "A Component listed in spec.dependencies is not ready.",
        ),
        check=(_WHY, _SOURCES),
        fix=("Provide what the message names.",),
    ),
    Reason.Restarting: Meaning(
        state=State.Processing,
        message="Restarting processing: the component, its source or its references have changed",
        meaning="Spec, annotations, source, Secrets or ConfigMaps have changed; the work begins anew, and the timeout "
        "with it. A Component that is Ready does not show this where no object has to be touched: it stays Ready.",
    ),
    Reason.Processing: Meaning(
        state=State.Processing,
        message="Waiting for dependent resources to become ready",
        meaning="The objects are being applied, or are not ready yet. The message names the first ones.",
        causes=("Pods start slowly, or cannot start.", "A wave is waited for before the next one is applied."),
        check=(_WHY, _INVENTORY),
    ),
    Reason.Ready: Meaning(
        state=State.Ready,
        message="Dependent resources successfully reconciled",
        meaning="All objects are applied and ready.",
    ),
    Reason.Error: Meaning(
        state=State.Error,
        meaning="The Component could not be brought to what it asks for. The message names the cause.",
        causes=(
            "The manifests cannot be rendered.",
            "The API server refuses an object.",
            "The spec asks for something impossible.",
        ),
        check=(_WHY,),
        fix=("Remove the cause that the message names.",),
    ),
    Reason.Timeout: Meaning(
        state=State.Error,
        message="Timed out waiting for dependent resources to become ready",
        meaning="The objects were not ready within spec.timeout. The work goes on; when they become ready, so does the "
        "Component.",
        causes=("Pods cannot start.", "spec.timeout is too short for what is deployed."),
        check=(_WHY, _INVENTORY),
        fix=("Mend the object that the message names, or raise spec.timeout.",),
        only_you_can_mend_it=True,
    ),
    Reason.Suspended: Meaning(
        state=State.Pending,
        message="Reconciliation is suspended",
        meaning="spec.suspend is true: nothing is applied. A deletion is still carried out.",
        check=(_SHOW,),
        fix=("Resume it: stellwerk resume comp/NAME -n NAMESPACE",),
        only_you_can_mend_it=True,
    ),
    Reason.DeletionRetrying: Meaning(
        state=State.DeletionPending,
        meaning="The Component is to be deleted, and something keeps it from that.",
        causes=(
            "Other Components list it in spec.dependencies.",
            "The Secret with the kubeconfig is gone, so the objects cannot be reached.",
        ),
        check=(_WHY,),
        fix=(
            "Delete the Components that the message names, or provide the Secret.",
            _ABANDON,
        ),
    ),
    Reason.DeletionBlocked: Meaning(
        state=State.Deleting,
        meaning="The deletion waits, and nothing was deleted: the Component's controllers are still needed.",
        causes=(
            "Others have instances of kinds that the Component brings.",
            "Somebody else has put a finalizer on the Component.",
        ),
        check=(_WHY,),
        fix=("Delete the instances that the message names, or have the finalizer's owner remove it.",),
        only_you_can_mend_it=True,
    ),
    Reason.DeletionProcessing: Meaning(
        state=State.Deleting,
        message="Deleting dependent resources",
        meaning="The objects are being deleted, wave by wave.",
        causes=(
            "An object has a finalizer whose controller takes its time, or is gone.",
            "A hook that the chart wants to run at its end has not succeeded yet (spec.deleteHooks).",
        ),
        check=(_WHY, _INVENTORY),
    ),
    # ---- what is missing or wrong
    Cause.ObjectsNotReady: Meaning(
        state=State.Processing,
        meaning="Objects are applied and not ready yet.",
        check=(_WHY, _INVENTORY),
    ),
    Cause.SourceNotReady: Meaning(
        state=State.Pending,
        meaning="The source does not exist, its kind is not served, or it has no artifact for its present spec.",
        causes=(
            "The name or namespace in spec.sourceRef is wrong.",
            "flux's source-controller is not installed, or cannot reach the repository.",
        ),
        check=(_SOURCES, _WHY),
        fix=("Correct spec.sourceRef, or mend the source that the message names.",),
    ),
    Cause.SourceUnusable: Meaning(
        state=State.Error,
        meaning="The artifact could not be downloaded, or is not what was promised.",
        causes=(
            "The server does not answer, or refuses.",
            "The content does not have the digest that the source names.",
            "The archive is broken, too large, or holds paths that lead out of it.",
            "The address is one that the operator may not call (--egress-allow-hosts and others).",
            "The server asks for a login, or for another one (401, 403): an httpRepository names it in secretRef.",
        ),
        check=(_WHY,),
    ),
    Cause.WaitingForPin: Meaning(
        state=State.Pending,
        meaning="spec.revision or spec.digest asks for another artifact than the source has.",
        check=("kubectl get comp NAME -n NAMESPACE -o jsonpath='{.status.sourceRef.artifact}'",),
        fix=("Have the source deliver that revision, or change the pin.",),
        only_you_can_mend_it=True,
    ),
    Cause.ReferenceNotFound: Meaning(
        state=State.Pending,
        meaning="A Secret, a ConfigMap or a key that the spec names does not exist.",
        causes=("It lies in another namespace: references are to the Component's own.",),
        check=("kubectl -n NAMESPACE get secrets,configmaps",),
        fix=("Create what the message names.",),
        only_you_can_mend_it=True,
    ),
    Cause.DependencyNotReady: Meaning(
        state=State.Pending,
        meaning="A Component listed in spec.dependencies does not exist, is not ready, or has not taken over the same "
        "revision of the common source yet; or a readyExpr about it is not true.",
        check=(_SHOW, _WHY),
        fix=("Mend the Component that the message names.",),
    ),
    Cause.DependencyCycle: Meaning(
        state=State.Error,
        meaning="Components depend on each other in a circle, so none of them can be first. Deleting them all works.",
        causes=("A Component lists itself, or one that lists it in turn.",),
        check=(
            "kubectl get components -A -o custom-columns=NS:.metadata.namespace,N:.metadata.name,D:.spec.dependencies",
        ),
        fix=(_CYCLE_FIX,),
        only_you_can_mend_it=True,
    ),
    Cause.InvalidReadyExpression: Meaning(
        state=State.Error,
        meaning="A readyExpr in spec.dependencies cannot be understood. The message names line and column.",
        causes=(
            "It is no expression in CEL, or names something other than dep and self.",
            "Its answer is something other than true or false.",
        ),
        check=("kubectl get comp NAME -n NAMESPACE -o jsonpath='{.spec.dependencies}'",),
        fix=("Correct the expression.",),
        only_you_can_mend_it=True,
    ),
    Cause.DependantsExist: Meaning(
        state=State.DeletionPending,
        meaning="Other Components list this one in spec.dependencies; it is kept until they are gone.",
        check=(_SHOW,),
        fix=("Delete the Components that the message names, or remove their dependency.",),
        only_you_can_mend_it=True,
    ),
    Cause.TypesInUse: Meaning(
        state=State.Deleting,
        meaning="Others have instances of kinds that this Component brings; without it nobody would care for them.",
        check=(_WHY,),
        fix=("Delete the instances of the kind that the message names.",),
        only_you_can_mend_it=True,
    ),
    Cause.ForeignFinalizers: Meaning(
        state=State.Deleting,
        meaning="Somebody else has put a finalizer on the Component and wants to act before its objects go.",
        check=("kubectl get comp NAME -n NAMESPACE -o jsonpath='{.metadata.finalizers}'",),
        fix=("Have the owner of the finalizer remove it.",),
        only_you_can_mend_it=True,
    ),
    Cause.InvalidSpec: Meaning(
        state=State.Error,
        meaning="The spec has a value that the schema cannot refuse, and that has no meaning.",
        fix=("Correct the field that the message names.",),
        only_you_can_mend_it=True,
    ),
    Cause.InvalidKubeConfig: Meaning(
        state=State.Error,
        meaning="The kubeconfig cannot be used.",
        causes=("It runs a plugin, reads files, skips verification, goes through a proxy, or is no kubeconfig.",),
        check=("kubectl --kubeconfig FILE config view --minify",),
        fix=("Put a kubeconfig into the Secret in which everything is inline: certificates, token, server.",),
        only_you_can_mend_it=True,
    ),
    Cause.InvalidCredentials: Meaning(
        state=State.Error,
        meaning="The Secret that spec.sourceRef.httpRepository.secretRef names says nothing that a web server could be "
        "shown.",
        causes=(
            "A key is misspelt: username and password, bearerToken, ca.crt, tls.crt and tls.key are known.",
            "Of a pair there is one half only, or there are both a user and a token.",
            "A certificate or key is no PEM, or they do not belong together.",
        ),
        check=("kubectl -n NAMESPACE describe secret NAME",),
        fix=("Correct the Secret that the message names.",),
        only_you_can_mend_it=True,
    ),
    Cause.TargetClusterChanged: Meaning(
        state=State.Error,
        meaning="The Component leads to another cluster than the one that its objects are in. Nothing is written to "
        "it, and nothing deleted, before somebody says that this is meant.",
        causes=(
            "The kubeconfig in the Secret was replaced by that of another cluster.",
            "The cluster was set up anew behind the same address.",
            "spec.kubeConfig was removed, or names another Secret.",
        ),
        check=(
            "kubectl get component NAME -n NAMESPACE -o jsonpath={.status.targetCluster}",
            "kubectl --kubeconfig FILE get namespace kube-system -o jsonpath={.metadata.uid}",
        ),
        fix=(
            "Name the former cluster again.",
            "Or annotate the Component with core.cs.sap.com/confirmed-cluster and the uid of the new one: the objects "
            "are made there, and what is in the former cluster stays.",
        ),
        only_you_can_mend_it=True,
    ),
    Cause.CrossNamespaceReference: Meaning(
        state=State.Error,
        meaning="The spec names a source or a Component in another namespace, and the operator runs with "
        "--no-cross-namespace-refs.",
        fix=("Move the source or dependency into the Component's namespace.",),
        only_you_can_mend_it=True,
    ),
    Cause.ServiceAccountRequired: Meaning(
        state=State.Error,
        meaning="The operator runs with --tenancy=strict, and the Component says no serviceAccountName.",
        fix=("Set spec.serviceAccountName, or have the operator run with --default-service-account.",),
        only_you_can_mend_it=True,
    ),
    Cause.TargetNamespaceRefused: Meaning(
        state=State.Error,
        meaning="The Component would put its objects into a namespace that the operator keeps Components out of.",
        causes=("spec.namespace, or the Component's own, is among --refused-target-namespaces.",),
        fix=("Choose another namespace, or have the operator run with other --refused-target-namespaces.",),
        only_you_can_mend_it=True,
    ),
    Cause.RenderingFailed: Meaning(
        state=State.Error,
        meaning="The files of the source could not be made into objects. The message names file and line.",
        causes=(
            "spec.path is wrong; a HelmChart has its files in a folder named after the chart.",
            "A template fails, a value is missing, or a file cannot be decrypted.",
        ),
        check=(_WHY,),
        fix=("Correct the file, or the values.",),
        only_you_can_mend_it=True,
    ),
    Cause.InvalidObjects: Meaning(
        state=State.Error,
        meaning="The rendered objects cannot be applied together; nothing was written.",
        causes=(
            "An object appears twice, has no name, or is of a kind that the cluster does not serve.",
            "A label, annotation or policy annotation has a value without meaning.",
            "An object belongs to another Component.",
        ),
        fix=("Correct the object that the message names.",),
        only_you_can_mend_it=True,
    ),
    Cause.ApplyFailed: Meaning(
        state=State.Error,
        meaning="The API server did not take an object. The message names it, and who refused.",
        causes=(
            "The account that the Component acts as lacks a right.",
            "A quota, a policy or an admission webhook refuses the object.",
        ),
        check=("kubectl auth can-i patch deployments -n NAMESPACE --as=system:serviceaccount:NAMESPACE:NAME",),
        fix=("Remove the cause that the message names.",),
    ),
    Cause.ClusterUnreachable: Meaning(
        state=State.Error,
        meaning="The API server of the target cluster does not answer.",
        causes=("The cluster is down, or the kubeconfig's server or certificate is wrong.",),
        check=(_WHY,),
        fix=("Mend the cluster, or the kubeconfig.", _ABANDON),
    ),
}

CATALOGUE = Catalogue(MEANINGS, _TURNS)


# ---- the reference page


def page() -> str:
    """The reference page of all reasons and causes, as Markdown."""
    tables = [_HEAD, *CATALOGUE.table(Reason), "", _CAUSES_HEAD, *CATALOGUE.table(Cause), ""]
    return "\n".join([*tables, *CATALOGUE.sections()])


_HEAD = """# Reasons of a Component

The condition `Ready` of a Component carries one of the first eleven words, as with the original operator.
`stellwerk explain REASON` prints the same text.

| reason | state | meaning |
| --- | --- | --- |"""

_CAUSES_HEAD = """While a Component is not ready, the condition `Reconciling` (waiting may help) or `Stalled` (it will
not) names the cause.

| cause | state | meaning |
| --- | --- | --- |"""
