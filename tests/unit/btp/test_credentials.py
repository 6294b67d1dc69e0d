"""What the required Secret lacks is named, never shown; and what the operand runs with follows it."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.api.core import Pod, PodStatus
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.object_meta import Condition, ObjectMeta
from stellwerk.operators.btp.credentials import credentials
from stellwerk.operators.btp.credentials.credentials import (
    BtpCredentials,
    CredentialsComparison,
    Drift,
    SecretProblem,
)
from stellwerk.operators.btp.reasons import Reason

COMPLETE = {
    "clientid": "client-one",
    "clientsecret": "canary-4711",
    "sm_url": "https://sm.example.com",
    "tokenurl": "https://token.example.com",
    "cluster_id": "cluster-one",
}
PREVIOUS_NAMESPACE = "operator.kyma-project.io/previous-credentials-namespace"
PREVIOUS_ID = "operator.kyma-project.io/previous-cluster-id"


def encoded(values: dict[str, str]) -> dict[str, str]:
    return {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}


def read(values: dict[str, str], annotations: dict[str, str] | None = None) -> BtpCredentials | SecretProblem:
    return credentials.read(encoded(values), annotations or {}, default_namespace="kyma-system")


def good(annotations: dict[str, str] | None = None, **values: str) -> BtpCredentials:
    found = read({**COMPLETE, **values}, annotations)
    assert isinstance(found, BtpCredentials)
    return found


def problem(values: dict[str, str]) -> str:
    found = read(values)
    assert isinstance(found, SecretProblem)
    assert found.reason is Reason.InvalidSecret
    return found.message


def test_a_complete_secret_gives_credentials_for_the_operand() -> None:
    found = good(extra="kept", credentials_namespace="")

    assert (found.namespace, found.cluster_id) == ("kyma-system", "cluster-one")
    assert set(found.operand_data) == {"clientid", "clientsecret", "sm_url", "tokenurl", "extra"}
    assert found.operand_data["extra"] == encoded({"x": "kept"})["x"]


def test_the_secret_may_name_another_namespace() -> None:
    assert good(credentials_namespace="elsewhere").namespace == "elsewhere"


@pytest.mark.req("R-506")
@pytest.mark.parametrize("namespace", ["kube-system", "kube-public", "kube-node-lease"])
def test_credentials_are_not_put_where_the_clusters_own_parts_lie(namespace: str) -> None:
    assert problem({**COMPLETE, "credentials_namespace": namespace}) == (
        "value of credentials_namespace names a namespace of the cluster's own"
    )
    allowed = credentials.read(
        encoded({**COMPLETE, "credentials_namespace": namespace}), {}, default_namespace=namespace
    )
    assert isinstance(allowed, BtpCredentials), "the operator itself was told to work there"


@pytest.mark.req("R-408")
@pytest.mark.parametrize("namespace", ["..", "a/b", "Upper", "kyma-system\n", "x" * 64])
def test_what_cannot_be_the_name_of_a_namespace_is_refused_and_not_repeated(namespace: str) -> None:
    found = problem({**COMPLETE, "credentials_namespace": namespace})

    assert found == "value of credentials_namespace cannot be the name of a namespace"


def test_missing_keys_are_named_in_the_published_order() -> None:
    values = {key: value for key, value in COMPLETE.items() if key not in ("cluster_id", "clientsecret")}

    assert problem(values) == "key(s) clientsecret, cluster_id not found"
    assert problem({}) == "key(s) clientid, clientsecret, sm_url, tokenurl, cluster_id not found"


def test_empty_values_are_named_in_the_published_order() -> None:
    values = {**COMPLETE, "cluster_id": "", "clientsecret": ""}

    assert problem(values) == "missing value(s) for clientsecret, cluster_id key(s)"


def test_missing_keys_and_empty_values_are_named_together() -> None:
    values = {**COMPLETE, "tokenurl": ""}
    del values["clientid"]

    assert problem(values) == "key(s) clientid not found, missing value(s) for tokenurl key(s)"


def test_a_cluster_id_that_is_no_text_is_refused() -> None:
    data = {**encoded(COMPLETE), "cluster_id": base64.b64encode(b"\xff\xfe").decode()}

    assert credentials.read(data, {}, default_namespace="x") == SecretProblem(
        Reason.InvalidSecret, "value(s) of cluster_id key(s) not readable as text"
    )


def test_the_missing_secret_is_named_as_it_is_called_now() -> None:
    assert credentials.missing(ObjectKey("ns", "other")) == SecretProblem(
        Reason.MissingSecret, "other Secret in ns namespace not found"
    )


def test_no_text_form_shows_a_value() -> None:
    secret = encoded(COMPLETE)["clientsecret"]
    found = good()

    for text in (
        repr(found),
        str(found),
        repr(CredentialsComparison(wanted=found, namespace="x", config_cluster_id=None, initial_cluster_id=None)),
    ):
        assert "canary-4711" not in text
        assert secret not in text


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"app.kubernetes.io/managed-by": "kcp-kyma-environment-broker"}, True),
        ({"app.kubernetes.io/managed-by": "btp-manager"}, True),
        ({"app.kubernetes.io/managed-by": "helm"}, False),
        ({}, False),
    ],
)
def test_only_a_labelled_secret_is_for_us(labels: dict[str, str], expected: bool) -> None:
    assert credentials.is_for_us(labels) is expected


# ---- drift


def compared(
    *, namespace: str = "kyma-system", config: str | None = "cluster-one", initial: str | None = "cluster-one",
    annotations: dict[str, str] | None = None, **values: str,
) -> CredentialsComparison:  # fmt: skip
    return CredentialsComparison(
        wanted=good(annotations, **values), namespace=namespace, config_cluster_id=config, initial_cluster_id=initial
    )


def test_an_operand_that_agrees_has_no_drift_and_nothing_to_do() -> None:
    for calm in (compared(), compared(initial=None), compared(initial=""), compared(config=None, initial=None)):
        assert calm.drift is None
        assert calm.annotations == {}
        assert calm.stale_cluster_id_secret is None
        assert not calm.former_secrets


def test_a_changed_namespace_comes_before_a_changed_cluster_id() -> None:
    changed = compared(credentials_namespace="new", cluster_id="cluster-two")

    assert changed.drift == Drift(
        Reason.CredentialsNamespaceChanged, "credentials namespace changed from kyma-system to new"
    )


def test_a_changed_cluster_id_is_drift() -> None:
    assert compared(cluster_id="cluster-two").drift == Drift(
        Reason.ClusterIdChanged, "cluster ID changed from cluster-one to cluster-two"
    )


def test_a_wrong_initial_cluster_id_is_seen_before_the_operand_crashes() -> None:
    assert compared(initial="former").drift == Drift(
        Reason.ClusterIdChanged, "cluster ID changed from former to cluster-one"
    )


def test_a_changed_namespace_is_remembered_and_cleaned_up_after() -> None:
    changed = compared(credentials_namespace="new")

    assert changed.annotations == {PREVIOUS_NAMESPACE: "kyma-system"}
    assert changed.stale_cluster_id_secret is None
    assert changed.former_secrets == (
        ObjectKey("kyma-system", "sap-btp-operator-clusterid"),
        ObjectKey("kyma-system", "sap-btp-service-operator"),
    )


def test_a_changed_cluster_id_keeps_the_credentials_secret() -> None:
    changed = compared(cluster_id="cluster-two")

    assert changed.annotations == {PREVIOUS_ID: "cluster-one"}
    assert changed.stale_cluster_id_secret == ObjectKey("kyma-system", "sap-btp-operator-clusterid")
    assert changed.former_secrets == (ObjectKey("kyma-system", "sap-btp-operator-clusterid"),)


def test_a_stale_initial_cluster_id_is_deleted_before_the_apply() -> None:
    stale = compared(initial="former")

    assert stale.annotations == {PREVIOUS_ID: "former"}
    assert stale.stale_cluster_id_secret == ObjectKey("kyma-system", "sap-btp-operator-clusterid")


@pytest.mark.parametrize(
    ("config", "restarts"), [("cluster-one", True), ("cluster-two", False), (None, False)], ids=str
)
def test_pods_that_work_are_restarted_where_no_new_configuration_does_it(config: str | None, restarts: bool) -> None:
    assert compared(initial="former", config=config).restarts_operand is restarts


def test_on_a_fresh_cluster_a_stale_initial_cluster_id_is_deleted_too() -> None:
    fresh = compared(config=None, initial="former")

    assert fresh.stale_cluster_id_secret is not None
    assert not fresh.former_secrets


def test_what_is_remembered_already_is_not_written_again() -> None:
    again = compared(
        credentials_namespace="new",
        cluster_id="cluster-two",
        annotations={PREVIOUS_NAMESPACE: "kyma-system", PREVIOUS_ID: "cluster-one"},
    )

    assert again.annotations == {}


@pytest.mark.parametrize(
    ("found", "previous", "expected"),
    [
        ([], "", "new"),
        (["old"], "", "old"),
        (["b", "a"], "", "a"),
        (["a", "new", "old"], "old", "old"),
        (["new"], "old", "new"),
    ],
)
def test_while_two_secrets_exist_the_annotation_tells_the_old_one(
    found: list[str], previous: str, expected: str
) -> None:
    wanted = good({PREVIOUS_NAMESPACE: previous} if previous else {}, credentials_namespace="new")

    assert credentials.operand_namespace(found, wanted) == expected


def pod(namespace: str, name: str, ready: str = "") -> Pod:
    status = PodStatus(conditions=(Condition(type="Ready", status=ready),) if ready else ())
    return Pod(metadata=ObjectMeta(name=name, namespace=namespace), status=status)


def test_only_failing_pods_of_the_operand_in_the_chart_namespace_are_restarted() -> None:
    pods = [
        pod("kyma-system", "sap-btp-operator-controller-manager-b", "False"),
        pod("kyma-system", "sap-btp-operator-controller-manager-a", "True"),
        pod("kyma-system", "sap-btp-operator-controller-manager-c"),
        pod("other", "sap-btp-operator-controller-manager-d", "False"),
        pod("kyma-system", "something-else", "False"),
    ]

    failing = credentials.pods_to_restart(pods, "kyma-system", failing_only=True)
    every = credentials.pods_to_restart(pods, "kyma-system", failing_only=False)

    assert [pod.key.name[-1] for pod in failing] == ["b"]
    assert [pod.key.name[-1] for pod in every] == ["a", "b", "c"]


# ---- a move that may stop anywhere


@dataclass
class World:
    """The cluster, as far as credentials go."""

    wanted: dict[str, str]
    credentials_in: set[str]
    config: str | None
    initial_in: dict[str, str]
    recorded: str
    moves: list[str] = field(default_factory=list)
    annotations: dict[str, str] = field(default_factory=dict)

    def compare(self) -> CredentialsComparison:
        wanted = good(self.annotations, **self.wanted)
        found = self.credentials_in & {self.recorded, *self.moves}
        namespace = credentials.operand_namespace(found, wanted)
        return CredentialsComparison(
            wanted=wanted,
            namespace=namespace,
            found=found,
            config_cluster_id=self.config,
            initial_cluster_id=self.initial_in.get(namespace),
        )

    def provision(self, *, looks_again: bool) -> Iterator[None]:
        """One provisioning pass; the process may stop at each yield. It may look again before the cleanup."""
        seen = self.compare()
        self.annotations.update(seen.annotations)
        yield
        if stale := seen.stale_cluster_id_secret:
            self.initial_in.pop(stale.namespace, None)
        yield
        if seen.wanted.namespace not in (self.recorded, *self.moves):
            self.moves.append(seen.wanted.namespace)
        yield
        self.config = seen.wanted.cluster_id
        yield
        self.credentials_in.add(seen.wanted.namespace)
        self.initial_in.setdefault(seen.wanted.namespace, seen.wanted.cluster_id)  # by the operand
        yield
        for secret in (self.compare() if looks_again else seen).former_secrets:
            if secret.name == "sap-btp-operator-clusterid":
                self.initial_in.pop(secret.namespace, None)
            else:
                self.credentials_in.discard(secret.namespace)
            yield
        self.recorded, self.moves = seen.wanted.namespace, []


NAMESPACES = st.sampled_from(["a", "kyma-system", "z"])
IDS = st.sampled_from(["cluster-one", "cluster-two", "cluster-three"])


@given(
    old=st.tuples(NAMESPACES, IDS),
    new=st.tuples(NAMESPACES, IDS),
    initial=st.none() | IDS,
    begun=st.lists(st.tuples(NAMESPACES, IDS, st.integers(0, 8)), max_size=4),
    stops=st.lists(st.integers(0, 8), max_size=3),
    looks_again=st.booleans(),
)
def test_a_move_ends_in_the_new_place_wherever_it_and_moves_before_it_were_interrupted(
    old: tuple[str, str],
    new: tuple[str, str],
    initial: str | None,
    begun: list[tuple[str, str, int]],
    stops: list[int],
    looks_again: bool,
) -> None:
    world = World(
        wanted={},
        credentials_in={old[0]},
        config=old[1],
        initial_in={old[0]: initial} if initial else {},
        recorded=old[0],
    )

    for namespace, cluster_id, stop in (*begun, *((*new, stop) for stop in stops)):
        world.wanted = {"credentials_namespace": namespace, "cluster_id": cluster_id}
        for _ in zip(range(stop), world.provision(looks_again=looks_again), strict=False):
            pass
    world.wanted = {"credentials_namespace": new[0], "cluster_id": new[1]}
    for _ in range(2):  # the second for an id that the operand wrote where an overtaken move began
        for _ in world.provision(looks_again=looks_again):
            pass

    assert world.compare().drift is None
    assert world.credentials_in == {new[0]}
    assert world.config == new[1]
    assert set(world.initial_in) <= {new[0]}
    assert set(world.initial_in.values()) <= {new[1]}


# ---- text that others may have written


@pytest.mark.req("R-408")
@pytest.mark.parametrize("text", ["two\nlines", "x" * 254, "\x1b[31mred", "ümlaut", "a b", "\0"])
def test_a_text_that_is_no_cluster_id_is_neither_annotated_nor_shown(text: str) -> None:
    for found in (compared(initial=text), compared(config=text)):
        assert found.annotations == {}
        assert found.drift is not None
        assert text not in found.drift.message
        assert "a value that is no cluster ID" in found.drift.message


def test_the_former_cluster_id_is_annotated() -> None:
    assert compared(initial="two").annotations == {PREVIOUS_ID: "two"}
    assert compared(config="three").annotations == {PREVIOUS_ID: "three"}


@pytest.mark.req("R-413")
@pytest.mark.parametrize("key", ["clientid", "clientsecret", "sm_url", "tokenurl", "cluster_id"])
def test_a_required_value_that_is_no_text_is_named(key: str) -> None:
    data = {**encoded(COMPLETE), key: base64.b64encode(b"\xff\xfe\x00").decode()}

    found = credentials.read(data, {}, default_namespace="kyma-system")

    assert found == SecretProblem(Reason.InvalidSecret, f"value(s) of {key} key(s) not readable as text")


@pytest.mark.req("R-413")
def test_a_cluster_id_that_no_environment_variable_can_have_is_named() -> None:
    assert problem({**COMPLETE, "cluster_id": "one\0two"}) == "value of cluster_id has a NUL character"


@pytest.mark.req("R-413")
@pytest.mark.parametrize("cluster_id", ["one\n", "one two", "\x1b[31mone", "ä"])
def test_a_cluster_id_that_the_operand_accepts_is_passed_on_as_it_is_and_does_not_get_into_messages(
    cluster_id: str,
) -> None:
    wanted = good(cluster_id=cluster_id)
    former = CredentialsComparison(
        wanted=wanted, namespace=wanted.namespace, config_cluster_id="former", initial_cluster_id=None
    )

    assert wanted.cluster_id == cluster_id
    assert replace(former, config_cluster_id=cluster_id, initial_cluster_id=cluster_id).drift is None
    assert former.drift is not None
    assert former.drift.message == "cluster ID changed from former to a value that is no cluster ID"


@pytest.mark.req("R-505")
def test_the_credentials_are_looked_for_only_where_an_administrator_of_the_module_put_them() -> None:
    wanted = good({PREVIOUS_NAMESPACE: "before"}, credentials_namespace="wanted")
    config = {"RELEASE_NAMESPACE": "release", "MANAGEMENT_NAMESPACE": "management", "CLUSTER_ID": "no-namespace"}

    found = credentials.possible_namespaces(wanted, config, ["recorded", "begun"])

    assert found == ("before", "begun", "management", "recorded", "release", "wanted")
    assert credentials.possible_namespaces(wanted, {}) == ("before", "wanted")
    missing = credentials.missing(ObjectKey("kyma-system", "sap-btp-manager"))
    assert credentials.possible_namespaces(missing, config) == ("management", "release")


@pytest.mark.req("R-408")
@pytest.mark.parametrize("text", ["", "..", "a/b", "../kube-system", "A", "a" * 64])
def test_what_is_no_namespace_is_not_looked_into(text: str) -> None:
    wanted = good({PREVIOUS_NAMESPACE: text})

    assert credentials.possible_namespaces(wanted, {"RELEASE_NAMESPACE": text}, [text]) == ("kyma-system",)


@pytest.mark.req("R-804")
def test_secret_values_are_known_in_each_form_in_which_a_server_may_quote_them() -> None:
    url = "https://me:p%40ss@token.example.com/oauth"
    data = {**encoded({"tokenurl": url, "cluster_id": "plain", "tls.crt": "plain"}), "binary": "/////w=="}

    assert set(credentials.secret_texts(data)) == {url, data["tokenurl"], "me", "p%40ss", "p@ss", "/////w=="}
