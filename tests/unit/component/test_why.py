"""What a person is told to do about a Component that is not ready."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from stellwerk.delivery.sets.unsettled_objects import UnsettledObject
from stellwerk.kube.types.model import JsonObject, Unstructured
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.component.api import Component
from stellwerk.operators.component.insight import why


def component(ready: str, cause: str, message: str) -> Component:
    conditions: list[JsonObject] = [
        {"type": "Ready", "status": "Unknown", "reason": ready, "message": message},
        {"type": "Stalled", "status": "True", "reason": cause, "message": message},
    ]
    body = {
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "kubeConfig": {"secretRef": {"name": "there"}},
            "valuesFrom": [{"name": "values"}, {"kind": "ConfigMap", "name": "more", "key": "prod.yaml"}],
            "postBuild": {"substituteFrom": [{"name": "vars"}]},
        },
        "status": {"observedGeneration": 0, "conditions": conditions},
    }
    return msgspec.convert(body, Component)


def next_step(ready: str, cause: str, message: str = "something is in the way") -> str:
    seen = component(ready, cause, message)
    return why.explain(why.ComponentSurroundings(component=seen, now=datetime(2026, 1, 1, tzinfo=UTC))).next_step


def test_the_next_step_is_the_first_way_to_mend_it_and_names_the_page() -> None:
    assert next_step("DeletionRetrying", "DependantsExist") == (
        "delete the Components that the message names, or remove their dependency (stellwerk explain DependantsExist)"
    )


def test_a_command_in_it_is_for_this_very_component() -> None:
    assert next_step("Suspended", "Suspended").startswith("resume it: stellwerk resume comp/web -n shop (")


@pytest.mark.req("R-510")
@pytest.mark.parametrize(
    ("cause", "message", "expected"),
    [
        (
            "InvalidObjects",
            "error reconciling dependent resources: ConfigMap shop/one: owner conflict; the object is owned by "
            "5f3c-1/other/first",
            "remove the object from the source of this Component or of Component other/first, or have this one take it "
            """over: kubectl -n shop patch component web --type merge -p '{"spec":{"adoptionPolicy":"Always"}}'""",
        ),
        (
            "ReferenceNotFound",
            "error resolving references: /valuesFrom/0: error loading secret shop/values: not found; /valuesFrom/1: x",
            "create Secret shop/values: kubectl -n shop create secret generic values --from-literal=values={}",
        ),
        (
            "ReferenceNotFound",
            "error resolving references: /valuesFrom/1: error loading configmap shop/more: not found",
            "create ConfigMap shop/more: kubectl -n shop create configmap more --from-literal=prod.yaml={}",
        ),
        (
            "ReferenceNotFound",
            "error resolving references: /kubeConfig/secretRef: error loading secret shop/there: not found",
            "create Secret shop/there: kubectl -n shop create secret generic there --from-file=value=kubeconfig.yaml",
        ),
        (
            "ReferenceNotFound",
            "error resolving references: /postBuild/substituteFrom/0: error loading secret shop/vars: not found",
            "create Secret shop/vars: kubectl -n shop create secret generic vars",
        ),
        (
            "ReferenceNotFound",
            "error resolving references: /valuesFrom/1: key prod.yaml not found in configmap shop/more",
            "add the key prod.yaml: kubectl -n shop edit configmap more",
        ),
        (
            "ReferenceNotFound",
            "error resolving references: /valuesFrom/0: no matching key found in secret shop/values (looked for "
            "values, values.yaml, values.yml)",
            "add the key values: kubectl -n shop edit secret values",
        ),
        (
            "RenderingFailed",
            "error reconciling dependent resources: error rendering manifests: no such file or directory: deploi. "
            "Correct spec.path: the source has deploy, docs and 2 more",
            """correct spec.path to a folder that exists: kubectl -n shop patch component web --type merge -p """
            """'{"spec":{"path":"deploy"}}'""",
        ),
    ],
)
def test_what_a_message_asks_for_is_a_command_that_can_be_copied(cause: str, message: str, expected: str) -> None:
    assert next_step("Error", cause, message) == f"{expected} (stellwerk explain {cause})"


@pytest.mark.parametrize("folder", ["a'; reboot;'", "$(reboot)", "a b", "`reboot`"])
def test_a_folder_with_letters_that_a_shell_reads_is_in_no_command(folder: str) -> None:
    message = f"no such file or directory: x. Correct spec.path: the source has {folder}, b"
    assert "kubectl" not in next_step("Error", "RenderingFailed", message)


def test_where_only_waiting_helps_the_page_alone_is_named() -> None:
    assert next_step("Restarting", "Restarting") == "stellwerk explain Restarting"


def test_an_object_is_waited_for_until_it_shows_what_its_author_hints_at() -> None:
    hint: JsonObject = {"annotations": {"component-operator.cs.sap.com/status-hint": "conditions=Synced"}}
    thing: JsonObject = {"apiVersion": "example.com/v1", "kind": "Thing"}
    odd: JsonObject = {**thing, "metadata": {"name": "odd"}, "status": {"conditions": "none"}}
    hinted: JsonObject = {**thing, "metadata": {"name": "a", **hint}}
    lives = [Unstructured.of(body) for body in (hinted, odd)]
    seen = why.ComponentSurroundings(
        component=component("Processing", "ObjectsNotReady", "Waiting"),
        dependents=tuple(UnsettledObject(live.ref, live) for live in lives),
        now=datetime(2026, 1, 1, tzinfo=UTC),
    )

    (finding,) = why.explain(seen).findings
    assert [(one.text, one.is_root_cause) for one in finding.because] == [
        ("Thing a: condition Synced is not True", True),
        ("Thing odd: status.conditions is not a list", True),
    ]


def test_a_remark_is_no_finding_and_is_there_whether_the_component_is_ready_or_not() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    remark = 'the chart: values.yaml: line 2: the key "a" appears twice'
    failed = component("Error", "RenderingFailed", "no")
    broken = why.explain(why.ComponentSurroundings(component=failed, remarks=(remark,), hidden=("pods in x",), now=now))
    new = why.explain(
        why.ComponentSurroundings(component=Component(metadata=ObjectMeta(name="web")), remarks=(remark,), now=now)
    )

    assert broken.remarks == new.remarks == (remark,)
    assert (broken.hidden, new.hidden) == (("pods in x",), ())
    assert remark not in [finding.text for finding in (*broken.findings, *new.findings)]
