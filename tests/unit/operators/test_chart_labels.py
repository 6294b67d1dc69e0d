"""Objects have the labels by which users select those of the originals."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.unit.operators import helm_charts
from tests.unit.operators.helm_charts import ALL, BTP, CAP, MANAGER, Chart, Objects

from stellwerk.assembly import PROCESSES
from stellwerk.cli.look import logs
from stellwerk.kube.types.model import JsonObject, JsonValue, Unstructured, dig
from stellwerk.operators.btp.module.release import SHIPPED, Places, load
from stellwerk.operators.btp.settings import Settings

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.heavy]

PREFIX = "operator.sme.sap.com"
CATEGORIES = ("controller", "subscription-server", "webhook")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chart() -> AsyncIterator[Chart]:
    async with helm_charts.chart() as chart:
        yield chart


def of_original(metadata: JsonValue) -> dict[str, JsonValue]:
    """The labels of the original, without their prefix."""
    labels = dig(metadata, "labels")
    assert isinstance(labels, dict)
    return {name.removeprefix(f"{PREFIX}/"): text for name, text in labels.items() if name.startswith(PREFIX)}


def named_like(objects: Objects, name: str) -> list[JsonObject]:
    return [body for (kind, own), body in objects.items() if own == name and not kind.startswith("CustomResource")]


@pytest.mark.parametrize("category", CATEGORIES)
async def test_objects_and_pods_of_the_cap_operator_have_the_labels_of_the_original(
    chart: Chart, category: str
) -> None:
    server: JsonObject = {"domain": "cop.example.com"}
    values: JsonObject = {**CAP, "fullnameOverride": "cop", "subscriptionServer": server}
    objects = await chart.render({"capOperator": values}, release="mine")

    expected = {"app": f"cop-{category}", "category": category, "release": "mine"}
    found = named_like(objects, f"cop-{category}")
    kinds = {str(body["kind"]) for body in found}
    assert kinds >= {"Deployment", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "NetworkPolicy"}
    if category == "subscription-server":
        assert kinds >= {"Service", "Gateway", "VirtualService", "Certificate"}
    for body in found:
        assert of_original(body["metadata"]) == expected, body["kind"]
    deployment = objects["Deployment", f"cop-{category}"]
    assert of_original(dig(deployment, "spec", "template", "metadata")) == expected


async def test_the_webhooks_may_keep_the_certificate_of_their_service_under_any_name(chart: Chart) -> None:
    """The program names the Secret like the Service."""
    objects = await chart.render({"capOperator": {**CAP, "fullnameOverride": "cop"}})

    arguments = str(dig(objects["Deployment", "cop-webhook"], "spec", "template", "spec", "containers"))
    assert "--webhook-service=cop-webhook" in arguments
    assert ("Service", "cop-webhook") in objects
    rules = objects["Role", "cop-webhook"]["rules"]
    assert isinstance(rules, list)
    names = [dig(rule, "resourceNames") for rule in rules]
    assert names == [None, ["cop-webhook-tls", "cap-operator-webhook-tls"]], (
        "with the authority of the former it begins"
    )


async def test_webhook_configurations_belong_to_the_webhook(chart: Chart) -> None:
    objects = await chart.render({"capOperator": CAP})

    for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"):
        assert of_original(objects[kind, "cap-operator"]["metadata"])["category"] == "webhook"


async def test_labels_of_the_original_do_not_select_pods(chart: Chart) -> None:
    """A selector cannot be changed, so it has only labels that stay."""
    objects = await chart.render({**ALL, "capOperator": {**CAP, "podLabels": {f"{PREFIX}/category": "mine"}}})

    for (kind, name), body in objects.items():
        if kind == "Deployment":
            selector = dig(body, "spec", "selector", "matchLabels")
            assert isinstance(selector, dict)
            assert set(selector) == {"app.kubernetes.io/name", "app.kubernetes.io/instance"}, name


async def test_other_operators_do_not_have_the_labels_of_the_cap_operator(chart: Chart) -> None:
    objects = await chart.render(ALL)

    labelled = {
        name for (kind, name), body in objects.items() if kind == "Deployment" and of_original(body["metadata"])
    }
    assert labelled == {f"cap-operator-{category}" for category in CATEGORIES}


async def test_the_manager_of_the_cap_operator_has_the_label_of_its_module(chart: Chart) -> None:
    objects = await chart.render({"capOperatorManager": MANAGER})

    deployment = objects["Deployment", "cap-operator-manager"]
    assert dig(deployment, "metadata", "labels", "kyma-project.io/module") == "cap-operator"
    assert dig(deployment, "spec", "template", "metadata", "labels", "kyma-project.io/module") == "cap-operator"


async def test_the_policies_of_the_btp_module_select_the_pods_of_its_manager(chart: Chart) -> None:
    objects = await chart.render({"btpManager": BTP})

    deployment = objects["Deployment", "btp-manager-controller-manager"]
    labels = dig(deployment, "spec", "template", "metadata", "labels")
    assert isinstance(labels, dict)
    policies = load(Places.of(Settings(), Path(SHIPPED))).network_policies
    selectors = [dig(dict(document.body), "spec", "podSelector", "matchLabels") for document in policies]
    selected = [each for each in selectors if isinstance(each, dict) and each.items() <= labels.items()]
    assert len(selected) == 3, "all but that of the webhook, which is the operand's"


@pytest.mark.parametrize("names", [{}, {"nameOverride": "own"}])
async def test_the_logs_of_every_process_of_the_chart_are_found_under_any_name(chart: Chart, names: JsonObject) -> None:
    values: JsonObject = {
        key: {**each, **{name: f"{text}-{key.lower()}" for name, text in names.items()}}
        if isinstance(each, dict)
        else each
        for key, each in ALL.items()
    }
    objects = await chart.render(values, release="r")
    deployments = [Unstructured.of(body) for (kind, _), body in objects.items() if kind == "Deployment"]
    found = logs.logged(deployments)
    assert len(found) == len(deployments) == len(PROCESSES)
    assert {each.container for each in found} == {"manager"}
    for deployment in deployments:
        labels = deployment.at("spec", "template", "metadata", "labels")
        assert isinstance(labels, dict)
        words = {f"{name}={value}" for name, value in labels.items()}
        assert [each for each in found if {*each.labels.split(",")} <= words], deployment.ref
