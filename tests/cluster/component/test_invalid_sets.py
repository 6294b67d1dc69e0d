"""Objects that must not be applied together are named, all at once, before anything is written."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from stellwerk.api.core import ConfigMap
from stellwerk.kube.types.model import JsonObject
from stellwerk.testing.scenarios.writes import Writes
from tests.cluster.component.given import Given
from tests.cluster.component.manifests import config, definition, manifest, policies
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then

PREFIX = "component-operator.cs.sap.com"


def raw(kind: str, metadata: Mapping[str, object], api_version: str = "v1") -> str:
    """An object whose metadata may be wrong."""
    return json.dumps({"apiVersion": api_version, "kind": kind, "metadata": metadata})


BARE: dict[str, tuple[str, str]] = {
    "duplicate": (config("same") + "---\n" + config("same", "2"), "same"),
    "number-label": (raw("ConfigMap", {"name": "numbered", "labels": {"n": 1}}), "ConfigMap numbered"),
    "bad-name": (config("Bad_Name"), "ConfigMap Bad_Name"),
    "bad-order": (config("ordered", apply_order="soon"), f"ConfigMap ordered: annotation {PREFIX}/apply-order"),
    "far-order": (config("ordered", delete_order="32768"), f"annotation {PREFIX}/delete-order"),
    "bad-policy": (config("policed", update_policy="sometimes"), "ConfigMap policed: annotation"),
    "bad-hint": (config("hinted", status_hint="has-luck"), "ConfigMap hinted: annotation"),
    "bad-interval": (config("often", reapply_interval="often"), "ConfigMap often: annotation"),
    "unknown-kind": (manifest("Unheard", "of", api_version="nowhere.example.com/v1"), "Unheard of"),
    "purged-namespace": (manifest("Namespace", "purged", annotations=policies(purge_order="1")), "Namespace purged"),
    "boolean-label": (
        raw("ConfigMap", {"name": "labelled", "labels": {"l": True}}),
        "metadata.labels['l'] is not text: put the value in quotes",
    ),
    "instance-before-its-kind": (
        definition("early.example.com", "Early", apply_order="1")
        + "---\n"
        + manifest("Early", "bird", api_version="early.example.com/v1"),
        "Early {home}/bird: its apply order 0 is before 1",
    ),
}
"""What is wrong, and what is said about it; as plain manifests."""

CHARTS: dict[str, tuple[str, str]] = {
    "duplicate": (BARE["duplicate"][0], "ConfigMap {home}/same: duplicate object"),
    "generate-name": (raw("ConfigMap", {"generateName": "some-"}), "uses metadata.generateName"),
    "no-name": (raw("ConfigMap", {"labels": {"a": "b"}}), "has no metadata.name"),
    "boolean-annotation": (
        raw("ConfigMap", {"name": "noted", "annotations": {"n": True}}),
        "metadata.annotations['n'] is not text: put the value in quotes",
    ),
    "bad-label": (raw("ConfigMap", {"name": "labelled", "labels": {"a b": "c"}}), "metadata.labels['a b']"),
    "long-name": (config("x" * 254), "254 characters"),
    "too-many": ("{{ range until 5000 }}\n---\n" + config("n{{ . }}") + "{{ end }}", "5000"),
}
"""The same by charts, where kustomize would have been first to refuse, or slow."""


@pytest.mark.req("R-406")
@pytest.mark.req("R-408")
async def test_what_must_not_be_applied_is_named_and_nothing_of_the_set_is_written(
    given: Given, running: Running, then: Then
) -> None:
    files = {f"bare-{case}/bad.yaml": text for case, (text, _) in BARE.items()}
    files |= {f"chart-{case}/templates/bad.yaml": text for case, (text, _) in CHARTS.items()}
    files |= {f"chart-{case}/Chart.yaml": f"apiVersion: v2\nname: {case}\nversion: 1.0.0\n" for case in CHARTS}
    files |= {f"bare-{case}/good.yaml": config(f"good-bare-{case}") for case in BARE}
    files |= {f"chart-{case}/templates/good.yaml": config(f"good-chart-{case}") for case in CHARTS}
    await given.source(files)
    await running.start()
    cases = {f"bare-{case}": says for case, (_, says) in BARE.items()}
    cases |= {f"chart-{case}": says for case, (_, says) in CHARTS.items()}
    for case in cases:
        await given.component(case, path=case)
    for case, says in cases.items():
        found = await then.shows("Error", "Error", case, saying=says.format(home=given.namespace))
        assert not found.status.inventory, case
        assert not await then.exists(ConfigMap, f"good-{case}"), case


@pytest.mark.req("R-406")
async def test_a_component_brings_neither_itself_nor_one_that_brought_it(
    given: Given, running: Running, then: Then
) -> None:
    good = {f"{name}/good.yaml": config(f"good-{name}") for name in ("self", "outer", "inner")}
    brings = {"self": "self", "outer": "inner", "inner": "outer"}
    await given.source(good | {f"{name}/comp.yaml": component(inner) for name, inner in brings.items()})
    await running.start()
    await given.component("self", path="self", adoptionPolicy="Always")
    await given.component("outer", path="outer", adoptionPolicy="Always")
    await then.shows("Error", "Error", "self", saying=f"Component {then.key('self')}: is the Component itself")
    await then.shows("Error", "Error", "inner", saying=f"Component {then.key('outer')}: cannot be brought")
    await then.shows("Processing", name="outer", saying=f"Component {then.key('inner')}")
    assert await then.exists(ConfigMap, "good-outer")
    assert not await then.exists(ConfigMap, "good-inner")
    assert not await then.exists(ConfigMap, "good-self")
    for name in ("self", "outer"):
        await given.deleted(name)
    for name in ("self", "outer", "inner"):
        await then.gone(name)


ROLE: JsonObject = {"rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]}


@pytest.mark.req("R-406")
async def test_a_tenant_without_cluster_wide_rights_gets_nothing_of_a_set_that_needs_them(
    given: Given, running: Running, then: Then
) -> None:
    role = f"reader-of-{given.namespace}"
    text = manifest("ClusterRole", role, ROLE, api_version="rbac.authorization.k8s.io/v1")
    await given.account("tenant", "admin")
    await given.source({"one.yaml": config("one"), "role.yaml": text})
    await running.start()
    for name, policy in (("applies", "SsaOverride"), ("replaces", "Replace")):
        await given.component(name, serviceAccountName="tenant", updatePolicy=policy)
    user = f"system:serviceaccount:{given.namespace}:tenant"
    says = "clusterroles.rbac.authorization.k8s.io in the whole cluster"
    await then.shows("Error", "Error", "applies", saying=f"ClusterRole {role}: forbidden: {user} may not patch {says}")
    await then.shows(
        "Error", "Error", "replaces", saying=f"ClusterRole {role}: forbidden: {user} may not create {says}"
    )
    assert not await then.exists(ConfigMap, "one")
    await given.source({"one.yaml": config("one")})
    await given.deleted("replaces")
    await then.ready("applies")


def component(name: str) -> str:
    """A Component of the same source, in the folder of its name."""
    spec: JsonObject = {"sourceRef": {"fluxGitRepository": {"name": "source"}}, "path": name}
    return manifest("Component", name, {"spec": spec}, api_version="core.cs.sap.com/v1alpha1")


@pytest.mark.req("R-209")
@pytest.mark.req("R-406")
async def test_a_set_that_its_own_inventory_has_no_room_for_is_refused_before_anything_is_written(
    given: Given, running: Running, then: Then, writes: Writes
) -> None:
    await given.source({f"{number}.yaml": config(f"config-{number}") for number in range(4_500)}, revision="many")
    await running.start()
    await given.component()
    await then.shows("Error", "Error", saying="divide them among several Components", within=60)
    assert writes.to("configmaps") == []
    await given.source({"one.yaml": config("one")}, revision="few")
    await then.ready(revision="few")
