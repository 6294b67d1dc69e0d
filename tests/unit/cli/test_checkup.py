"""What `stellwerk check` concludes."""

from __future__ import annotations

import base64
import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stellwerk import assembly
from stellwerk.cli.look import check
from stellwerk.cli.objects import check_rules, installations
from stellwerk.cli.objects.check_rules import OperatorDeployment
from stellwerk.cli.shell.text import Style
from stellwerk.delivery.grants import OperatorAccount, cluster_role, grant, rule
from stellwerk.kube.types.model import JsonObject, JsonValue, Unstructured, dig
from stellwerk.operators.btp.api import DEFINITION
from stellwerk.operators.cap.webhooks.installation import INSTALLATION
from stellwerk.runtime.certificates import certs

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
INSTALL = "stellwerk install btp"


def test_a_kind_that_is_not_there_is_bad_and_says_what_to_type() -> None:
    found = check_rules.of_definition(DEFINITION.body(), None, INSTALL)
    assert (found.verdict, found.subject, found.fix) == ("bad", "kind BtpOperator", INSTALL)


def test_a_definition_of_the_same_fields_is_good_and_one_that_lacks_some_is_named_with_them() -> None:
    wanted = DEFINITION.body()
    assert check_rules.of_definition(wanted, copy.deepcopy(wanted), INSTALL).verdict == "good"
    older: Any = copy.deepcopy(wanted)
    schema = older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["status"]["properties"]["lastHandledReconcileAt"]
    found = check_rules.of_definition(wanted, older, INSTALL)
    assert found.verdict == "warning"
    assert found.detail.endswith("lacks status.lastHandledReconcileAt")


def lease(namespace: str, seconds_ago: int, holder: str = "one") -> Unstructured:
    renewed = (NOW - timedelta(seconds=seconds_ago)).isoformat().replace("+00:00", "Z")
    spec: JsonObject = {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15}
    return Unstructured.of({"metadata": {"name": "l", "namespace": namespace}, "spec": spec})


@pytest.mark.parametrize(
    ("leases", "verdict", "words"),
    [
        ([], "unsure", "no process holds the Lease"),
        ([lease("a", 1, holder="")], "unsure", "no process holds the Lease"),
        ([lease("a", 5)], "good", "one, renewed 5s ago"),
        ([lease("a", 120)], "warning", "one has not renewed the Lease a/l for 2m"),
        ([lease("a", 1), lease("b", 1)], "warning", "a, b"),
    ],
)
def test_a_leader_is_one_that_renews(leases: list[Unstructured], verdict: str, words: str) -> None:
    found = check_rules.of_leases(leases, NOW)
    assert found.verdict == verdict
    assert words in found.detail
    assert (found.fix == "") == (verdict == "good")


def test_kinds_of_other_projects_that_a_cluster_lacks_are_named_with_what_does_not_work_without_them() -> None:
    grants = [
        grant("own.example.com", "sites", "get", "no site is seen"),
        grant("", "pods", "get", "no pod is seen"),
        grant("rbac.authorization.k8s.io", "roles", "get", "no role is seen"),
        grant("istio.example.com", "gateways", "get", "no host is served"),
        grant("istio.example.com", "services", "get", "nothing is reached"),
        grant("istio.example.com", "routes", "get", "nothing is reached"),
        grant("dns.example.com", "entries", "get", "no name is known"),
    ]
    found = check_rules.of_other_projects(grants, {"own.example.com"}, {"dns.example.com"})
    assert [(each.subject, each.verdict, each.detail) for each in found] == [
        ("kinds of dns.example.com", "good", ""),
        ("kinds of istio.example.com", "unsure", "not served: no host is served; nothing is reached"),
    ]


WANTED = OperatorAccount("me", "home")
ROLE = cluster_role("reader", [rule("", "pods pods/log", "get list"), rule("apps", "deployments", "patch")])


def test_a_role_that_lacks_rights_is_named_with_them_and_one_with_more_is_good() -> None:
    assert check_rules.lack_of(ROLE, cluster_role("reader", [rule("apps", "deployments", "patch get")])) == (
        "ClusterRole reader lacks get pods, list pods, get pods/log and 1 more"
    )
    assert check_rules.lack_of(ROLE, cluster_role("reader", [])).endswith("and 2 more")
    assert not check_rules.lack_of(ROLE, cluster_role("reader", [rule("*", "*", "*")]))
    assert not check_rules.lack_of(cluster_role("collects", []), ROLE)


def test_a_binding_has_to_refer_to_the_role_and_to_have_the_account() -> None:
    wanted = WANTED.is_given_everywhere("reader", binding="mine")
    assert not check_rules.lack_of(wanted, copy.deepcopy(wanted))
    elsewhere = OperatorAccount("me", "elsewhere").is_given_everywhere("reader", binding="mine")
    assert check_rules.lack_of(wanted, elsewhere) == "ClusterRoleBinding mine lacks ServiceAccount home/me"
    another = WANTED.is_given_everywhere("writer", binding="mine")
    assert check_rules.lack_of(wanted, another) == "ClusterRoleBinding mine does not refer to reader"
    assert not check_rules.lack_of(wanted, another, has_equal_role=True)
    assert check_rules.lack_of(wanted, {**elsewhere, "roleRef": another["roleRef"]}, has_equal_role=True)


@pytest.mark.parametrize(
    ("kind", "name", "is_bound"),
    [
        ("User", "system:serviceaccount:home:me", True),
        ("User", "system:serviceaccount:home:other", False),
        ("User", "me", False),
        ("Group", "system:serviceaccounts:home", True),
        ("Group", "system:serviceaccounts:other", False),
        ("Group", "system:serviceaccounts", True),
        ("Group", "system:authenticated", True),
        ("Group", "system:masters", False),
    ],
)
def test_an_account_is_bound_by_its_user_name_and_by_its_groups_too(kind: str, name: str, is_bound: bool) -> None:
    wanted = WANTED.is_given_everywhere("reader", binding="mine")
    live: JsonObject = {**wanted, "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}]}
    assert (not check_rules.lack_of(wanted, live)) is is_bound


def test_another_role_serves_a_binding_where_it_grants_as_much() -> None:
    wanted = WANTED.is_given_everywhere("reader", binding="mine")
    assert check_rules.other_role(wanted, copy.deepcopy(wanted)) is None
    another = check_rules.other_role(wanted, WANTED.is_given_everywhere("admin", binding="mine"))
    assert another is not None
    assert str(Unstructured.of(another).ref) == "ClusterRole admin"
    at_home = WANTED.is_given_at_home("reader", binding="mine")
    role = check_rules.other_role(at_home, WANTED.is_given_at_home("mine", binding="mine"))
    assert role is not None
    assert str(Unstructured.of(role).ref) == "Role home/mine"
    assert check_rules.grants_all(ROLE, cluster_role("admin", [rule("*", "*", "*")]))
    assert not check_rules.grants_all(ROLE, cluster_role("writer", [rule("apps", "*", "*")]))
    assert not check_rules.grants_all(cluster_role("collects", []), ROLE), "what it collects is not known"


def test_rights_that_are_not_granted_are_a_warning_with_the_command_that_grants_them() -> None:
    found = check_rules.of_rights(["Role a"], ["ClusterRole b lacks get pods"], 2, INSTALL)
    assert (found.verdict, found.fix) == ("warning", INSTALL)
    assert found.detail == "not there: Role a; ClusterRole b lacks get pods"


def certificate(days: float) -> str:
    """A certificate that was made a year ago and ends in so many days, PEM in base64."""
    wish = certs.Wish(
        common_name="it", names=["it"], lifetime=timedelta(days=365 + days), now=NOW - timedelta(days=365)
    )
    return base64.b64encode(certs.new_authority(wish).certificate).decode()


def configuration(*bundles: str) -> Unstructured:
    webhooks: JsonValue = [{"name": "w", "clientConfig": {"caBundle": bundle} if bundle else {}} for bundle in bundles]
    kind = "ValidatingWebhookConfiguration"
    return Unstructured.of({"apiVersion": "v1", "kind": kind, "metadata": {"name": "c"}, "webhooks": webhooks})


VALID, ENDING, EXPIRED = (certificate(days) for days in (300, 2, -5))
BOTH = base64.b64encode(base64.b64decode(EXPIRED) + base64.b64decode(VALID)).decode()


@pytest.mark.parametrize(
    ("bundles", "served", "verdict", "words"),
    [
        ([VALID, VALID], VALID, "good", "ValidatingWebhookConfiguration c"),
        ([BOTH], "", "good", "ValidatingWebhookConfiguration c"),
        ([VALID, ""], "", "warning", "has no caBundle"),
        ([VALID, EXPIRED], "", "warning", "the authority in its caBundle expired 5d ago"),
        ([ENDING], "", "warning", "the authority in its caBundle expires in 2d"),
        ([VALID], EXPIRED, "warning", "the certificate that the webhook server presents expired 5d ago"),
        ([VALID], ENDING, "warning", "the certificate that the webhook server presents expires in 2d"),
        ([VALID], BOTH, "warning", "the certificate that the webhook server presents expired 5d ago"),
        (["bm9uZQ=="], "", "warning", "cannot be read"),
        (["?"], "", "warning", "cannot be read"),
    ],
)
def test_webhooks_are_good_while_api_servers_can_trust_them(
    bundles: list[str], served: str, verdict: str, words: str
) -> None:
    found = check_rules.of_webhooks(configuration(*bundles), served, NOW, "a fix")
    assert (found.verdict, found.fix) == (verdict, "" if verdict == "good" else "a fix")
    assert words in found.detail


MOUNTED = ["--tls-enabled=true", "--tls-cert=/certs/tls.crt", "--tls-key=/certs/tls.key"]
RENAMED: JsonObject = {"secretName": "issued", "items": [{"key": "chain", "path": "tls.crt"}]}


@pytest.mark.parametrize(
    ("arguments", "variables", "volume", "expected"),
    [
        ([], {}, {}, ("own-tls", "tls.crt")),
        (MOUNTED, {}, {"secret": {"secretName": "issued"}}, ("issued", "tls.crt")),
        (
            [],
            {"TLS_ENABLED": "true", "TLS_CERT": "/certs/tls.crt"},
            {"secret": {"secretName": "issued"}},
            ("issued", "tls.crt"),
        ),
        ([], {"TLS_CERT": "/certs/tls.crt"}, {"secret": {"secretName": "issued"}}, ("own-tls", "tls.crt")),
        (MOUNTED, {}, {"secret": RENAMED}, ("issued", "chain")),
        (MOUNTED, {}, {"hostPath": {"path": "/etc"}}, ("", "")),
    ],
)
def test_the_certificate_of_a_webhook_server_is_the_one_that_its_pods_read(
    arguments: list[str], variables: dict[str, str], volume: JsonObject, expected: tuple[str, str]
) -> None:
    container: JsonObject = {
        "name": "it",
        "command": ["stellwerk", "run", "cap-webhooks", *arguments],
        "env": [{"name": name, "value": value} for name, value in variables.items()],
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}, {"name": "files", "mountPath": "/certs/"}],
    }
    pod: JsonObject = {"containers": [container], "volumes": [{"name": "tmp"}, {"name": "files", **volume}]}
    body = Unstructured.of({"metadata": {"name": "w", "namespace": "n"}, "spec": {"template": {"spec": pod}}})
    webhooks = INSTALLATION.webhooks
    assert webhooks is not None
    found = check_rules.served_certificate(OperatorDeployment(body), "cap-webhooks", webhooks, "own-tls")
    assert found == expected


def test_a_fix_stands_below_what_needs_it() -> None:
    found = [
        check_rules.of_rights([], [], 7, INSTALL),
        check_rules.of_objects("Component", ["a", "b", "c", "d"], 9),
    ]
    assert check_rules.shown(found, Style(symbols=False)) == [
        "+ rights             7 objects",
        "x Component objects  4 of 9 not ready: a, b, c and 1 more",
        "                     Fix: stellwerk why -A",
    ]


def test_what_could_not_be_looked_at_is_no_good_news() -> None:
    assert check_rules.of_unread([]) == []
    (found,) = check_rules.of_unread(["secrets in a"])
    assert (found.verdict, found.detail) == ("warning", "you may not read secrets in a")


def deployment(
    name: str, command: list[str], *, replicas: int = 2, available: int = 2, **metadata: Any
) -> Unstructured:
    pod: JsonObject = {"serviceAccountName": "account", "containers": [{"command": [*command]}]}
    return Unstructured.of(
        {
            "metadata": {"name": name, "namespace": "n", **metadata},
            "spec": {"replicas": replicas, "template": {"spec": pod}},
            "status": {"availableReplicas": available},
        }
    )


OURS = ["stellwerk", "run", "btp"]


@pytest.mark.parametrize(
    ("body", "origin", "is_original"),
    [
        (deployment("any", OURS), "", False),
        (deployment("any", ["/usr/local/bin/stellwerk", "run", "btp"]), "", False),
        (deployment("any", OURS, annotations={"meta.helm.sh/release-name": "r"}), "Helm release r", False),
        (deployment("any", OURS, labels={"app.kubernetes.io/managed-by": "stellwerk"}), "stellwerk install", False),
        (deployment("manager", ["/manager"]), "the original, ", True),
        (
            deployment("r-manager", [], annotations={"meta.helm.sh/release-name": "r"}),
            "the original, Helm release r",
            True,
        ),
    ],
)
def test_an_installation_is_recognized_by_its_deployment(body: Unstructured, origin: str, is_original: bool) -> None:
    others = [
        deployment("other", ["stellwerk", "run", "cap"]),
        deployment("my-manager", ["stellwerk", "run", "cap"]),
        deployment("mymanager", ["/manager"]),
    ]
    (found,) = check_rules.deployments_of("btp", "manager", [*others, body])
    assert (found.body.key, found.origin, found.is_original) == (body.key, origin, is_original)
    assert found.account == "account"


@pytest.mark.parametrize(
    ("others", "judged"),
    [
        ([], {"account", "cap-operator-subscription-server"}),
        ([deployment("cap-operator-subscription-server", ["/server"])], {"account"}),
    ],
)
def test_a_server_of_the_original_needs_none_of_our_roles(others: list[Unstructured], judged: set[str]) -> None:
    cap = assembly.OPERATORS["cap"]
    installed = installations.by_process(cap, [deployment("ours", ["stellwerk", "run", "cap"]), *others])
    found = {
        dig(body, "metadata", "name") for body in check.accounts(cap, installed) if body["kind"] == "ServiceAccount"
    }
    assert found == judged


@pytest.mark.req("R-961")
def test_objects_in_namespaces_that_are_not_watched_are_a_warning() -> None:
    namespaces = ["shop", "books", "other", "other", ""]
    (found,) = check_rules.of_unwatched("Domain", namespaces, ("books", "shop"))
    assert found.verdict == "warning"
    assert found.detail == "2 in namespaces that are not watched: other (watched: books, shop)"
    assert "watchNamespaces" in found.fix
    assert check_rules.of_unwatched("Domain", namespaces, ()) == []
    assert check_rules.of_unwatched("ClusterDomain", [""], ("shop",)) == []


@pytest.mark.req("R-961")
def test_a_process_that_is_limited_to_namespaces_needs_roles_there_and_no_cluster_wide_right_to_secrets() -> None:
    cap = assembly.OPERATORS["cap"]
    words = ["stellwerk", "run", "cap", "--watch-namespaces=books,shop", "--ingress-namespaces=gateways"]
    found = check.accounts(cap, installations.by_process(cap, [deployment("ours", words)]))
    own = [body for body in found if dig(body, "metadata", "name") in ("account", "account-watched", "account-ingress")]
    assert [dig(body, "metadata", "namespace") for body in own if body["kind"] == "RoleBinding"][1:] == [
        *("books", "shop", "gateways"),
    ]
    wide = next(body for body in own if body["kind"] == "ClusterRole")
    assert "secrets" not in str(wide["rules"])


def test_rights_are_looked_for_in_the_namespaces_that_a_process_is_told() -> None:
    kyma = assembly.OPERATORS["kyma"]
    words = ["stellwerk", "run", "kyma", "--istio-namespace=mesh", "--istio-gateway-namespace=gateways"]
    found = check.accounts(kyma, installations.by_process(kyma, [deployment("ours", words)]))
    places = {dig(body, "metadata", "namespace") for body in found if body["kind"] in ("Role", "RoleBinding")}
    assert places == {"kcp-system", "gateways", "mesh"}


def test_roles_are_named_like_the_deployment_of_the_chart_and_otherwise_like_its_account() -> None:
    bodies = [deployment("any", OURS), deployment("any", OURS, labels={"app.kubernetes.io/part-of": "stellwerk"})]
    found = [each.name_of_roles for each in check_rules.deployments_of("btp", "", bodies)]
    assert found == ["account", "any"]


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ({"app.kubernetes.io/part-of": "stellwerk"}, "helm upgrade r deploy/chart/stellwerk -n n"),
        ({}, "take over the Helm release r of the original: docs/upgrade.md"),
    ],
)
def test_a_release_is_upgraded_by_the_chart_that_made_it(labels: dict[str, str], words: str) -> None:
    body = deployment("any", OURS, labels=labels, annotations={"meta.helm.sh/release-name": "r"})
    (found,) = check_rules.deployments_of("btp", "", [body])
    assert found.upgrade("btp").startswith(words)


@pytest.mark.parametrize(
    ("replicas", "available", "verdict"), [(2, 2, "good"), (2, 1, "warning"), (2, 0, "bad"), (0, 0, "unsure")]
)
def test_an_installation_is_as_good_as_its_pods(replicas: int, available: int, verdict: str) -> None:
    body = deployment("it", OURS, replicas=replicas, available=available)
    (found,) = check_rules.of_deployments(check_rules.deployments_of("btp", "", [body]), {})
    assert found.verdict == verdict
    assert f"{available} of {replicas} replicas available" in found.detail
    look = "kubectl get pods -n n && kubectl logs deployment/it -n n --all-containers"
    assert (found.fix == look) == (verdict in ("warning", "bad"))


def test_an_installation_that_is_not_available_has_the_cause_that_its_pods_show() -> None:
    body = deployment("it", OURS, replicas=1, available=0)
    causes = {body.key: "Pod it-1 is not ready"}
    (found,) = check_rules.of_deployments(check_rules.deployments_of("btp", "", [body]), causes)
    assert found.detail == "Deployment n/it: 0 of 1 replicas available; Pod it-1 is not ready"


def test_an_original_that_runs_beside_ours_is_to_be_stopped() -> None:
    original, ours = deployment("manager", ["/manager"]), deployment("it", OURS)
    fixes = [
        each.fix
        for each in check_rules.of_deployments(check_rules.deployments_of("btp", "manager", [original, ours]), {})
    ]
    assert fixes[-1] == "kubectl scale deployment manager -n n --replicas=0"
    stopped = deployment("manager", ["/manager"], replicas=0, available=0)
    verdicts = [
        each.verdict
        for each in check_rules.of_deployments(check_rules.deployments_of("btp", "manager", [stopped, ours]), {})
    ]
    assert verdicts == ["good", "unsure"]
