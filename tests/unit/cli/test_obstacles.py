"""What prevents `stellwerk install` from being complete is found before its first write."""

from __future__ import annotations

from pathlib import Path

import pytest

from stellwerk.assembly import OPERATORS
from stellwerk.cli.local import obstacles
from stellwerk.kube.types.model import JsonObject, Unstructured

ROOT = Path(__file__).parents[3]


def deployment(name: str, namespace: str = "cap-operator-system", *command: str) -> JsonObject:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"template": {"spec": {"containers": [{"command": [*command]}]}}},
    }


WANTED = [deployment("cap-operator-controller"), deployment("cap-operator-webhook")]


def test_an_original_under_the_name_of_a_deployment_to_come_is_refused_with_the_way_to_stop_it() -> None:
    live = [deployment("cap-operator-webhook"), deployment("cap-operator-controller")]
    failure = obstacles.original_in_place([OPERATORS["cap"]], [*map(Unstructured.of, live)], WANTED)
    assert failure is not None
    assert "cap-operator-system/cap-operator-controller" in failure.report.error
    assert "docs/migration/cap-operator.md" in failure.report.fix
    assert failure.report.fix.endswith(
        "kubectl delete deployment cap-operator-controller cap-operator-webhook -n cap-operator-system"
    )


@pytest.mark.parametrize(
    "live",
    [
        deployment("cap-operator-controller", "elsewhere"),
        deployment("other-cap-operator-controller"),
        deployment("cap-operator-controller", "cap-operator-system", "stellwerk", "run", "cap"),
        deployment("component-operator"),
    ],
)
def test_what_is_no_original_or_has_another_name_prevents_nothing(live: JsonObject) -> None:
    assert obstacles.original_in_place([OPERATORS["cap"]], [Unstructured.of(live)], WANTED) is None


@pytest.mark.parametrize(
    ("api_version", "kind", "words"),
    [
        ("cert.gardener.cloud/v1alpha1", "Certificate", "certificateManager: CertManager"),
        ("cert-manager.io/v1", "Certificate", "install cert-manager"),
        ("networking.istio.io/v1", "Gateway", "install Istio"),
        ("example.com/v1", "Gate", "install what brings this kind"),
    ],
)
def test_a_kind_that_the_cluster_lacks_is_named_with_the_product_or_value_that_helps(
    api_version: str, kind: str, words: str
) -> None:
    body: JsonObject = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "it", "namespace": "n"}}
    report = obstacles.absent_kind(Unstructured.of(body)).report
    assert f"{kind}" in report.error
    assert report.cause == f"{kind} n/it is of this kind"
    assert words in report.fix


@pytest.mark.parametrize("name", [name for name, each in OPERATORS.items() if each.installation().original])
def test_each_operator_with_an_original_has_the_page_that_is_named(name: str) -> None:
    assert (ROOT / obstacles.migration_page(OPERATORS[name])).is_file()
