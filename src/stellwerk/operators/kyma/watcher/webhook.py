"""What reports changes in the cluster of a Kyma to the control plane: a webhook there that admits everything.

| what is missing or different | next |
| --- | --- |
| the Gateway, or names of the Kyma | nothing: the cause is reported |
| the certificate of the Kyma (`certificates`) | it is requested, or another one |
| its Secret, or that of the Gateway | they are awaited |
| objects in the remote cluster | they are applied, all in one step |
| ready pods | they are awaited; the cause is reported if their containers do not start |

Nothing is written to a cluster that is as it should be. What a user adds to our objects stays, except webhooks under
our names: those of Watchers that are gone are removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from stellwerk.api.admission import ValidatingWebhookConfiguration
from stellwerk.api.apps import Deployment
from stellwerk.api.core import Pod, Secret, Service
from stellwerk.api.istio import Gateway
from stellwerk.api.networking import NetworkPolicy
from stellwerk.apply.objects.desired import Desired
from stellwerk.delivery.step_rights import Use
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import JsonObject, JsonValue, Unstructured, dig, unstructured
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import Kyma
from stellwerk.operators.kyma.api_status import GROUP
from stellwerk.operators.kyma.api_watcher import WatchedField
from stellwerk.operators.kyma.collections import GATEWAYS, WATCHERS_IN
from stellwerk.operators.kyma.kyma import skr
from stellwerk.operators.kyma.settings import Settings
from stellwerk.operators.kyma.watcher import certificates
from stellwerk.operators.kyma.watcher.certificates import (
    AUTHORITY_KEY,
    CERTIFICATE_KEY,
    CERTIFICATE_SECRETS,
    GATEWAY_SECRETS,
    PRIVATE_KEY_KEY,
    SERVICE,
    AuthoritySecret,
    CertificateSecret,
    NotInstalled,
    Removal,
    decoded,
    fingerprint,
)
from stellwerk.operators.kyma.watcher.decide import flaw_of, manager_of, servers_of, watched, webhook_name
from stellwerk.runtime.certificates import certs
from stellwerk.runtime.control.step import Apply, Delete, Patch, Refusal, Wait, Write
from stellwerk.runtime.reading.known import NotKnown, Present, Unknown
from stellwerk.runtime.reading.loads import SecretData
from stellwerk.runtime.reading.questions import Collection, Index
from stellwerk.runtime.reading.view import View

WATCHER_PORT, METRICS_PORT = 8443, 2112
_SERVICE_PORT = 443
_FOLDER = "/app/etc/ssl"
_USER, _GROUP = 10_001, 30_001
_PRIORITY = 1_000_000_000
"""The highest that is not of Kubernetes itself."""
_MARKS: JsonObject = {labels.MANAGED_BY_LABEL: labels.KYMA}
_APP = {"app": SERVICE}
_SCRAPERS = {"networking.kyma-project.io/metrics-scraping": "allowed"}
_WEBHOOKS = f".{GROUP}"
"""How the names of our webhooks end."""
_STUCK = frozenset({"CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull"})

SECRET_NAME, METRICS_SERVICE = f"{SERVICE}-tls", f"{SERVICE}-metrics"  # a name
PRIORITY_CLASS = f"{SERVICE}-priority"
POLICIES = tuple(
    f"kyma-project.io--{each}"
    for each in ("seed-to-watcher", "watcher-to-apiserver", "metrics-to-watcher", "watcher-to-dns")
)

_OURS = f"{labels.MANAGED_BY_LABEL}={labels.KYMA},!{labels.PART_OF_LABEL}"
"""What belongs to no module."""
PRIORITY_CLASSES = Collection(
    unstructured(Resource("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False)),
    fields=f"metadata.name={PRIORITY_CLASS}",
)
SERVICES = Collection(unstructured(Service.resource), labels=_OURS)
POLICY_COLLECTION = Collection(unstructured(NetworkPolicy.resource), labels=_OURS)
SECRETS = Collection(CertificateSecret, fields=f"metadata.name={SECRET_NAME}")
DEPLOYMENTS = Collection(unstructured(Deployment.resource), fields=f"metadata.name={SERVICE}")
CONFIGURATIONS = Collection(unstructured(ValidatingWebhookConfiguration.resource), fields=f"metadata.name={SERVICE}")
PODS = Collection(Pod, labels=f"app={SERVICE}")
PODS_IN = Index(PODS, "namespace", lambda each: (each.metadata.namespace,))
RUNTIME_COLLECTIONS = (
    PRIORITY_CLASSES,
    SERVICES,
    POLICY_COLLECTION,
    SECRETS,
    DEPLOYMENTS,
    CONFIGURATIONS,
    PODS,
)
"""What is read and written in a remote cluster. Of Secrets and Deployments only ours is watched."""
REMOTE_USES: tuple[Use[Any], ...] = (
    *(
        Use(each, "no change in a remote cluster is reported", (Apply, Delete))
        for each in (PRIORITY_CLASSES, SERVICES, POLICY_COLLECTION, SECRETS, DEPLOYMENTS)
    ),
    Use(CONFIGURATIONS, "no change in a remote cluster is reported", (Apply, Patch, Delete)),
    Use(PODS, "it is not shown why the webhook does not start"),
)
"""What passes ask about and steps write in a remote cluster, whose login has the rights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookPart:
    """What the webhook of a Kyma needs next, and how it is."""

    writes: tuple[Write, ...] = ()
    waits: tuple[Wait, ...] = ()
    holds: bool | None = False
    """Of the condition SKRWebhook; None: that is not known."""
    error: str = ""
    """What makes the Kyma one in Error."""


def next_part(kyma: Kyma, home: View, remote: View, settings: Settings, refused: Refusal) -> WebhookPart:
    """What the webhook of a Kyma needs next. What is not known here keeps no other part from its work."""
    try:
        address = address_of(home, settings)
        if writes := certificates.due(kyma, home, settings, refused):
            return WebhookPart(writes=writes)
        return _installed(_Ingredients(kyma, home, remote, settings, address), refused)
    except NotInstalled as problem:
        return WebhookPart(error=str(problem), waits=(Wait(str(problem)),))
    except NotKnown as missing:
        return WebhookPart(holds=None, waits=(Wait(str(missing)),))


def removal(remote: View, settings: Settings, refused: Refusal) -> Removal:
    """The end of the webhook. The API server stops calling it first. Raises NotKnown."""
    writes: list[Write] = []
    waits: list[Wait] = []
    for collection, key in reversed(_places(settings.sync_namespace)):
        found = remote.find(collection, key)
        if found is None:
            continue
        if found.metadata.is_terminating:
            what = f"{collection.resource.kind} {key} is being deleted"
            waits.append(Wait((collection, key), what, cluster=remote.cluster))
        else:
            writes.append(Delete(collection, found, refused, "its Kyma is being deleted", cluster=remote.cluster))
    return Removal(tuple(writes), tuple(waits))


def address_of(home: View, settings: Settings) -> str:
    """Where remote clusters send reports: the host and the port of the Gateway. Raises NotInstalled, NotKnown."""
    key = ObjectKey(settings.istio_gateway_namespace, settings.istio_gateway_name)
    gateway: Gateway | None = home.find(GATEWAYS, key, servers_of)
    fix = f"see kubectl get gateways.networking.istio.io {key.name} -n {key.namespace} -o yaml"
    if gateway is None:
        raise NotInstalled(
            f"Gateway {key} does not exist, by which reports come in; create it, or set --istio-gateway-name and "
            "--istio-gateway-namespace"
        )
    servers = gateway.spec.servers
    if len(servers) != 1 or len(servers[0].hosts) != 1:
        hosts = sum(len(each.hosts) for each in servers)
        raise NotInstalled(f"Gateway {key} has {len(servers)} servers with {hosts} hosts, expected one of each; {fix}")
    host = servers[0].hosts[0].rpartition("/")[2]
    port = settings.listener_port_overwrite or str(servers[0].port.number)
    if not host or "*" in host or port == "0":
        raise NotInstalled(f"Gateway {key} serves {host or 'no host'}:{port}, which is no address; {fix}")
    return f"{host}:{port}"


# ---- in the remote cluster


@dataclass(frozen=True, slots=True)
class _Ingredients:
    """What the objects are made from."""

    kyma: Kyma
    home: View
    remote: View
    settings: Settings
    address: str

    @property
    def namespace(self) -> str:
        return self.settings.sync_namespace


def _installed(made: _Ingredients, refused: Refusal) -> WebhookPart:
    home, remote, settings = made.home, made.remote, made.settings
    key, gateway_key = certificates.key_of(made.kyma.metadata.name, settings), certificates.gateway_secret(settings)
    gateway = home.find(GATEWAY_SECRETS, gateway_key)
    if gateway is None or not certs.split(decoded(gateway.data.authorities)):
        return WebhookPart(waits=(Wait((GATEWAY_SECRETS, gateway_key), f"Secret {gateway_key} has no authority yet"),))
    secret = home.find(CERTIFICATE_SECRETS, key)
    if secret is None or not secret.pair:
        return WebhookPart(waits=(Wait((CERTIFICATE_SECRETS, key), f"Secret {key} has no certificate yet"),))

    deployment = remote.find(DEPLOYMENTS, ObjectKey(made.namespace, SERVICE))
    for collection, place in _places(made.namespace):
        live = remote.find(collection, place)
        if live is not None and live.metadata.is_terminating:
            what = f"{collection.resource.kind} {place} is being deleted, and is created again then"
            return WebhookPart(waits=(Wait((collection, place), what, cluster=remote.cluster),))
    writes = [*_copy(made, gateway, secret, refused)]  # first: a webhook without its certificate cannot start
    for collection, desired in _objects(made, secret, deployment):
        live = remote.find(collection, desired.key)
        if not skr.is_written(desired, live):
            writes.append(Apply(collection, desired.body, labels.FIELD_MANAGER, refused, live, remote.cluster))
    writes += _registered(made, gateway, refused)
    if writes:
        return WebhookPart(writes=tuple(writes))
    return _readiness(deployment, remote, made.namespace)


def _copy(
    made: _Ingredients, gateway: AuthoritySecret, secret: CertificateSecret, refused: Refusal
) -> tuple[Write, ...]:
    """What brings the certificate into the remote cluster. Its private key is read only if it is not there."""
    key = ObjectKey(made.namespace, SECRET_NAME)
    copied, authorities = made.remote.find(SECRETS, key), gateway.data.authorities
    if (
        copied is not None
        and (copied.pair, copied.authorities) == (secret.pair, fingerprint(authorities))
        and copied.metadata.labels.get(labels.MANAGED_BY_LABEL) == labels.KYMA
    ):
        return ()
    load = SecretData(secret.key, secret.metadata.resource_version)
    match made.home.load(load):
        case Present(content):
            pair: JsonObject = {name: content.data.get(name, "") for name in (CERTIFICATE_KEY, PRIVATE_KEY_KEY)}
        case Unknown(why, is_refused=True):
            raise NotInstalled(f"{load.about} cannot be read: {why}")
        case _:
            raise NotKnown(load.about, "it is being loaded")
    body = Desired.named(Secret.resource, key, {"labels": _MARKS}, data={**pair, AUTHORITY_KEY: authorities}).body
    return (Apply(SECRETS, body, labels.FIELD_MANAGER, refused, copied, made.remote.cluster),)


def _registered(made: _Ingredients, gateway: AuthoritySecret, refused: Refusal) -> tuple[Write, ...]:
    """What has the API server call the webhook: once for each Watcher, and no longer for those that are gone.

    A list of a server-side apply keeps items that others have edited, so those are removed by a patch.
    """
    webhooks = [*_webhooks(made, gateway)]
    desired = Desired.named(
        ValidatingWebhookConfiguration.resource, ObjectKey("", SERVICE), {"labels": _MARKS}, webhooks=[*webhooks]
    )
    cluster = made.remote.cluster
    live = made.remote.find(CONFIGURATIONS, desired.key)
    there = cast("list[JsonObject]", live.body.get("webhooks") or []) if live is not None else []
    by_name = {str(each["name"]): each for each in there}
    wanted = [str(each["name"]) for each in webhooks]
    others = [each for name, each in by_name.items() if name not in wanted]
    foreign = [each for each in others if not str(each["name"]).endswith(_WEBHOOKS)]
    if live is not None and len(foreign) < len(others):
        return (Patch(CONFIGURATIONS, live, {"webhooks": [*webhooks, *foreign]}, refused, cluster),)
    if live is not None:
        ordered: list[JsonValue] = [by_name[name] for name in wanted if name in by_name]
        if skr.is_written(desired, Unstructured({**live.body, "webhooks": ordered}, live.metadata)):
            return ()
    return (Apply(CONFIGURATIONS, desired.body, labels.FIELD_MANAGER, refused, live, cluster),)


def _readiness(deployment: Unstructured | None, remote: View, namespace: str) -> WebhookPart:
    ready = dig(deployment.body, "status", "readyReplicas") if deployment is not None else None
    if isinstance(ready, int) and ready > 0:
        return WebhookPart(holds=True)
    for pod in remote.all(PODS_IN, namespace, _containers):
        for name, reason in pod.stuck:
            raise NotInstalled(
                f"container {name} of pod {namespace}/{pod.name} of the watcher waits: {reason}; in that cluster see "
                f"kubectl describe pod {pod.name} -n {namespace}"
            )
    what = f"Deployment {namespace}/{SERVICE} has no ready pod yet"
    return WebhookPart(waits=(Wait((DEPLOYMENTS, ObjectKey(namespace, SERVICE)), what, cluster=remote.cluster),))


@dataclass(frozen=True, slots=True)
class _Containers:
    """An aspect: which containers of a pod do not start, and why."""

    name: str
    stuck: tuple[tuple[str, str], ...]


def _containers(pod: Pod) -> _Containers:
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    waiting = ((each.name, each.state.waiting.reason) for each in statuses if each.state.waiting is not None)
    return _Containers(pod.metadata.name, tuple((name, reason) for name, reason in waiting if reason in _STUCK))


# ---- the objects


def _places(namespace: str) -> tuple[tuple[Collection[Any], ObjectKey], ...]:
    """All objects, in the order in which they are made."""
    return (
        (PRIORITY_CLASSES, ObjectKey("", PRIORITY_CLASS)),
        (SERVICES, ObjectKey(namespace, SERVICE)),
        (SERVICES, ObjectKey(namespace, METRICS_SERVICE)),
        *((POLICY_COLLECTION, ObjectKey(namespace, name)) for name in POLICIES),
        (SECRETS, ObjectKey(namespace, SECRET_NAME)),
        (DEPLOYMENTS, ObjectKey(namespace, SERVICE)),
        (CONFIGURATIONS, ObjectKey("", SERVICE)),
    )


def _objects(
    made: _Ingredients, secret: CertificateSecret, live: Unstructured | None
) -> Iterator[tuple[Collection[Unstructured], Desired]]:
    """Those that are the same for each set of Watchers, without the Secret."""
    yield PRIORITY_CLASSES, _named(PRIORITY_CLASSES, "", PRIORITY_CLASS, value=_PRIORITY)
    for name, port, target in ((SERVICE, _SERVICE_PORT, "watcher-port"), (METRICS_SERVICE, METRICS_PORT, "metrics")):
        ports: JsonObject = {"name": target, "port": port, "protocol": "TCP", "targetPort": target}
        yield SERVICES, _named(SERVICES, made.namespace, name, spec={"selector": {**_APP}, "ports": [ports]})
    for name, spec in zip(POLICIES, _policies(made.address), strict=True):
        selected: JsonObject = {"podSelector": {"matchLabels": {**_APP}}, **spec}
        yield POLICY_COLLECTION, _named(POLICY_COLLECTION, made.namespace, name, spec=selected)
    yield DEPLOYMENTS, _named(DEPLOYMENTS, made.namespace, SERVICE, spec=_deployment(made, secret, live))


def _named(collection: Collection[Unstructured], namespace: str, name: str, **content: JsonValue) -> Desired:
    return Desired.named(collection.resource, ObjectKey(namespace, name), {"labels": _MARKS}, **content)


def _policies(address: str) -> tuple[JsonObject, ...]:
    """In the order of their names. API servers may be outside of the cluster, so only ports are limited for them."""
    api = {_SERVICE_PORT, int(address.rpartition(":")[2])}
    scrapers: JsonObject = {"podSelector": {"matchLabels": {**_SCRAPERS}}}
    return (
        {"policyTypes": ["Ingress"], "ingress": [{"ports": _ports("TCP", WATCHER_PORT)}]},
        {"policyTypes": ["Egress"], "egress": [{"ports": _ports("TCP", *sorted(api))}]},
        {"policyTypes": ["Ingress"], "ingress": [{"from": [scrapers], "ports": _ports("TCP", METRICS_PORT)}]},
        {"policyTypes": ["Egress"], "egress": [{"ports": [*_ports("UDP", 53, 8053), *_ports("TCP", 53, 8053)]}]},
    )


def _ports(protocol: str, *ports: int) -> list[JsonValue]:
    return [{"protocol": protocol, "port": port} for port in ports]


def _deployment(made: _Ingredients, secret: CertificateSecret, live: Unstructured | None) -> JsonObject:
    """The selector of a Deployment cannot be changed, so one that is there already keeps its own."""
    settings = made.settings
    kept = dig(live.body, "spec", "selector", "matchLabels") if live is not None else None
    selector: JsonObject = {**kept} if isinstance(kept, dict) and kept else {**_APP}
    marks: JsonObject = {
        **selector,
        **_APP,
        **_MARKS,
        "sidecar.istio.io/inject": "false",
        labels.POD_RESTART_LABEL: secret.metadata.resource_version,
    }
    plain: Mapping[str, str] = {
        "WEBHOOK_PORT": str(WATCHER_PORT),
        "METRICS_PORT": str(METRICS_PORT),
        "TLS_KEY": f"{_FOLDER}/{PRIVATE_KEY_KEY}",
        "TLS_CERT": f"{_FOLDER}/{CERTIFICATE_KEY}",
        "CA_CERT": f"{_FOLDER}/{AUTHORITY_KEY}",
        "TLS_CALLBACK": "true",
        "KCP_CONTRACT": "v2",
        "KCP_ADDR": made.address,
        **({"GODEBUG": settings.godebug} if settings.godebug else {}),
    }
    pod_name: JsonObject = {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    variables: list[JsonValue] = [{"name": name, "value": value} for name, value in plain.items()]
    container: JsonObject = {
        "name": "server",
        "image": settings.watcher_image,
        "env": [pod_name, *variables],
        "ports": [
            {"name": "watcher-port", "containerPort": WATCHER_PORT, "protocol": "TCP"},
            {"name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP"},
        ],
        "resources": {
            "limits": {"memory": settings.skr_webhook_memory_limits, "cpu": settings.skr_webhook_cpu_limits},
            "requests": {"memory": "20Mi", "cpu": "0.01"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "privileged": False,
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [{"name": "ssl", "mountPath": _FOLDER, "readOnly": True}],
    }
    pod: JsonObject = {
        "automountServiceAccountToken": False,
        "containers": [container],
        "priorityClassName": PRIORITY_CLASS,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _GROUP,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumes": [{"name": "ssl", "secret": {"secretName": SECRET_NAME}}],
    }
    # The copy of the pull Secret is in that namespace alone.
    if settings.skr_image_pull_secret and made.namespace == labels.SKR_NAMESPACE:
        pod["imagePullSecrets"] = [{"name": settings.skr_image_pull_secret}]
    template: JsonObject = {"metadata": {"labels": marks}, "spec": pod}
    return {"replicas": 1, "selector": {"matchLabels": selector}, "template": template}


def _webhooks(made: _Ingredients, gateway: AuthoritySecret) -> Iterator[JsonObject]:
    """One for each Watcher that can have one: the API server would refuse all of them for the sake of one."""
    for watcher in made.home.all(WATCHERS_IN, made.kyma.metadata.namespace, watched):
        if watcher.metadata.is_terminating or flaw_of(watcher) is not None:
            continue
        what = watcher.spec.resource_to_watch
        resource = f"{what.resource}/status" if watcher.spec.field == WatchedField.Status else what.resource
        service: JsonObject = {
            "name": SERVICE,
            "namespace": made.namespace,
            "path": f"/validate/{manager_of(watcher)}",
            "port": _SERVICE_PORT,
        }
        rule: JsonObject = {
            "apiGroups": [what.group],
            "apiVersions": [what.version],
            "resources": [resource],
            "operations": ["CREATE", "UPDATE", "DELETE"],
        }
        yield {
            "name": webhook_name(watcher),
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"caBundle": gateway.data.authorities, "service": service},
            "objectSelector": {"matchLabels": {**watcher.spec.labels_to_watch}},
            "rules": [rule],
            "failurePolicy": "Ignore",
            "sideEffects": "NoneOnDryRun",
            "timeoutSeconds": 15,
        }
