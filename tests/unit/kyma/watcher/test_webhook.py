"""What the webhook in the cluster of a Kyma needs next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import pytest
from tests.unit.kyma.kyma.worlds import DELETED, HOME, metadata
from tests.unit.kyma.watcher.authorities import (
    ISTIO,
    NOW,
    a_certificate_secret,
    a_gateway,
    a_leaf,
    a_secret,
    an_authority,
    content,
    text,
)
from tests.unit.kyma.watcher.test_certificates import CERT_MANAGER, a_certificate, kyma, refused
from tests.unit.kyma.watcher.worlds import a_gateway as an_istio_gateway
from tests.unit.kyma.watcher.worlds import a_watcher

from stellwerk.api.core import Pod, Secret
from stellwerk.api.istio import Gateway
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, Unstructured
from stellwerk.operators.kyma.api import Kyma
from stellwerk.operators.kyma.api_watcher import Watcher
from stellwerk.operators.kyma.collections import GATEWAYS, WATCHERS
from stellwerk.operators.kyma.settings import Settings
from stellwerk.operators.kyma.watcher import webhook
from stellwerk.operators.kyma.watcher.certificates import (
    CERTIFICATE_SECRETS,
    CERTIFICATES,
    GATEWAY_SECRETS,
    AuthoritySecret,
    Certificate,
    CertificateSecret,
    NotInstalled,
)
from stellwerk.operators.kyma.watcher.webhook import (
    CONFIGURATIONS,
    DEPLOYMENTS,
    PODS,
    POLICY_COLLECTION,
    PRIORITY_CLASSES,
    SECRETS,
    SERVICES,
    WebhookPart,
)
from stellwerk.runtime.cache.remote_clusters import Kubeconfig
from stellwerk.runtime.control.step import Apply, Delete, Patch, Write
from stellwerk.runtime.reading.known import NotKnown
from stellwerk.runtime.reading.loads import PlainLoads, SecretData
from stellwerk.runtime.reading.questions import Collection, PlainSource
from stellwerk.runtime.reading.view import Overlay, PlainClusters, PlainSources, View

FAR = Kubeconfig(ObjectKey(HOME, "login"), b"far")
AUTHORITY, NEWER = an_authority(NOW, 400), an_authority(NOW, 400)
LEAF = a_leaf(AUTHORITY, NOW, 60)
ISTIO_GATEWAY = an_istio_gateway("klm-watcher", "kcp-system/listen.example.com")
MARKS = {"operator.kyma-project.io/managed-by": "kyma"}
HERE = "kyma-system"
INSTALLED = [
    "Secret kyma-system/skr-webhook-tls",
    "PriorityClass skr-webhook-priority",
    "Service kyma-system/skr-webhook",
    "Service kyma-system/skr-webhook-metrics",
    "NetworkPolicy kyma-system/kyma-project.io--seed-to-watcher",
    "NetworkPolicy kyma-system/kyma-project.io--watcher-to-apiserver",
    "NetworkPolicy kyma-system/kyma-project.io--metrics-to-watcher",
    "NetworkPolicy kyma-system/kyma-project.io--watcher-to-dns",
    "Deployment kyma-system/skr-webhook",
    "ValidatingWebhookConfiguration skr-webhook",
]
Objects = dict[Collection[Any], dict[ObjectKey, Any]]


@dataclass
class World:
    """A control plane and the cluster of its Kyma."""

    gateways: Sequence[Gateway] = (ISTIO_GATEWAY,)
    watchers: Sequence[Watcher] = (a_watcher(),)
    certificates: Sequence[Certificate] = (a_certificate(CERT_MANAGER),)
    secrets: Sequence[CertificateSecret] = (a_certificate_secret(LEAF),)
    gateway_secrets: Sequence[AuthoritySecret] = (a_gateway(AUTHORITY),)
    settings: Settings = field(default_factory=lambda: Settings(skr_watcher_image_tag="1.2.3"))
    loads: PlainLoads | None = None
    remote: Objects = field(default_factory=dict)
    unknown: Collection[Any] | None = None
    """Of the remote cluster: not listed yet."""
    why: str = ""
    """Why Secrets of the control plane are not known."""
    kyma: Kyma = field(default_factory=kyma)

    def view(self, overlay: Overlay | None = None) -> View:
        home, far = PlainSources(), PlainSources()
        home.add(GATEWAYS, PlainSource(self.gateways)).add(WATCHERS, PlainSource(self.watchers))
        home.add(CERTIFICATES[CERT_MANAGER], PlainSource(self.certificates))
        home.add(CERTIFICATE_SECRETS, PlainSource(self.secrets, why=self.why))
        home.add(GATEWAY_SECRETS, PlainSource(self.gateway_secrets))
        for collection, objects in self.remote.items():
            far.add(collection, PlainSource(objects.values()))
        if self.unknown is not None:
            far.add(self.unknown, PlainSource(why="it is not listed yet"))
        loads = self.loads or self._loads()
        clusters, made = PlainClusters({FAR: far}), overlay or Overlay()
        return View(sources=home, now=NOW, overlay=made, loads=loads, clusters=clusters)

    def _loads(self) -> PlainLoads:
        secret = a_secret(Secret, "k-webhook-tls", content(LEAF))
        return PlainLoads({SecretData(secret.key, secret.metadata.resource_version): secret})

    def part(self) -> WebhookPart:
        """What is next."""
        view = self.view()
        return webhook.next_part(self.kyma, view, view.on(FAR), self.settings, refused)

    def settle(self) -> list[Write]:
        """Do what is needed until nothing is; returns the writes. What is written is in the remote cluster then."""
        done: list[Write] = []
        for _ in range(4):
            part = self.part()
            if not part.writes:
                return done
            overlay = Overlay()
            for write in part.writes:
                write.rehearse(overlay, NOW)
            done += part.writes
            for collection, objects in overlay.on(FAR).answers.items():
                self.remote.setdefault(collection, {}).update(objects)
        raise AssertionError(f"it does not rest: {[each.about for each in done]}")

    def change(self, collection: Collection[Any], change: Callable[[Any], None]) -> None:
        """Edit all objects of a collection in the remote cluster."""
        for key, obj in self.remote[collection].items():
            body = msgspec.json.decode(msgspec.json.encode(obj.body))
            change(body)
            self.remote[collection][key] = Unstructured.of(body)


def installed(**fields: Any) -> World:
    """A world in which all was written."""
    world = World(**fields)
    world.settle()
    return world


def body_of(world: World, collection: Collection[Any], name: str = "skr-webhook", namespace: str = HERE) -> Any:
    return world.remote[collection][ObjectKey(namespace, name)].body


def names(writes: Sequence[Write]) -> list[str]:
    return [each.about.removeprefix("the ") for each in writes]


# ---- the order


def test_the_certificate_comes_first_and_its_secret_is_awaited() -> None:
    world = World(certificates=(), secrets=())
    first = world.part()
    assert names(first.writes) == ["Certificate istio-system/k-webhook-tls"]
    assert first.holds is False
    world.certificates = (a_certificate(CERT_MANAGER),)
    second = world.part()
    assert (second.writes, second.holds, second.error) == ((), False, "")
    assert second.waits[0].on == (CERTIFICATE_SECRETS, ObjectKey(ISTIO, "k-webhook-tls"))


def test_all_objects_are_written_in_one_step_and_then_none() -> None:
    world = World()
    part = world.part()
    assert names(part.writes) == INSTALLED
    assert {type(each) for each in part.writes} == {Apply}
    assert {cast("Apply[Any]", each).field_manager for each in part.writes} == {"lifecycle-manager"}
    assert {cast("Apply[Any]", each).cluster for each in part.writes} == {FAR}
    for write in part.writes:
        marks = cast("Any", write).body["metadata"]["labels"]
        assert marks == MARKS
    assert len(world.settle()) == len(INSTALLED)
    again = world.part()
    assert (again.writes, again.holds, again.error) == ((), False, "")
    assert again.waits[0].on == (DEPLOYMENTS, ObjectKey(HERE, "skr-webhook"))


@pytest.mark.parametrize(
    ("missing", "on"),
    [
        ({"gateway_secrets": ()}, (GATEWAY_SECRETS, ObjectKey(ISTIO, "klm-istio-gateway"))),
        (
            {"gateway_secrets": (a_secret(AuthoritySecret, "klm-istio-gateway", {"ca.crt": text(b"garbage")}),)},
            (GATEWAY_SECRETS, ObjectKey(ISTIO, "klm-istio-gateway")),
        ),
        ({"secrets": ()}, (CERTIFICATE_SECRETS, ObjectKey(ISTIO, "k-webhook-tls"))),
        (
            {"secrets": (a_secret(CertificateSecret, "k-webhook-tls", {"tls.crt": "AA=="}),)},
            (CERTIFICATE_SECRETS, ObjectKey(ISTIO, "k-webhook-tls")),
        ),
    ],
    ids=["no gateway", "no authority", "no certificate", "no key"],
)
def test_what_is_not_issued_yet_is_awaited_without_an_error(missing: Any, on: Any) -> None:
    part = World(**missing).part()
    assert (part.writes, part.holds, part.error) == ((), False, "")
    assert part.waits[0].on == on


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        ({"kyma": kyma(annotations={})}, "domain annotation is missing"),
        ({"gateways": ()}, "Gateway kcp-system/klm-watcher does not exist"),
        ({"gateways": (an_istio_gateway("klm-watcher"),)}, "has 1 servers with 0 hosts"),
        ({"gateways": (an_istio_gateway("klm-watcher", "a", "b"),)}, "has 1 servers with 2 hosts"),
        ({"gateways": (an_istio_gateway("klm-watcher", "*.example.com"),)}, "serves \\*.example.com:443, which is no"),
        ({"gateways": (an_istio_gateway("klm-watcher", "*/"),)}, "serves no host:443, which is no address"),
    ],
)
def test_what_only_a_user_can_correct_is_an_error_with_the_next_step(fields: Any, cause: str) -> None:
    part = World(**fields).part()
    assert (part.writes, part.holds) == ((), False)
    with pytest.raises(NotInstalled, match=cause):
        raise NotInstalled(part.error)
    assert "kubectl" in part.error or "--istio-gateway-name" in part.error


@pytest.mark.parametrize(
    "fields",
    [{"unknown": DEPLOYMENTS}, {"unknown": SERVICES}, {"why": "forbidden", "secrets": ()}, {"loads": PlainLoads()}],
    ids=lambda given: " ".join(given),
)
def test_what_is_not_known_is_no_reason_to_write_or_to_fail(fields: Any) -> None:
    """The modules of the Kyma do not wait for it."""
    part = World(**fields).part()
    assert (part.writes, part.holds, part.error) == ((), None, "")
    assert len(part.waits) == 1


# ---- the objects


def test_the_port_may_be_another_one_than_that_of_the_gateway() -> None:
    world = installed(settings=Settings(listener_port_overwrite="9443"))
    variables = {each["name"]: each.get("value") for each in container(world)["env"]}
    assert variables["KCP_ADDR"] == "listen.example.com:9443"
    policy = body_of(world, POLICY_COLLECTION, "kyma-project.io--watcher-to-apiserver")
    assert [each["port"] for each in policy["spec"]["egress"][0]["ports"]] == [443, 9443]


def container(world: World) -> Any:
    return body_of(world, DEPLOYMENTS)["spec"]["template"]["spec"]["containers"][0]


def test_the_deployment_is_that_of_the_original() -> None:
    world = installed(settings=Settings(skr_watcher_image_tag="1.2.3", godebug="fips140=only"))
    spec = body_of(world, DEPLOYMENTS)["spec"]
    pod = spec["template"]["spec"]
    assert spec["replicas"] == 1
    assert spec["selector"] == {"matchLabels": {"app": "skr-webhook"}}
    assert spec["template"]["metadata"]["labels"] == {
        "app": "skr-webhook",
        **MARKS,
        "sidecar.istio.io/inject": "false",
        "operator.kyma-project.io/pod-restart-trigger": "7",
    }
    server = container(world)
    assert server["image"] == "europe-docker.pkg.dev/kyma-project/prod/runtime-watcher:1.2.3"
    assert server["env"][0] == {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    assert {each["name"]: each["value"] for each in server["env"][1:]} == {
        "WEBHOOK_PORT": "8443",
        "METRICS_PORT": "2112",
        "TLS_KEY": "/app/etc/ssl/tls.key",
        "TLS_CERT": "/app/etc/ssl/tls.crt",
        "CA_CERT": "/app/etc/ssl/ca.crt",
        "TLS_CALLBACK": "true",
        "KCP_CONTRACT": "v2",
        "KCP_ADDR": "listen.example.com:443",
        "GODEBUG": "fips140=only",
    }
    assert server["resources"] == {
        "limits": {"memory": "200Mi", "cpu": "0.1"},
        "requests": {"memory": "20Mi", "cpu": "0.01"},
    }
    assert server["securityContext"]["readOnlyRootFilesystem"] is True
    assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["runAsGroup"]) == (10001, 30001)
    assert pod["priorityClassName"] == "skr-webhook-priority"
    assert pod["automountServiceAccountToken"] is False, "it asks its API server nothing"
    assert pod["volumes"] == [{"name": "ssl", "secret": {"secretName": "skr-webhook-tls"}}]
    assert "imagePullSecrets" not in pod
    assert body_of(world, PRIORITY_CLASSES, "skr-webhook-priority", "")["value"] == 1_000_000_000


@pytest.mark.parametrize(("namespace", "expected"), [("kyma-system", [{"name": "pull"}]), ("other", None)])
def test_images_are_pulled_with_the_copied_secret_where_it_is(namespace: str, expected: Any) -> None:
    settings = Settings(skr_image_pull_secret="pull", sync_namespace=namespace)
    names = [f"skr-webhook.{namespace}.svc.cluster.local", f"skr-webhook.{namespace}.svc"]
    certificate = a_certificate(CERT_MANAGER, spec={"dnsNames": ["c-1.kyma.example.com", *names]})
    world = installed(settings=settings, certificates=(certificate,))
    pod = body_of(world, DEPLOYMENTS, namespace=namespace)["spec"]["template"]["spec"]
    assert pod.get("imagePullSecrets") == expected


def test_services_and_policies_select_the_pods() -> None:
    world = installed()
    services = {name: body_of(world, SERVICES, name)["spec"] for name in ("skr-webhook", "skr-webhook-metrics")}
    assert {name: (each["ports"][0]["port"], each["ports"][0]["targetPort"]) for name, each in services.items()} == {
        "skr-webhook": (443, "watcher-port"),
        "skr-webhook-metrics": (2112, "metrics"),
    }
    policies = {key.name: each.body["spec"] for key, each in world.remote[POLICY_COLLECTION].items()}
    for spec in (*services.values(), *(each["podSelector"] for each in policies.values())):
        assert (spec.get("selector") or spec["matchLabels"]) == {"app": "skr-webhook"}
    directions = {name.removeprefix("kyma-project.io--"): each["policyTypes"] for name, each in policies.items()}
    assert directions == {
        "seed-to-watcher": ["Ingress"],
        "metrics-to-watcher": ["Ingress"],
        "watcher-to-apiserver": ["Egress"],
        "watcher-to-dns": ["Egress"],
    }
    (scrape,) = policies["kyma-project.io--metrics-to-watcher"]["ingress"]
    assert scrape["ports"] == [{"protocol": "TCP", "port": 2112}]
    assert scrape["from"][0]["podSelector"]["matchLabels"] == {"networking.kyma-project.io/metrics-scraping": "allowed"}


def test_the_secret_has_the_certificate_of_the_kyma_and_the_authorities_of_the_gateway() -> None:
    bundle = NEWER.certificate + AUTHORITY.certificate
    world = World(gateway_secrets=(a_gateway(AUTHORITY, bundle),))
    applied = cast("Apply[Any]", world.part().writes[0])
    assert applied.body["data"] == {
        "tls.crt": text(LEAF.certificate),
        "tls.key": text(LEAF.key),
        "ca.crt": text(bundle),
    }
    assert "type" not in applied.body, "the type of a Secret that is there cannot be changed"


# ---- Watchers


def configuration(world: World) -> list[Any]:
    return cast("list[Any]", body_of(world, CONFIGURATIONS, namespace="")["webhooks"])


@pytest.mark.req("KYMA-55")
def test_each_watcher_has_a_webhook() -> None:
    other = a_watcher(
        "nodes",
        spec={
            "manager": "",
            "resourceToWatch": {"group": "", "version": "v1", "resource": "nodes"},
            "field": "status",
            "labelsToWatch": {},
        },
        labels={"operator.kyma-project.io/managed-by": "other-manager"},
    )
    first, second = configuration(installed(watchers=(other, a_watcher())))
    assert first == {
        "name": "kcp-system.kyma.operator.kyma-project.io",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {
            "caBundle": text(AUTHORITY.certificate),
            "service": {
                "name": "skr-webhook",
                "namespace": HERE,
                "path": "/validate/lifecycle-manager",
                "port": 443,
            },
        },
        "objectSelector": {"matchLabels": {"operator.kyma-project.io/watched-by": "kyma"}},
        "rules": [
            {
                "apiGroups": ["operator.kyma-project.io"],
                "apiVersions": ["*"],
                "resources": ["kymas"],
                "operations": ["CREATE", "UPDATE", "DELETE"],
            }
        ],
        "failurePolicy": "Ignore",
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": 15,
    }
    assert second["name"] == "kcp-system.nodes.operator.kyma-project.io"
    assert second["rules"][0]["resources"] == ["nodes/status"]
    assert second["clientConfig"]["service"]["path"] == "/validate/other-manager"
    assert second["objectSelector"] == {"matchLabels": {}}


@pytest.mark.parametrize(
    "watchers",
    [
        (),
        (a_watcher(deletionTimestamp=DELETED),),
        (a_watcher(spec={"manager": "../escape"}),),
        (a_watcher(spec={"resourceToWatch": {"group": "", "version": "", "resource": "kymas"}}),),
        (a_watcher(spec={"labelsToWatch": {"not a label": "x"}}),),
        (a_watcher(namespace="another"),),
    ],
    ids=["none", "being deleted", "path", "no version", "labels", "another namespace"],
)
def test_a_watcher_that_can_have_no_webhook_keeps_none_of_the_others_from_theirs(watchers: Any) -> None:
    healthy = a_watcher("healthy")
    assert len(configuration(installed(watchers=(*watchers, healthy)))) == 1
    world = installed(watchers=watchers)
    assert configuration(world) == []
    assert world.part().writes == ()


def test_the_webhook_of_a_watcher_that_is_gone_is_removed_and_that_of_a_user_stays() -> None:
    world = installed(watchers=(a_watcher(), a_watcher("second")))

    def add(body: Any) -> None:
        body["webhooks"].insert(0, {"name": "mine.example.com", "failurePolicy": "Fail"})

    world.change(CONFIGURATIONS, add)
    assert world.settle() == [], "what a user adds is no reason to write"
    world.watchers = (a_watcher(),)
    (write,) = world.settle()
    assert isinstance(write, Patch)
    assert [each["name"] for each in configuration(world)] == [
        "kcp-system.kyma.operator.kyma-project.io",
        "mine.example.com",
    ]


def test_webhooks_in_another_order_are_no_reason_to_write() -> None:
    world = installed(watchers=(a_watcher(), a_watcher("second")))
    world.change(CONFIGURATIONS, lambda body: body["webhooks"].reverse())
    assert world.settle() == []


# ---- drift


def _set(path: str, value: Any) -> Callable[[Any], None]:
    def change(body: Any) -> None:
        *steps, last = path.split(".")
        for step in steps:
            body = body[int(step)] if step.isdecimal() else body[step]
        body[last] = value

    return change


@pytest.mark.parametrize(
    ("collection", "path", "value"),
    [
        (PRIORITY_CLASSES, "value", 1),
        (SERVICES, "spec.selector", {"app": "other"}),
        (SERVICES, "spec.ports.0.targetPort", 1),
        (POLICY_COLLECTION, "spec.podSelector", {}),
        (POLICY_COLLECTION, "metadata.labels", {}),
        (DEPLOYMENTS, "spec.replicas", 0),
        (DEPLOYMENTS, "spec.template.spec.containers.0.image", "other"),
        (DEPLOYMENTS, "spec.template.spec.containers.0.env.8.value", "other.example.com:443"),
        (DEPLOYMENTS, "spec.template.metadata.labels", {"app": "skr-webhook"}),
        (CONFIGURATIONS, "webhooks.0.failurePolicy", "Fail"),
        (CONFIGURATIONS, "webhooks.0.clientConfig.caBundle", text(NEWER.certificate)),
        (CONFIGURATIONS, "webhooks", []),
    ],
    ids=lambda given: given if isinstance(given, str) and len(given) < 80 else "",  # the same in each process
)
def test_what_a_user_breaks_is_restored_and_nothing_else_is_written(
    collection: Collection[Any], path: str, value: Any
) -> None:
    world = installed()
    before = {key: each.body for key, each in world.remote[collection].items()}
    world.change(collection, _set(path, value))
    written = world.settle()
    assert {cast("Apply[Any]", each).collection for each in written} == {collection}
    assert {key: each.body for key, each in world.remote[collection].items()} == before


@pytest.mark.parametrize("name", INSTALLED)
def test_what_a_user_deletes_is_made_again(name: str) -> None:
    world = installed()
    for objects in world.remote.values():
        for key in [*objects]:
            if name.split(" ")[1] == str(key).removeprefix("/") and objects[key].ref.gvk.kind == name.split(" ")[0]:
                del objects[key]
    assert names(world.settle()) == [name]


def test_what_the_api_server_and_users_add_is_no_reason_to_write() -> None:
    world = installed()

    def more(body: Any) -> None:
        spec = body["spec"]
        spec["revisionHistoryLimit"] = 10
        template = spec["template"]["spec"]
        template["containers"][0]["env"].append({"name": "MORE", "value": "x"})
        template["containers"][0]["resources"]["limits"]["cpu"] = "100m"
        template["dnsPolicy"] = "ClusterFirst"

    world.change(DEPLOYMENTS, more)
    assert world.settle() == []


def edited(world: World, **data: str) -> None:
    copied = a_secret(CertificateSecret, "skr-webhook-tls", {**content(LEAF, AUTHORITY.certificate), **data})
    meta = msgspec.structs.replace(copied.metadata, namespace=HERE, labels=MARKS)
    world.remote[SECRETS] = {ObjectKey(HERE, "skr-webhook-tls"): msgspec.structs.replace(copied, metadata=meta)}


@pytest.mark.parametrize("key", ["tls.crt", "tls.key", "ca.crt"])
def test_an_edited_secret_is_restored(key: str) -> None:
    world = installed()
    edited(world)
    assert world.settle() == [], "the form that a cache has"
    edited(world, **{key: "AA=="})
    assert names(world.settle()) == INSTALLED[:1]


def test_a_private_key_is_read_only_if_it_must_be_written() -> None:
    world = installed()
    world.loads = PlainLoads()
    view = world.view()
    assert webhook.next_part(world.kyma, view, view.on(FAR), world.settings, refused).writes == ()
    assert view.confidential == {}


@pytest.mark.req("KYMA-57")
def test_another_certificate_is_copied_and_restarts_the_pods() -> None:
    world = installed()
    world.secrets = (a_certificate_secret(a_leaf(NEWER), resourceVersion="8"),)
    content_of_8 = a_secret(Secret, "k-webhook-tls", content(LEAF), resourceVersion="8")
    world.loads = PlainLoads({SecretData(content_of_8.key, "8"): content_of_8})
    part = world.part()
    assert names(part.writes) == [INSTALLED[0], INSTALLED[8]]
    marks = cast("Any", part.writes[1]).body["spec"]["template"]["metadata"]["labels"]
    assert marks["operator.kyma-project.io/pod-restart-trigger"] == "8"


def test_another_authority_of_the_gateway_is_trusted_on_both_ways() -> None:
    world = installed()
    world.gateway_secrets = (a_gateway(AUTHORITY, NEWER.certificate, AUTHORITY.certificate),)
    assert names(world.settle()) == [INSTALLED[0], INSTALLED[9]]


def test_a_deployment_of_the_original_keeps_its_selector() -> None:
    taken_over = Unstructured.of(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": cast("JsonObject", metadata("skr-webhook", HERE)),
            "spec": {"selector": {"matchLabels": {"component": "watcher"}}},
        }
    )
    world = installed(remote={DEPLOYMENTS: {taken_over.key: taken_over}})
    spec = body_of(world, DEPLOYMENTS)["spec"]
    assert spec["selector"] == {"matchLabels": {"component": "watcher"}}
    marks = spec["template"]["metadata"]["labels"]
    assert (marks["component"], marks["app"]) == ("watcher", "skr-webhook")


def test_an_object_that_is_being_deleted_is_awaited() -> None:
    world = installed()
    world.change(SERVICES, _set("metadata.deletionTimestamp", DELETED))
    part = world.part()
    assert part.writes == ()
    assert part.waits[0].on == (SERVICES, ObjectKey(HERE, "skr-webhook"))
    assert part.waits[0].cluster == FAR


# ---- readiness


def a_pod(*waiting: str, namespace: str = HERE, init: bool = False) -> Pod:
    states = [{"name": f"c{number}", "state": {"waiting": {"reason": each}}} for number, each in enumerate(waiting)]
    status = {"initContainerStatuses" if init else "containerStatuses": states}
    return msgspec.convert({"metadata": metadata("p", namespace), "status": status}, Pod)


@pytest.mark.parametrize(
    ("ready", "pods", "holds", "error"),
    [
        (1, [], True, ""),
        (1, [a_pod("CrashLoopBackOff")], True, ""),
        (0, [], False, ""),
        (None, [], False, ""),
        (0, [a_pod("ContainerCreating")], False, ""),
        (0, [a_pod("CrashLoopBackOff")], False, "container c0 of pod kyma-system/p of the watcher waits: CrashLoop"),
        (0, [a_pod("ContainerCreating", "ImagePullBackOff")], False, "container c1 of pod"),
        (0, [a_pod("ErrImagePull", init=True)], False, "kubectl describe pod p -n kyma-system"),
        (0, [a_pod("CrashLoopBackOff", namespace="another")], False, ""),
    ],
)
def test_the_condition_holds_with_a_ready_pod(ready: int | None, pods: list[Pod], holds: bool, error: str) -> None:
    world = installed()
    world.change(DEPLOYMENTS, _set("status", {} if ready is None else {"readyReplicas": ready}))
    world.remote[PODS] = {each.key: each for each in pods}
    part = world.part()
    assert (part.writes, part.holds) == ((), holds)
    assert error in part.error
    assert bool(part.error) is bool(error)
    assert bool(part.waits) is not holds


# ---- the end


def test_all_objects_are_removed_and_the_api_server_stops_calling_first() -> None:
    world = installed()
    view = world.view()
    left = webhook.removal(view.on(FAR), world.settings, refused)
    writes = left.writes
    assert left.waits == ()
    assert sorted(names(writes)) == sorted(INSTALLED)
    assert names(writes)[:2] == ["ValidatingWebhookConfiguration skr-webhook", "Deployment kyma-system/skr-webhook"]
    assert {type(each) for each in writes} == {Delete}
    assert {cast("Delete[Any]", each).cluster for each in writes} == {FAR}
    world.change(DEPLOYMENTS, _set("metadata.deletionTimestamp", DELETED))
    world.remote = {DEPLOYMENTS: world.remote[DEPLOYMENTS]}
    left = webhook.removal(world.view().on(FAR), world.settings, refused)
    (wait,) = left.waits
    assert (left.writes, wait.on, wait.cluster) == ((), (DEPLOYMENTS, ObjectKey(HERE, "skr-webhook")), FAR)
    assert not webhook.removal(World().view().on(FAR), world.settings, refused).is_due


def test_a_cluster_that_cannot_be_read_is_not_taken_for_an_empty_one() -> None:
    with pytest.raises(NotKnown):
        webhook.removal(World(unknown=SECRETS).view().on(FAR), Settings(), refused)
