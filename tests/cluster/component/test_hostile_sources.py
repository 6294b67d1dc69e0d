"""Whoever writes the files of a source can break his own Component and nothing else, and learns where it is broken."""

from __future__ import annotations

from typing import Any

import pytest

from stellwerk.api.core import ConfigMap, Namespace, ServiceAccount
from stellwerk.api.rbac import Role, RoleBinding
from stellwerk.kube.types.model import JsonObject, metadata_of
from stellwerk.operators.component.api import Component
from stellwerk.render.worker.worker import Bounds
from stellwerk.testing.eventually import eventually
from tests.cluster import permissions
from tests.cluster.component.given import Given
from tests.cluster.component.manifests import config, manifest
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then

CHART = "apiVersion: v2\nname: chart\nversion: 1.0.0\n"
MANY_ALIASES = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
)
TWICE = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: twice}\ndata: {a: x, b: y, a: z}\n"
DEEP = "apiVersion: test.example.com/v1\nkind: Gate\nmetadata: {name: deep}\nspec: " + "{a: " * 150 + "1" + "}" * 150

BROKEN: dict[str, tuple[dict[str, str | bytes], str]] = {
    "yaml": ({"one.yaml": "a: [1\nb: 2\n"}, "one.yaml"),
    "no-text": ({"one.yaml": bytes(range(128, 256))}, "one.yaml"),
    "key-twice": ({"one.yaml": TWICE}, 'the key "a" twice'),
    "aliases": ({"one.yaml": MANY_ALIASES}, "one.yaml"),
    "deep": ({"one.yaml": DEEP}, "deep"),
    "chart-deep": ({"Chart.yaml": CHART, "templates/one.yaml": DEEP}, "templates/one.yaml"),
    "very-deep": ({"one.yaml": "a: " + "[" * 20_000 + "]" * 20_000}, "one.yaml"),
    "no-object": ({"one.yaml": "just: text\n"}, "one.yaml"),
    "template": ({"one.yaml": "{{ if }}"}, "one.yaml"),
    "kustomization": ({"kustomization.yaml": "resources: 7\n"}, "Kustomization.resources"),
    "missing-file": ({"kustomization.yaml": "resources: [nowhere.yaml]\n"}, "nowhere.yaml"),
    "outside": ({"kustomization.yaml": "resources: [/etc/passwd]\n"}, "/etc/passwd"),
    "remote": ({"kustomization.yaml": "resources: ['https://example.com/a.yaml']\n"}, "example.com"),
    "settings": ({".component-config.yaml": "templateSufix: .tpl\n"}, ".component-config.yaml"),
    "chart": ({"Chart.yaml": "name: [\n"}, "Chart.yaml"),
    "chart-values": ({"Chart.yaml": CHART, "values.yaml": "- list\n"}, "values.yaml"),
    "chart-template": ({"Chart.yaml": CHART, "templates/one.yaml": "a:\n{{ .Values.x.y.z }}"}, "templates/one.yaml:2"),
    "chart-fails": ({"Chart.yaml": CHART, "templates/one.yaml": '{{ fail "on purpose" }}'}, "on purpose"),
    "chart-schema": (
        {"Chart.yaml": CHART, "values.schema.json": '{"required": ["port"]}', "templates/one.yaml": config("one")},
        "port",
    ),
    "required": ({"one.yaml": '{{ required "a port is needed" .port }}'}, "a port is needed"),
    "environment": ({"one.yaml": '{{ env "HOME" }}'}, '"env" not defined'),
    "expansion": ({"one.yaml": '{{ expandenv "$HOME" }}'}, '"expandenv" not defined'),
    "names": ({"Chart.yaml": CHART, "templates/a.yaml": '{{ getHostByName "localhost" }}'}, "getHostByName"),
    "files": ({"one.yaml": '{{ readFile "/etc/passwd" | toString }}'}, "one.yaml"),
    "files-above": ({"one.yaml": '{{ readFile "../yaml/one.yaml" | toString }}'}, "one.yaml"),
}
"""Files, and what is said about them."""


@pytest.mark.req("R-401")
@pytest.mark.req("R-402")
@pytest.mark.req("R-405")
async def test_what_is_wrong_with_files_is_named_with_its_place(given: Given, running: Running, then: Then) -> None:
    files: dict[str, str | bytes] = {}
    for case, (broken, _) in BROKEN.items():
        files |= {f"{case}/{name}": content for name, content in broken.items()}
        beside = f"{case}/templates/beside.yaml" if "Chart.yaml" in broken else f"{case}/beside.yaml"
        files[beside] = config(f"beside-{case}")
    await given.source(files)
    await running.start()
    for case in BROKEN:
        await given.component(case, path=case)
    for case, (_, says) in BROKEN.items():
        found = await then.shows("Error", "Error", case, saying=says)
        assert "error rendering manifests" in then.told(case)
        assert not found.status.inventory, case
        if "kustomization.yaml" not in BROKEN[case][0]:
            assert not await then.exists(ConfigMap, f"beside-{case}"), case


BUSY = "{{ range until 20000 }}{{ range until 20000 }}{{ end }}{{ end }}"

TOO_MUCH = "rendering needs more than 256 MiB of memory"

ENDLESS: dict[str, tuple[dict[str, str], str]] = {
    **{f"busy-{n}": ({"one.yaml": f"# {n}\n{BUSY}"}, "rendering took longer than 5 s") for n in range(3)},
    "loop": ({"one.yaml": "{{ range untilStep 0 2000000000 1 }}{{ end }}"}, TOO_MUCH),
    "recursion": (
        {"Chart.yaml": CHART, "templates/a.yaml": '{{ define "a" }}{{ include "a" . }}{{ end }}{{ include "a" . }}'},
        "nested reference name: a",
    ),
    "output": ({"one.yaml": '{{ range until 100000 }}{{ repeat 100000 "x" }}{{ end }}'}, TOO_MUCH),
    "text": ({"one.yaml": '{{ repeat 2000000000 "xxxxxxxx" }}'}, TOO_MUCH),
    "pattern": ({"one.yaml": '{{ regexMatch "(x+x+)+y" (repeat 100000 "x") }}{{ fail "no match" }}'}, "no match"),
}
"""Files, and what is said about them; all of one tenant. Only time can stop the busy ones."""


@pytest.mark.req("R-404")
@pytest.mark.timeout(240)
async def test_templates_without_end_are_ended_and_the_neighbours_go_on(
    given: Given, running: Running, then: Then
) -> None:
    running.bounds = Bounds(seconds=5.0, grace_seconds=0.2)
    files = {f"{case}/{name}": text for case, (broken, _) in ENDLESS.items() for name, text in broken.items()}
    await given.source(files)
    await running.start()
    for case in ENDLESS:
        await given.component(case, path=case)
    neighbour = await _neighbour(given)
    try:
        await eventually(lambda: _is_ready(given, "neighbour", neighbour))
        assert any("Error" not in then.reasons(case) for case in ENDLESS), "the neighbour waited for all of them"
        for case, (_, says) in ENDLESS.items():
            # One that ended late by the machine's fault is rendered again after a minute.
            await then.shows("Error", "Error", case, saying=says, within=90)
    finally:
        await given.client.delete(metadata_of(Component), "neighbour", neighbour)
        await given.client.delete(metadata_of(Namespace), neighbour)


async def _is_ready(given: Given, name: str, namespace: str) -> bool:
    return (await given.client.get(Component, name, namespace)).is_ready


async def _neighbour(given: Given) -> str:
    """Another tenant's Component."""
    namespace = f"{given.namespace}-next"
    await given.client.apply(Namespace, {"metadata": {"name": namespace}})
    await given.source({"one.yaml": config("one")}, "fine")
    source: JsonObject = {"fluxGitRepository": {"name": "fine", "namespace": given.namespace}}
    body: JsonObject = {"metadata": {"name": "neighbour", "namespace": namespace}, "spec": {"sourceRef": source}}
    await given.client.apply(Component, body)
    return namespace


ASKING = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: answer}
data: {value: "{{ (lookup "v1" "%s" "%s" "%s").metadata.name }}"}
"""


@pytest.mark.req("R-405")
async def test_a_template_asks_the_cluster_with_the_rights_of_its_component(
    given: Given, running: Running, then: Then
) -> None:
    await _tenant(given)
    await given.config("known", a="b")
    await given.secret("hidden", a="b")
    files = {
        "allowed/one.yaml": ASKING % ("ConfigMap", given.namespace, "known"),
        "refused/one.yaml": ASKING % ("Secret", given.namespace, "hidden"),
    }
    await given.source(files)
    await running.start()
    await given.component("allowed", path="allowed", serviceAccountName="tenant")
    await given.component("refused", path="refused", serviceAccountName="tenant")
    await then.ready("allowed")
    assert (await then.config("answer")).data == {"value": "known"}
    await then.shows("Error", "Error", "refused", saying=f"system:serviceaccount:{given.namespace}:tenant")
    await given.component("refused", path="refused")  # as the operator, who may
    await then.shows("Error", "Error", "refused", saying="owner conflict")


async def _tenant(given: Given) -> None:
    """An account that may do all with ConfigMaps and nothing else."""
    metadata: JsonObject = {"name": "tenant", "namespace": given.namespace}
    await given.client.apply(ServiceAccount, {"metadata": metadata})
    rules: list[JsonObject] = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]
    await given.client.apply(Role, {"metadata": metadata, "rules": [*rules]})
    reference: JsonObject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "tenant"}
    subjects: JsonObject = {"kind": "ServiceAccount", "name": "tenant", "namespace": given.namespace}
    await given.client.apply(RoleBinding, {"metadata": metadata, "roleRef": reference, "subjects": [subjects]})
    user = permissions.account("tenant", given.namespace)
    await permissions.count(given.client, user, permissions.on("configmaps", "update", given.namespace))


INVALID: dict[str, tuple[dict[str, Any], str]] = {
    "interval": ({"reapplyInterval": "soon"}, "spec.reapplyInterval: 'soon'"),
    "negative": ({"reapplyInterval": "-5m"}, "spec.reapplyInterval: '-5m' is negative"),
    "values": ({"values": ["a", "list"]}, "spec.values"),
    "patch": ({"postBuild": {"patches": [{"patch": "no patch at all"}]}}, "patch"),
    "namespace": ({"namespace": "Not_A_Namespace"}, "Not_A_Namespace"),
    "path-above": ({"path": "../../etc"}, "../../etc"),
    "kubeconfig": ({"kubeConfig": {"secretRef": {"name": "garbage"}}}, "kubeconfig in secret {home}/garbage"),
    "values-from": ({"valuesFrom": [{"name": "garbage", "key": "list"}]}, "{home}/garbage"),
}


@pytest.mark.req("R-407")
async def test_what_the_schema_cannot_refuse_the_pass_does_and_names_the_field(
    given: Given, running: Running, then: Then
) -> None:
    await given.source({"one.yaml": manifest("ConfigMap", "one")})
    await given.secret("garbage", value="{[ nothing to read", list="[1, 2]")
    await running.start()
    for case, (spec, _) in INVALID.items():
        await given.component(case, **spec)
    for case, (_, says) in INVALID.items():
        await then.shows("Error", "Error", case, saying=says.format(home=given.namespace))
    assert not await then.exists(ConfigMap, "one")
    for case in INVALID:
        await given.deleted(case)
    for case in INVALID:
        await then.gone(case)
