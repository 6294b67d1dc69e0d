"""Every reason that a Component can show, and its meaning.

There are two vocabularies. The condition `Ready` speaks the original's eleven words, because alerts and scripts compare
them; they name how far a pass came, not what was wrong. What was wrong is the *cause*: a word of ours, carried by the
conditions `Reconciling` and `Stalled`, which the original does not have. `stellwerk explain` knows both.
"""

from __future__ import annotations

from enum import StrEnum

from stellwerk.operators.component.api import ABANDON_ANNOTATION, APPROVED_HOOKS_ANNOTATION, SEALS
from stellwerk.operators.component.api_status import State
from stellwerk.runtime.insight.reason_catalog import ITSELF, NOBODY, NOTHING_TO_FIX, Catalogue, Meaning

OBJECTS_NOT_WATCHED = "ObjectsNotWatched"
"""Of the Event about objects that are read one by one, because rights to list and watch are missing."""


CHART_WARNING = "ChartWarning"
"""Of the Event about what Helm passes over in silence in a chart."""


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
    KindsUnknown = "KindsUnknown"
    WaitingForPin = "WaitingForPin"
    ReferenceNotFound = "ReferenceNotFound"
    DependencyNotReady = "DependencyNotReady"
    DependencyCycle = "DependencyCycle"
    InvalidReadyExpression = "InvalidReadyExpression"
    DependantsExist = "DependantsExist"
    TypesInUse = "TypesInUse"
    ForeignFinalizers = "ForeignFinalizers"
    InvalidSpec = "InvalidSpec"
    InvalidInventory = "InvalidInventory"
    InputsTooLarge = "InputsTooLarge"
    InvalidKubeConfig = "InvalidKubeConfig"
    InvalidCredentials = "InvalidCredentials"
    TargetClusterChanged = "TargetClusterChanged"
    CrossNamespaceReference = "CrossNamespaceReference"
    ServiceAccountRequired = "ServiceAccountRequired"
    TargetNamespaceRefused = "TargetNamespaceRefused"
    DeleteHooksNotSealed = "DeleteHooksNotSealed"
    DeleteHooksMissing = "DeleteHooksMissing"
    RenderingFailed = "RenderingFailed"
    InvalidObjects = "InvalidObjects"
    ApplyFailed = "ApplyFailed"
    ClusterUnreachable = "ClusterUnreachable"
    ServerBusy = "ServerBusy"
    TargetClusterTooLarge = "TargetClusterTooLarge"
    TooManyTargetClusters = "TooManyTargetClusters"
    LargeComponentsBusy = "LargeComponentsBusy"
    ObjectUnreadable = "ObjectUnreadable"
    UnexpectedError = "UnexpectedError"


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
    "In a deletion, where the other cluster is gone for good, leave the objects behind by the Component's own uid: "
    f"kubectl annotate comp NAME -n NAMESPACE {ABANDON_ANNOTATION}=UID"
)
_CYCLE_FIX = (
    "Remove the entry from spec.dependencies of one of the Components that the message names: "
    "kubectl edit comp NAME -n NAMESPACE"
)
_FOLLOW = f"{NOTHING_TO_FIX} Follow it: stellwerk wait comp/NAME -n NAMESPACE"
_FOLLOW_DELETION = f"{NOTHING_TO_FIX} Follow it: stellwerk wait comp/NAME -n NAMESPACE --for=deleted"
_UNSTICK = "See what blocks the deletion, and what forcing it costs: stellwerk unstick comp/NAME -n NAMESPACE"
_AT_ONCE = "The operator sees the change by itself. Have it look at once: stellwerk reconcile comp/NAME -n NAMESPACE"

MEANINGS: dict[Reason | Cause, Meaning[State]] = {
    # ---- how far a pass came
    Reason.FirstSeen: Meaning(
        state=State.Pending,
        message="First seen",
        meaning="The Component is new; the operator starts with it at once.",
        fix=(_FOLLOW,),
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
        fix=("Provide what the message names, as the page of the cause says: stellwerk why comp/NAME -n NAMESPACE",),
    ),
    Reason.Restarting: Meaning(
        state=State.Processing,
        message="Restarting processing: the component, its source or its references have changed",
        meaning="Spec, annotations, source, Secrets or ConfigMaps have changed; the work begins anew, and the timeout "
        "with it. A Component that is Ready does not show this where no object has to be touched: it stays Ready.",
        fix=(_FOLLOW,),
    ),
    Reason.Processing: Meaning(
        state=State.Processing,
        message="Waiting for dependent resources to become ready",
        meaning="The objects are being applied, or are not ready yet. The message names the first ones.",
        causes=("Pods start slowly, or cannot start.", "A wave is waited for before the next one is applied."),
        check=(_WHY, _INVENTORY),
        fix=(
            _FOLLOW,
            "Look at an object that stays unready: stellwerk tree comp/NAME -n NAMESPACE",
        ),
    ),
    Reason.Ready: Meaning(
        state=State.Ready,
        message="Dependent resources successfully reconciled",
        meaning="All objects are applied and ready.",
        fix=(f"{NOTHING_TO_FIX} Compare with what is in the cluster: stellwerk diff comp/NAME -n NAMESPACE",),
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
        fix=(
            (
                "Correct the object, file or field that the message names, as the page of the cause says: "
                "stellwerk why comp/NAME -n NAMESPACE"
            ),
            _AT_ONCE,
        ),
    ),
    Reason.Timeout: Meaning(
        state=State.Error,
        message="Timed out waiting for dependent resources to become ready",
        meaning="The objects were not ready within spec.timeout. The work goes on; when they become ready, so does the "
        "Component.",
        causes=("Pods cannot start.", "spec.timeout is too short for what is deployed."),
        check=(_WHY, _INVENTORY),
        fix=(
            "Correct the object that the message names: stellwerk tree comp/NAME -n NAMESPACE",
            'Or allow more time: kubectl patch comp NAME -n NAMESPACE --type=merge -p \'{"spec":{"timeout":"20m"}}\'',
        ),
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
            (
                "Delete the Components that the message names, or provide the Secret: "
                "kubectl delete comp DEPENDANT -n NAMESPACE"
            ),
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
        fix=(
            (
                "Delete the instances that the message names, or have the owner of the finalizer remove it: "
                "kubectl delete KIND OBJECT -n NAMESPACE"
            ),
            _UNSTICK,
        ),
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
        fix=(
            _FOLLOW_DELETION,
            _UNSTICK,
        ),
    ),
    # ---- what is missing or wrong
    Cause.ObjectsNotReady: Meaning(
        state=State.Processing,
        meaning="Objects are applied and not ready yet.",
        check=(_WHY, _INVENTORY),
        fix=(
            (
                "Look at the objects that are not ready, and correct what their messages name: "
                "stellwerk tree comp/NAME -n NAMESPACE"
            ),
            "Read the log of a pod that does not become ready: kubectl logs POD -n NAMESPACE --all-containers",
        ),
    ),
    Cause.SourceNotReady: Meaning(
        state=State.Pending,
        meaning="The source does not exist, its kind is not served, or it has no artifact for its present spec.",
        causes=(
            "The name or namespace in spec.sourceRef is wrong.",
            "flux's source-controller is not installed, or cannot reach the repository.",
        ),
        check=(_SOURCES, _WHY),
        fix=(
            "Correct spec.sourceRef, or the source that the message names: kubectl edit comp NAME -n NAMESPACE",
            "Have flux fetch the source again: flux reconcile source git SOURCE -n NAMESPACE",
        ),
    ),
    Cause.KindsUnknown: Meaning(
        state=State.Pending,
        meaning="Templates ask whether the cluster serves a group of kinds (.Capabilities.APIVersions), and its API "
        "service has not answered since the operator started. Objects stay as they are, because what templates leave "
        "out would be deleted.",
        causes=("The pods behind the APIService that the message names do not run.",),
        check=("kubectl get apiservices",),
        fix=("Repair the API service, or remove it where it is not needed: kubectl delete apiservice API_SERVICE",),
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
        fix=(
            (
                "Correct the address, login or digest that the message names, then: "
                "stellwerk reconcile comp/NAME -n NAMESPACE --with-source"
            ),
        ),
    ),
    Cause.WaitingForPin: Meaning(
        state=State.Pending,
        meaning="spec.revision or spec.digest asks for another artifact than the source has.",
        check=("kubectl get comp NAME -n NAMESPACE -o jsonpath='{.status.sourceRef.artifact}'",),
        fix=(
            (
                "Have the source deliver that revision, or remove the pin: "
                'kubectl patch comp NAME -n NAMESPACE --type=merge -p \'{"spec":{"revision":null,"digest":null}}\''
            ),
        ),
        only_you_can_mend_it=True,
    ),
    Cause.ReferenceNotFound: Meaning(
        state=State.Pending,
        meaning="A Secret, a ConfigMap or a key that the spec names does not exist.",
        causes=("It lies in another namespace: references are to the Component's own.",),
        check=("kubectl -n NAMESPACE get secrets,configmaps",),
        fix=(
            (
                "Create the object or key that the message names: "
                "kubectl create secret generic SECRET -n NAMESPACE --from-file=values=values.yaml"
            ),
            "Or mark the reference as optional in the spec: kubectl edit comp NAME -n NAMESPACE",
        ),
        only_you_can_mend_it=True,
    ),
    Cause.DependencyNotReady: Meaning(
        state=State.Pending,
        meaning="A Component listed in spec.dependencies does not exist, is not ready, or has not taken over the same "
        "revision of the common source yet; or a readyExpr about it is not true.",
        check=(_SHOW, _WHY),
        fix=(
            "Correct the Component that the message names: stellwerk why comp/DEPENDENCY -n NAMESPACE",
            "Or remove the dependency from spec.dependencies: kubectl edit comp NAME -n NAMESPACE",
        ),
    ),
    Cause.DependencyCycle: Meaning(
        state=State.Error,
        meaning="The Component is in a dependency cycle, so none of its members can be first. Deleting them all works.",
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
        fix=("Correct readyExpr in spec.dependencies: kubectl edit comp NAME -n NAMESPACE",),
        only_you_can_mend_it=True,
    ),
    Cause.DependantsExist: Meaning(
        state=State.DeletionPending,
        meaning="Other Components list this one in spec.dependencies; it is kept until they are gone.",
        check=(_SHOW,),
        fix=(
            (
                "Delete the Components that the message names, or remove their dependency: "
                "kubectl delete comp DEPENDANT -n NAMESPACE"
            ),
        ),
        only_you_can_mend_it=True,
    ),
    Cause.TypesInUse: Meaning(
        state=State.Deleting,
        meaning="Others have instances of kinds that this Component brings; without it nobody would care for them.",
        check=(_WHY,),
        fix=("Delete the instances that the message names: kubectl delete KIND OBJECT -n NAMESPACE",),
        only_you_can_mend_it=True,
    ),
    Cause.ForeignFinalizers: Meaning(
        state=State.Deleting,
        meaning="Somebody else has put a finalizer on the Component and wants to act before its objects go.",
        check=("kubectl get comp NAME -n NAMESPACE -o jsonpath='{.metadata.finalizers}'",),
        fix=(
            "See that the controller that owns the finalizer runs and removes it: kubectl get pods -A",
            _UNSTICK,
        ),
        only_you_can_mend_it=True,
    ),
    Cause.InvalidSpec: Meaning(
        state=State.Error,
        meaning="The spec has a value that the schema cannot refuse, and that has no meaning.",
        fix=("Correct the field that the message names: kubectl edit comp NAME -n NAMESPACE",),
        only_you_can_mend_it=True,
    ),
    Cause.InvalidInventory: Meaning(
        state=State.Error,
        meaning="status.inventory holds an entry that the operator has not written. Nothing is applied and nothing "
        "deleted until it is removed.",
        causes=("Another client edited the status of the Component.",),
        check=("kubectl get comp NAME -n NAMESPACE -o jsonpath='{.status.inventory}'",),
        fix=(
            "Remove the entry with the command that the message names. An object that the entry is about stays.",
            (
                "Find out which client may update the status, none but the operator needs to: "
                "kubectl get comp NAME -n NAMESPACE -o yaml --show-managed-fields"
            ),
        ),
        only_you_can_mend_it=True,
    ),
    Cause.InputsTooLarge: Meaning(
        state=State.Error,
        meaning="The Secrets and ConfigMaps that the spec refers to hold more than 8 MiB together.",
        causes=("spec.valuesFrom, spec.postBuild.substituteFrom or spec.decryption name large objects.",),
        check=(_WHY,),
        fix=("Name fewer or smaller objects, or split the Component: kubectl edit comp NAME -n NAMESPACE",),
        only_you_can_mend_it=True,
    ),
    Cause.InvalidKubeConfig: Meaning(
        state=State.Error,
        meaning="The kubeconfig cannot be used.",
        causes=(
            "It runs a plugin, reads files, skips verification, goes through a proxy, or is no kubeconfig.",
            "With --tenancy=strict: the operator may not call its server (--egress-allow-hosts and others).",
        ),
        check=("kubectl --kubeconfig FILE config view --minify",),
        fix=(
            (
                "Put a kubeconfig into the Secret in which everything is inline (certificates, token, "
                "server): "
                "kubectl create secret generic SECRET -n NAMESPACE --from-file=value=KUBECONFIG"
            ),
        ),
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
        fix=("Correct the Secret that the message names: kubectl edit secret SECRET -n NAMESPACE",),
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
            "The login has lost the right to read the namespace that identified the cluster.",
        ),
        check=(
            "kubectl get component NAME -n NAMESPACE -o jsonpath={.status.targetCluster}",
            "kubectl --kubeconfig FILE get namespace kube-system -o jsonpath={.metadata.uid}",
        ),
        fix=(
            "Name the former cluster again: kubectl edit comp NAME -n NAMESPACE",
            (
                "Or confirm the new cluster by its uid; the objects are made there, and what is in the former"
                " cluster stays: "
                "kubectl annotate comp NAME -n NAMESPACE core.cs.sap.com/confirmed-cluster=UID"
            ),
        ),
        only_you_can_mend_it=True,
    ),
    Cause.CrossNamespaceReference: Meaning(
        state=State.Error,
        meaning="The spec names a source or a Component in another namespace, and the operator runs with "
        "--no-cross-namespace-refs.",
        fix=("Move the source or dependency into the namespace of the Component: kubectl edit comp NAME -n NAMESPACE",),
        only_you_can_mend_it=True,
    ),
    Cause.ServiceAccountRequired: Meaning(
        state=State.Error,
        meaning="The operator runs with --tenancy=strict, and the Component says no serviceAccountName.",
        causes=(
            "The name is empty, or consists of blanks.",
            "A Component is deleted that was applied before the operator ran with --tenancy=strict.",
        ),
        fix=(
            (
                "Name an account that has the rights that the objects need; a deletion uses it, too: "
                'kubectl patch comp NAME -n NAMESPACE --type=merge -p \'{"spec":{"serviceAccountName":"ACCOUNT"}}\''
            ),
            "Or have the operator run with --default-service-account.",
        ),
        only_you_can_mend_it=True,
    ),
    Cause.TargetNamespaceRefused: Meaning(
        state=State.Error,
        meaning="The Component would put its objects into a namespace that the operator keeps Components out of.",
        causes=("spec.namespace, or the Component's own, is among --refused-target-namespaces.",),
        fix=(
            "Choose another namespace: kubectl edit comp NAME -n NAMESPACE",
            "Or have the operator run with other --refused-target-namespaces.",
        ),
        only_you_can_mend_it=True,
    ),
    Cause.DeleteHooksNotSealed: Meaning(
        state=State.Error,
        meaning="The operator seals delete hooks when it applies them. In a deletion: those in the Secret that the "
        "message names do not fit their seal; nothing runs and nothing is deleted. Before: they cannot be sealed.",
        causes=(
            "Another client edited the Secret, or copied it from elsewhere.",
            "spec.namespace, spec.name, spec.serviceAccountName or spec.kubeConfig was edited after the last apply.",
            f"The Secret {SEALS} in the operator's namespace was deleted or replaced while the Component was "
            "being deleted.",
            "The hooks were applied by an earlier version of the operator, which did not seal them.",
            f"The operator may not create or read its Secret {SEALS}.",
        ),
        check=("kubectl -n NAMESPACE get secret NAME.delete-hooks -o jsonpath='{.data.hooks}' | base64 -d | gunzip",),
        fix=(
            "Undo the edit: kubectl edit secret NAME.delete-hooks -n NAMESPACE",
            (
                "Or approve the hooks as they are, with the value that the message names: "
                f"kubectl annotate comp NAME -n NAMESPACE {APPROVED_HOOKS_ANNOTATION}=VALUE"
            ),
            (
                "Or go without them: "
                'kubectl patch comp NAME -n NAMESPACE --type=merge -p \'{"spec":{"deleteHooks":"Skip"}}\''
            ),
        ),
        only_you_can_mend_it=True,
    ),
    Cause.DeleteHooksMissing: Meaning(
        state=State.Error,
        meaning="The Component is deleted with spec.deleteHooks: Run, and the Secret that keeps its delete hooks is "
        "gone. Nothing runs and nothing is deleted, because a hook may save or remove what is lost otherwise.",
        causes=("Another client deleted the Secret that the message names.",),
        fix=(
            "Restore the Secret, from a backup for example; the operator goes on by itself.",
            "Or go without the hooks: kubectl -n NAMESPACE patch component NAME --type merge -p "
            """'{"spec":{"deleteHooks":"Skip"}}'""",
        ),
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
        fix=(
            (
                "Correct the file or the values that the message names, and try it without the cluster: "
                "stellwerk render -f component.yaml --path FOLDER"
            ),
            "See which values the templates get: stellwerk values comp/NAME -n NAMESPACE",
        ),
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
        fix=(
            (
                "Correct the object that the message names, and look at the outcome: "
                "stellwerk render -f component.yaml --path FOLDER"
            ),
        ),
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
        fix=(
            (
                "Correct the object that the message names, or grant the right that it asks for, then: "
                "stellwerk reconcile comp/NAME -n NAMESPACE"
            ),
        ),
    ),
    Cause.ClusterUnreachable: Meaning(
        state=State.Error,
        meaning="The API server of the target cluster does not answer.",
        causes=(
            "The cluster is down, or the kubeconfig's server or certificate is wrong.",
            "With --tenancy=strict: the server is in a network that --egress-allow-networks does not name.",
        ),
        check=(_WHY,),
        fix=(
            "Bring the cluster back, or correct the kubeconfig: kubectl --kubeconfig FILE get --raw=/readyz",
            _ABANDON,
        ),
    ),
    Cause.TargetClusterTooLarge: Meaning(
        state=State.Error,
        meaning="The target cluster shows more objects with the operator's label than the operator holds.",
        causes=(
            "Very many or very large objects, more than 64 MiB as JSON, were deployed to one cluster.",
            "The clusters of one namespace show more than half of --max-remote-objects-mib, or those of all namespaces "
            "more than all of it. The largest cluster of the namespace with most of them is left alone then.",
            "The server of the kubeconfig is not what it should be.",
        ),
        check=("kubectl --kubeconfig FILE get KIND -A -l component-operator.cs.sap.com/owner-id",),
        fix=(
            (
                "Remove objects that carry the label; the operator looks again after ten minutes: "
                "kubectl --kubeconfig FILE get KIND -A -l component-operator.cs.sap.com/owner-id"
            ),
            "Raise the limit on all clusters, an argument of the operator: --max-remote-objects-mib=1024",
            _ABANDON,
        ),
    ),
    Cause.TooManyTargetClusters: Meaning(
        state=State.Pending,
        meaning="Components deploy to as many other clusters as the operator may watch.",
        causes=(
            "The Components of the namespace use more different kubeconfigs than --max-remote-clusters-per-namespace.",
            "All Components together use more different kubeconfigs than --max-remote-clusters.",
            "Kubeconfigs of one cluster differ in their text; each of them counts.",
        ),
        check=(
            "kubectl get components -A -o custom-columns=NS:.metadata.namespace,SECRET:.spec.kubeConfig.secretRef.name",
        ),
        fix=(
            "Use one kubeconfig Secret for all Components that go to the same cluster with the same rights.",
            "Delete Components of clusters that are no longer used: kubectl -n NAMESPACE delete component NAME",
            "Raise the limit, an argument of the operator: --max-remote-clusters-per-namespace=1000",
        ),
    ),
    Cause.LargeComponentsBusy: Meaning(
        state=State.Pending,
        meaning="Other Components with very large renderings are being applied; all at once would take too much room.",
        causes=(
            "The Components of a namespace that are at work render to more than 32 MiB together.",
            "All Components that are at work render to more than 128 MiB together.",
        ),
        check=(_WHY,),
        fix=(
            "Wait: the operator goes on when it is the turn of this Component: stellwerk wait comp/NAME -n NAMESPACE",
            "Divide the sets of large Components among several namespaces, or leave out what is not needed.",
        ),
    ),
    Cause.ServerBusy: Meaning(
        state=State.Pending,
        meaning="Other Components of the namespace wait for the same web server or API server already.",
        causes=(
            "The server is slow or does not answer; such a server is called for one Component of a namespace at a "
            "time.",
            "Very many Components of the namespace call servers outside of the cluster.",
        ),
        check=(_WHY,),
        fix=(
            (
                "Correct the slow server that the message names. The operator goes on when it is the turn of "
                "this Component: "
                "stellwerk wait comp/NAME -n NAMESPACE"
            ),
        ),
    ),
    Cause.ObjectUnreadable: Meaning(
        state=State.Error,
        meaning="The Component itself cannot be read. Its objects stay as they are until it can be read again; a "
        "deletion waits, too.",
        causes=(
            "spec.values are nested deeper than 100 levels.",
            "Another client wrote a field of the wrong type, or an inventory that is incomplete, into the status.",
        ),
        check=("kubectl get comp NAME -n NAMESPACE -o yaml",),
        fix=("Correct the field that the message names: kubectl edit comp NAME -n NAMESPACE",),
        only_you_can_mend_it=True,
    ),
    Cause.UnexpectedError: Meaning(
        state=State.Error,
        meaning="The operator failed in its work on this Component in an unexpected way. Others are not affected.",
        causes=(
            "Something in this Component, its source or its target cluster is handled wrongly by the operator.",
            "The work took longer than the operator allows for one pass.",
        ),
        check=("kubectl logs deployment/component-operator -n component-operator", _WHY),
        fix=(
            (
                "The operator tries again by itself. Undo the last change of the Component or its source, and"
                " report the stack in the log as a bug: "
                "kubectl logs deployment/component-operator -n component-operator"
            ),
        ),
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
