"""The kinds that people call by a short word."""

from __future__ import annotations

from pathlib import Path

import pytest

from stellwerk.cli import kinds, verb_tree
from stellwerk.kube.types.identifiers import GroupVersionKind, Resource
from stellwerk.operators.btp.api import BtpOperator

DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments", True)
PODS = Resource("", "v1", "Pod", "pods", True)
POD_METRICS = Resource("metrics.k8s.io", "v1beta1", "PodMetrics", "pods", True)


@pytest.mark.parametrize(
    "word", ["btp", "BTP", "btpoperator", "btpoperators", "BtpOperator", "btpoperators.operator.kyma-project.io"]
)
def test_a_kind_of_ours_answers_to_its_names(word: str) -> None:
    assert kinds.by_word(word) == BtpOperator.resource


def test_the_list_says_the_same_as_the_operators_own_kinds() -> None:
    assert kinds.by_gvk(BtpOperator.resource.gvk) is kinds.OWN[0]
    assert kinds.OWN[0].resource == BtpOperator.resource


def test_another_version_of_a_kind_of_ours_is_still_ours() -> None:
    assert kinds.by_gvk(GroupVersionKind("operator.kyma-project.io", "v2", "BtpOperator")) is not None
    assert kinds.by_gvk(GroupVersionKind("else.where", "v1alpha1", "BtpOperator")) is None


@pytest.mark.parametrize("row", kinds.OWN)
def test_every_kind_in_the_list_has_its_operator_and_its_definition(row: kinds.RegisteredKind) -> None:
    assert callable(row.insight().diagnostician.diagnose)
    folder = Path(__file__).parents[3] / "deploy" / "crds"
    assert (folder / f"{row.resource.group_resource}.yaml").is_file()


def test_short_words_are_unique() -> None:
    shorts = [row.short for row in kinds.OWN]
    assert len(shorts) == len(set(shorts))


def test_the_help_page_names_every_short_word() -> None:
    assert verb_tree.command.epilog is not None
    assert {row.short for row in kinds.OWN} <= {*verb_tree.command.epilog.partition(".")[0].replace(",", "").split()}


@pytest.mark.parametrize("word", ["deployment", "deployments", "Deployment", "deployments.apps", "deployment.apps"])
def test_a_foreign_kind_is_found_among_what_is_served(word: str) -> None:
    assert kinds.among(word, [PODS, DEPLOYMENTS]) == [DEPLOYMENTS]


def test_the_core_group_wins_over_others_with_the_same_plural() -> None:
    assert kinds.among("pods", [POD_METRICS, PODS])[0] == PODS


@pytest.mark.parametrize(("word", "meant"), [("deploy", DEPLOYMENTS), ("po", PODS), ("PO", PODS)])
def test_kinds_of_kubernetes_answer_to_what_kubectl_calls_them(word: str, meant: Resource) -> None:
    assert kinds.among(word, [POD_METRICS, DEPLOYMENTS, PODS])[0] == meant


@pytest.mark.parametrize(
    ("word", "offered"),
    [
        ("captenat", "captenant"),
        ("bpt", "btp"),
        ("Componentt", "component"),
        ("deploymets", "deployments"),
        ("unicorns", ""),
        ("x" * 10_000, ""),
    ],
)
def test_a_kind_that_is_spelt_almost_right_is_offered(word: str, offered: str) -> None:
    assert (offered in kinds.near(word, [PODS, DEPLOYMENTS])) if offered else not kinds.near(word, [PODS, DEPLOYMENTS])
