"""What people ask about Components besides reasons. Names come from the code, so that none goes stale here."""

from __future__ import annotations

from stellwerk.delivery.operator_spec import KindHelp
from stellwerk.delivery.reconcile_request import REQUESTED_AT_ANNOTATION
from stellwerk.kube.types import duration
from stellwerk.operators.component import api, intervals, reasons
from stellwerk.operators.component.api_status import READY, RECONCILING, STALLED, State
from stellwerk.operators.component.errors import RETRY_SECONDS
from stellwerk.operators.component.reasons import CHART_WARNING
from stellwerk.operators.component.references import references
from stellwerk.operators.component.settings import Settings
from stellwerk.operators.component.sources.sources import SourceKind
from stellwerk.runtime.insight.help_topics import Topic

_SETTINGS = Settings()
_WHY = "stellwerk why comp/NAME -n NAMESPACE"

CONDITIONS = Topic(
    about="how the state of a Component is to be read",
    text=(
        f"status.state is one word. The condition {READY} says the same to programs: True when Ready, False when "
        "Error, else Unknown; its reason is one of the original's eleven words, its message names objects and causes.",
        f"While a Component is not Ready, a second condition names the cause: {RECONCILING} where waiting may "
        f"help, {STALLED} where somebody has to change something. kstatus, flux, Helm and Argo CD read them.",
        "What the API server took and warns of (a deprecated version, an unknown field that it drops) changes no "
        "condition: an Event ApiServerWarning names it when it comes up.",
    ),
    rows=(
        (State.Ready, "Everything is applied and ready, for the spec as it is now."),
        (State.Pending, "Something that the Component needs is missing; its objects are left as they are."),
        (State.Processing, "Objects are being applied, or are not ready yet."),
        (State.Error, "It could not be done, or objects take longer than spec.timeout; the work goes on."),
        (State.DeletionPending, "It is to be deleted, and something keeps it from that."),
        (State.Deleting, "Objects are being deleted, or the deletion is blocked."),
    ),
    commands=("kubectl wait comp NAME -n NAMESPACE --for=condition=Ready --timeout=5m", _WHY),
)

SOURCES = Topic(
    about="where manifests come from, and when a new revision is noticed",
    text=(
        "spec.sourceRef names exactly one source. What it offers is downloaded, its digest is verified, and the folder "
        "spec.path is rendered: as a Helm chart where it holds Chart.yaml, else as a kustomization, which may be "
        "templated. A HelmChart of flux has its files in a folder named after the chart; without spec.path it is "
        "found.",
        "What a web server asks for stands in a Secret that httpRepository.secretRef names, in flux's keys: "
        f"{', '.join(references.LOGIN_KEYS)}. It is shown to the server of url only, not to one that a redirect leads "
        "to; and ca.crt, which stands in the place of the system's authorities, counts for that server only.",
        "A flux source counts when its condition Ready is True for its present generation and it has an artifact. A "
        "new artifact arrives as an event. A web server is asked every "
        f"{duration.format(_SETTINGS.http_repository_interval)} (--http-repository-interval).",
        "spec.revision and spec.digest pin a Component: it waits, Pending, until the source offers just that. "
        "spec.sticky finishes one revision, ready or timed out, before the newest is taken.",
    ),
    rows=(
        (SourceKind.FluxGitRepository, "A GitRepository of flux."),
        (SourceKind.FluxOciRepository, "An OCIRepository of flux."),
        (SourceKind.FluxBucket, "A Bucket of flux."),
        (SourceKind.FluxHelmChart, "A HelmChart of flux."),
        (SourceKind.FluxExternalArtifact, "An ExternalArtifact, whoever makes it."),
        (SourceKind.HttpRepository, "An archive on a web server; its headers name digest and revision."),
        (
            SourceKind.Blueprint,
            "Files inside the cluster. A content that a Component uses is kept as BlueprintVersion.",
        ),
    ),
    commands=("kubectl get gitrepositories,ocirepositories,buckets,helmcharts -A", _WHY),
)

VALUES = Topic(
    about="parameters, variables, decryption keys and kubeconfigs from Secrets and ConfigMaps",
    text=(
        "References are to the Component's own namespace. What is missing keeps the Component Pending and is named all "
        "at once; a change is noticed at once. A deletion needs none of them but the kubeconfig.",
        "Parameters are merged in the order of spec.valuesFrom, spec.values on top: maps are merged, everything else "
        "is replaced; null takes a default of a chart away. Variables of postBuild.substituteFrom are replaced by "
        "later ones, and by postBuild.substitute.",
        "A kubeconfig must hold everything inline: plugins (exec, auth-provider), file paths, proxies and "
        "insecure-skip-tls-verify are refused. So are a server URL with a user or a query, a certificate authority of "
        "more than 64 KiB, an RSA client key of more than 4096 bits, and a key that is encrypted.",
        "Of another cluster, answers of up to 16 MiB are read, objects of up to 4 MiB and 100,000 lists and maps, and "
        "lists that take up to 256 MiB of memory. Large objects are read in smaller pages.",
        "The objects with the operator's label are held in memory: up to 64 MiB of one other cluster, and up to "
        "--max-remote-objects-mib of all together, half of it for the clusters of one namespace. Where it is more, the "
        "largest cluster is left alone for ten minutes, and its Components show TargetClusterTooLarge.",
        "YAML is nested at most 100 levels, and aliases unfold to at most ten times the text.",
    ),
    rows=(
        ("kubeConfig", f"keys {', '.join(references.KUBE_CONFIG_KEYS)}, or secretRef.key"),
        ("valuesFrom", f"keys {', '.join(references.VALUES_KEYS)}, or key; kind ConfigMap is possible"),
        ("httpRepository.secretRef", f"keys {', '.join(references.LOGIN_KEYS)}"),
        ("decryption", "age identities under *.agekey, PGP private keys under *.asc"),
        ("postBuild.substituteFrom", "each key is a variable; kind ConfigMap is possible"),
    ),
    commands=("kubectl -n NAMESPACE get secrets,configmaps", _WHY),
)

DEPENDENCIES = Topic(
    about="in which order Components are applied and deleted",
    text=(
        "A Component is applied when all that it lists in spec.dependencies are Ready. One that has the same source "
        "must have taken over the same revision, too, so that a change reaches them in order.",
        "dependencies[].readyExpr says in CEL when a dependency counts as ready, and takes the place of these "
        "conditions, as with Flux: dep.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True'), or "
        "dep.status.revision > 2. dep is the other Component, self this one; a key that may be missing is asked for by "
        "has(dep.status.state) or dep.?status.?state. Of a dep in another namespace an expression sees names, labels "
        "and status only. It is asked again on every change of either.",
        "Deletion goes the other way round: a Component stays as long as others list it. Readiness and departure "
        "arrive as events; nobody waits for an interval.",
        "A dependency cycle is named on each of its members, which are then in Error; deleting all of them works.",
    ),
    commands=("kubectl get components -A -o wide", _WHY),
)

ANNOTATIONS = Topic(
    about="what annotations on rendered objects can ask for",
    text=(
        f"Keys begin with {api.RECONCILER}/. Words are read generously: IfUnowned, ifUnowned and if-unowned are one. A "
        "word without meaning is an error, and nothing is applied. Objects of a Helm chart must not carry them, "
        "because hooks are expressed by them; postBuild.patches can add them.",
        f"On the Component itself: {api.DISABLE_EVENTS_ANNOTATION}=true sends no Events about its objects; any change "
        f"of an annotation, such as {REQUESTED_AT_ANNOTATION}, has the Component worked on anew.",
    ),
    rows=tuple(
        (key.removeprefix(f"{api.RECONCILER}/"), text)
        for key, text in (
            (api.ADOPTION_POLICY_ANNOTATION, "never, if-unowned, always: what if the object exists already"),
            (api.RECONCILE_POLICY_ANNOTATION, "on-object-change, on-object-or-component-change, once"),
            (api.UPDATE_POLICY_ANNOTATION, "recreate, replace, ssa-merge, ssa-override, default"),
            (api.DELETE_POLICY_ANNOTATION, "delete, orphan, orphan-on-apply, orphan-on-delete, default"),
            (api.APPLY_ORDER_ANNOTATION, "-32768 to 32767: the wave in which it is applied; 0"),
            (api.PURGE_ORDER_ANNOTATION, "-32768 to 32767: deleted at the end of that wave; never"),
            (api.DELETE_ORDER_ANNOTATION, "-32768 to 32767: the wave in which it is deleted; 0"),
            (api.REAPPLY_INTERVAL_ANNOTATION, f"a duration; {duration.format(intervals.REAPPLY)}"),
            (api.STATUS_HINT_ANNOTATION, "has-observed-generation, has-ready-condition, conditions=A;B"),
            (api.DISABLE_SUBSTITUTION_ANNOTATION, '"true": variables are left as they are'),
        )
    ),
)

POLICIES = Topic(
    about="adoption, update, deletion: what spec says for all objects of a Component",
    text=(
        "adoptionPolicy decides about objects that exist already: Never fails, IfUnowned takes those that belong to no "
        "Component, Always takes them from other Components, too.",
        "updatePolicy SsaOverride applies on the server and takes over the fields of managers whose names begin with "
        f"{' or '.join(_SETTINGS.reclaim_managers)} (--reclaim-managers): what they added goes. SsaMerge leaves such "
        "fields, Replace writes the whole object, Recreate deletes and creates it.",
        "deletePolicy Orphan keeps the objects when the Component is deleted; what the manifests no longer have is "
        "deleted all the same. OrphanOnApply and OrphanOnDelete say one of the two.",
    ),
)

INTERVALS = Topic(
    about="how long and how often",
    text=(
        "Changes arrive as events, so that intervals only matter where no event tells. Durations are written as in Go.",
        f"A missing source, Secret or ConfigMap is looked for after {RETRY_SECONDS:.0f} seconds even if nothing tells "
        "that it has come. Waits are 1 to 5 % longer than they say, each Component's by its own part, so that those "
        "that came together do not come back together.",
    ),
    rows=(
        ("requeueInterval", f"how often a Ready Component is looked at; {duration.format(intervals.REQUEUE)}"),
        ("retryInterval", "how soon what may still come is looked for; requeueInterval"),
        ("timeout", "how long objects may take to become ready; requeueInterval"),
        ("reapplyInterval", f"how often unchanged objects are put back; {duration.format(intervals.REAPPLY)}"),
    ),
)

TENANCY = Topic(
    about="whom a Component acts as, on clusters that several teams share",
    text=(
        "By default a Component acts with the operator's rights, as with the original. With serviceAccountName, or "
        "--default-service-account, it acts as that ServiceAccount of its namespace and can do what that one may do.",
        "On a shared cluster run the operator without cluster-admin (deploy/rbac/component-operator.yaml) and with "
        "--tenancy=strict: Components must then act as a ServiceAccount, must not go to system namespaces, and web "
        "servers must speak TLS on public addresses. --no-cross-namespace-refs keeps them to their own namespace.",
        "Kubeconfigs then name servers with public addresses only, unless --egress-allow-networks names theirs. An "
        "account name of blanks is none.",
        "A kind that the operator may not watch is added by a ClusterRole with the label "
        f"{api.RECONCILER}/aggregate-to-dependents=true.",
    ),
    commands=("kubectl auth can-i create deployments -n NAMESPACE --as=system:serviceaccount:NAMESPACE:NAME",),
)

DELETION = Topic(
    about="what blocks a deletion, and what stays",
    text=(
        "Objects are deleted in waves, kinds after their instances. Nothing is deleted while other Components depend "
        "on this one, while others have instances of kinds that it brings (its CustomResourceDefinitions, its "
        "APIServices, spec.additionalManagedTypes), and while somebody else has a finalizer on it: its controllers "
        "would be missing.",
        "A chart's hooks pre-delete and post-delete are refused, unless spec.deleteHooks is Skip or Run. With Run they "
        "are kept in the Secret NAME.delete-hooks beside the objects, and run by their weights before the first object "
        "goes and after the last; they are removed when they have succeeded. One that fails holds the deletion back: "
        "delete it to have it tried again, or set spec.deleteHooks to Skip. With deletePolicy Orphan none runs. With "
        "kubeConfig they lie and run in that cluster. With serviceAccountName that account keeps and runs them, and "
        "needs the rights for it: on Secrets, and on what the hooks make. They run only as they were when they were "
        "applied: hooks that do not fit their seal hold the deletion back, and the message names the command that "
        "approves them. If another client deleted their Secret, the deletion waits as well, until the Secret is back "
        "or spec.deleteHooks is Skip. Only where the namespace of the Secret is being deleted are they skipped: an "
        "Event (DeleteHooksSkipped) and a log line report it.",
        "Objects are deleted by the identity that applied them (status.appliedAs), whatever the spec names now. With "
        "--tenancy=strict a Component without an account is deleted once spec.serviceAccountName names one.",
        "An object that carries another owner's mark is never deleted. Namespaces that were created because objects "
        "needed them stay. spec.suspend, pins and sources that are not ready do not hold a deletion back.",
        "Objects in another cluster need the way there: without the kubeconfig, or while that cluster does not answer, "
        f"the deletion waits. Where it is gone for good, the annotation {api.ABANDON_ANNOTATION} with the Component's "
        "own metadata.uid gives its objects up: the Component goes, they stay, and an Event and a log line name them. "
        "It counts in a deletion only, and only while the cluster cannot be reached; one that answers, be it with a "
        "refusal, is still cleaned up.",
    ),
    commands=(_WHY,),
)

EVENTS = Topic(
    about="what is told by Events, and when",
    text=(
        "An Event on a Component comes with each change of its state; its reason is that of the condition "
        f"{READY}. What happens to objects is told on them: all of it, changes after the first rollout, or nothing "
        "(--dependent-events). The same again becomes one Event with a count.",
        "Its type is Warning in the state Error, and where the operator goes on only after the user has acted: a "
        "missing reference, a pin that the source does not have, a blocked deletion. Progress and waiting are Normal.",
        f"The annotation {api.DISABLE_EVENTS_ANNOTATION}=true on a Component silences those on its objects.",
    ),
    rows=(
        ("Created", "On an object: it was made."),
        ("Updated", "On an object: it was changed."),
        ("Deleted", "On an object: it was deleted."),
        ("UpdateError", "On an object: it could not be made or changed. The Component says why as well."),
        ("DeleteError", "On an object: it could not be deleted."),
        (
            "PassStuck",
            "On a Component or Blueprint: the operator is stuck in its work on it, a fault of its own. Others go on.",
        ),
        ("DriftDetected", "On a Component: somebody has changed its objects; they are put back at the next reapply."),
        (
            CHART_WARNING,
            "On a Component: a key appears twice in one mapping of its chart; the last one counts, as in Helm.",
        ),
        (
            "ObjectsNotWatched",
            "On a Component: the identity that applies its objects may not list and watch some of their kinds. "
            "They are read one by one, ever more seldom; changes by others are noticed at the requeue interval only.",
        ),
        (
            "ApiServerWarning",
            "On a Component: the API server took its objects and warns of something.",
        ),
        (
            "ObjectsAbandoned",
            "On a Component: its objects were given up with their cluster, as was asked for.",
        ),
        (
            "ObjectUnreadable",
            "On an object that cannot be decoded, and on the Component that it belongs to. Others are not affected.",
        ),
        (
            "DeleteHooksSkipped",
            "On a Component: its delete hooks did not run, because the namespace that kept them is being deleted.",
        ),
        ("DeletionBlocked", "On a Blueprint: Components still use it."),
    ),
    commands=("stellwerk events --for comp/NAME -n NAMESPACE", "kubectl events -n NAMESPACE --for component/NAME"),
)

TOPICS = {
    "conditions": CONDITIONS,
    "sources": SOURCES,
    "values": VALUES,
    "dependencies": DEPENDENCIES,
    "annotations": ANNOTATIONS,
    "policies": POLICIES,
    "intervals": INTERVALS,
    "tenancy": TENANCY,
    "deletion": DELETION,
    "events": EVENTS,
}

HELP = {"Component": KindHelp(catalogue=reasons.CATALOGUE, page=reasons.page, topics=TOPICS)}
