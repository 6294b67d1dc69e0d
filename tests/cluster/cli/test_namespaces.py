"""KIND/NAME means the namespace of `-n`, else of the context, for every verb."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from stellwerk.kube.types.identifiers import Resource
from stellwerk.local.cluster import LocalCluster
from tests.cluster.cli.conftest import BTP, Given, Stellwerk, parsed

VERBS = (
    ["get"],
    ["get", "-o", "json"],
    ["get", "-w"],
    ["status"],
    ["why"],
    ["tree"],
    ["trace"],
    ["diff"],
    ["values"],
    ["reconcile"],
    ["suspend"],
    ["resume"],
    ["wait"],
    ["unstick", "--force", "--yes"],
)
RBAC = "rbac.authorization.k8s.io"
MESSAGE = "sap-btp-manager Secret in kyma-system namespace not found"


def in_context(cluster: LocalCluster, folder: Path, namespace: str) -> Path:
    """The kubeconfig with a namespace in its context."""
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    for context in config["contexts"]:
        context["context"]["namespace"] = namespace
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


def web(place: str) -> str:
    """The name of the BtpOperator; no other test has an object of this name."""
    return f"web-{place}"


@pytest.fixture
def there(given: Given, place: str) -> Iterator[str]:
    """A namespace besides the one of the test, with a BtpOperator."""
    other = f"{place}-there"
    given.namespace(other)
    given.operator(other, web(place), "MissingSecret", "Warning", MESSAGE)
    yield other
    given.no_operators(other)


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_no_verb_leaves_the_namespace_of_the_context(
    stellwerk: Stellwerk, there: str, place: str, command_line_cluster: LocalCluster, tmp_path: Path, words: list[str]
) -> None:
    login = in_context(command_line_cluster, tmp_path, place)
    before = stellwerk("get", f"btp/{web(place)}", "-n", there, "-o", "json").stdout
    verb, *options = words
    shown = stellwerk(verb, f"btp/{web(place)}", *options, kubeconfig=login)
    assert (shown.returncode, shown.stdout) == (1, ""), shown
    assert f"Error:   there is no BtpOperator {web(place)} in namespace {place}\n" in shown.stderr
    assert f"Cause:   there is a btp/{web(place)} in {there}\n" in shown.stderr
    assert f"Fix:     name its namespace: -n {there}\n" in shown.stderr
    assert stellwerk("get", f"btp/{web(place)}", "-n", there, "-o", "json").stdout == before


def test_the_namespace_of_the_call_wins_over_the_one_of_the_context(
    stellwerk: Stellwerk, there: str, place: str, command_line_cluster: LocalCluster, tmp_path: Path
) -> None:
    login = in_context(command_line_cluster, tmp_path, place)
    for words in (["-n", there], ["-A"]):
        shown = stellwerk("get", f"btp/{web(place)}", "-o", "jsonpath={.metadata.namespace}", *words, kubeconfig=login)
        assert (shown.returncode, shown.stdout) == (0, there), shown
    named = stellwerk("get", f"btp/{there}/{web(place)}", "-o", "jsonpath={.metadata.namespace}", kubeconfig=login)
    assert named.stdout == there


def test_an_object_of_the_same_name_elsewhere_is_not_taken_for_the_one_of_the_context(
    stellwerk: Stellwerk, given: Given, there: str, place: str, command_line_cluster: LocalCluster, tmp_path: Path
) -> None:
    login = in_context(command_line_cluster, tmp_path, place)
    given.operator(place, web(place), "OlderCRExists", "Warning", "another one is older")
    found = parsed(stellwerk("get", "btp", web(place), "-o", "json", kubeconfig=login).stdout)
    assert isinstance(found["metadata"], dict)
    assert found["metadata"]["namespace"] == place


def test_of_several_in_all_namespaces_one_has_to_be_named(stellwerk: Stellwerk, given: Given, place: str) -> None:
    for namespace in (f"{place}-a", f"{place}-b"):
        given.namespace(namespace)
        given.operator(namespace, f"twin-{place}", "OlderCRExists", "Warning", "another one is older")
    shown = stellwerk("get", "btp", f"twin-{place}", "-A")
    assert shown.returncode == 2
    assert f"{place}-a, {place}-b" in shown.stderr
    shown = stellwerk("suspend", f"btp/twin-{place}", "-n", place)
    assert f"Cause:   there is a btp/twin-{place} in {place}-a, {place}-b\n" in shown.stderr
    assert "-n NAMESPACE" in shown.stderr


def test_a_user_who_may_not_look_elsewhere_gets_the_plain_answer(
    stellwerk: Stellwerk, there: str, place: str, given: Given
) -> None:
    user = f"reader-{place}"
    rules = [{"apiGroups": [BTP.group], "resources": [BTP.plural], "verbs": ["get"]}]
    given.put(Resource(RBAC, "v1", "Role", "roles", True), place, "reads", rules=rules)
    given.put(
        Resource(RBAC, "v1", "RoleBinding", "rolebindings", True),
        place,
        "reads",
        roleRef={"apiGroup": RBAC, "kind": "Role", "name": "reads"},
        subjects=[{"apiGroup": RBAC, "kind": "User", "name": user}],
    )
    given.right(user, "get", BTP, place)
    shown = stellwerk("get", f"btp/{web(place)}", "-n", place, "--as", user)
    assert shown.returncode == 1, shown
    assert f"Error:   there is no BtpOperator {web(place)} in namespace {place}\n" in shown.stderr
    assert there not in shown.stderr


def test_waiting_for_a_deletion_says_where_the_object_still_is(stellwerk: Stellwerk, there: str, place: str) -> None:
    shown = stellwerk("wait", f"btp/{web(place)}", "--for=deleted", "-n", place)
    assert shown.returncode == 0, shown
    assert f"there is a btp/{web(place)} in {there}" in shown.stderr


def test_an_unknown_kind_is_never_taken_for_a_deleted_object(stellwerk: Stellwerk, place: str) -> None:
    shown = stellwerk("wait", "unicorn/web", "--for=deleted", "-n", place)
    assert (shown.returncode, shown.stdout) == (1, ""), shown
