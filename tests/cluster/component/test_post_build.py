"""After rendering: variables are substituted, then patches and images, whatever made the objects."""

from __future__ import annotations

from typing import Any

import pytest

from stellwerk.api.apps import Deployment
from stellwerk.api.core import ConfigMap
from stellwerk.kube.types.model import dig, unstructured
from stellwerk.operators.component.api import RECONCILER
from tests.cluster.component.given import Given
from tests.cluster.component.manifests import manifest
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then

VARIABLES = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: variables}
data:
  default: "${VAR:-x}"
  literal: "$${VAR}"
  upper: "${NAME^^}"
  both: "${BOTH}"
  settings: "${REGION}"
  unknown: "[${NOBODY}]"
  plain: "$NAME"
  sliced: "${NAME:1:2}${#NAME}"
"""
UNTOUCHED = f"""\
apiVersion: v1
kind: ConfigMap
metadata:
  name: untouched
  annotations: {{{RECONCILER}/disableSubstitution: "true"}}
data: {{value: "${{NAME}} $${{NAME}}"}}
"""


async def test_variables_come_from_secrets_and_config_maps_and_what_the_spec_says_wins(
    given: Given, running: Running, then: Then
) -> None:
    await given.source({"variables.yaml": VARIABLES, "untouched.yaml": UNTOUCHED})
    await given.secret("first", NAME="john", BOTH="first")
    await given.secret("second", BOTH="second")
    await given.config("settings", REGION="eu")
    sources = [{"name": "first"}, {"name": "second"}, {"kind": "ConfigMap", "name": "settings"}]
    await given.component(postBuild={"substituteFrom": sources, "substitute": {"BOTH": "inline"}})
    await running.start()
    await then.ready()
    assert (await then.config("variables")).data == {
        "default": "x",
        "literal": "${VAR}",
        "upper": "JOHN",
        "both": "inline",
        "settings": "eu",
        "unknown": "[]",
        "plain": "$NAME",
        "sliced": "oh4",
    }
    assert (await then.config("untouched")).data == {"value": "${NAME} $${NAME}"}


async def test_a_variable_may_become_a_number_and_without_any_variable_nothing_is_substituted(
    given: Given, running: Running, then: Then
) -> None:
    app = CHART["templates/app.yaml"].replace("replicas: 1", "replicas: ${COUNT}")
    await given.source({"app/app.yaml": app, "config/config.yaml": VARIABLES})
    await running.start()
    await given.component(path="app", postBuild={"substitute": {"COUNT": "2"}})
    await given.component("other", path="config")
    await then.ready()
    found = await given.client.get(Deployment, "app", given.namespace)
    assert found.spec.replicas == 2
    await then.ready("other")
    assert (await then.config("variables")).data["default"] == "${VAR:-x}"


@pytest.mark.parametrize(("text", "why"), [("${v-d}", "missing closing brace"), ("${v^x}", "bad substitution")])
async def test_a_variable_that_cannot_be_read_is_an_error_about_its_object(
    given: Given, running: Running, then: Then, text: str, why: str
) -> None:
    await given.source({"one.yaml": manifest("ConfigMap", "one", {"data": {"value": text}})})
    await given.component(postBuild={"substitute": {"v": "1"}})
    await running.start()
    await then.shows("Error", "Error", saying=why)
    await then.shows("Error", "Error", saying="ConfigMap")
    assert not await then.exists(ConfigMap, "one")


CHART = {
    "Chart.yaml": "apiVersion: v2\nname: app\nversion: 1.0.0\n",
    "templates/app.yaml": """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: app, labels: {tier: front}}
spec:
  replicas: 1
  selector: {matchLabels: {app: app}}
  template:
    metadata: {labels: {app: app}}
    spec:
      containers:
      - {name: main, image: "registry.example.com/app:1.0"}
      - {name: helper, image: "registry.example.com/helper:1.0"}
""",
    "templates/config.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {stage: '${STAGE}'}\n",
}


async def test_patches_and_images_are_applied_to_a_chart_after_substitution(
    given: Given, running: Running, then: Then
) -> None:
    patches: list[dict[str, Any]] = [
        {
            "target": {"kind": "ConfigMap", "name": "set.*"},
            "patch": f"""\
apiVersion: v1
kind: ConfigMap
metadata:
  name: any
  annotations: {{{RECONCILER}/delete-policy: orphan}}
data: {{literal: "${{STAGE}}"}}
""",
        },
        {
            "target": {"labelSelector": "tier=front"},
            "patch": '[{"op": "replace", "path": "/spec/replicas", "value": 2}]',
        },
        {"patch": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {untargeted: 'yes'}\n"},
    ]
    images = [
        {"name": "registry.example.com/app", "newName": "mirror.example.com/app", "newTag": "2.0"},
        {"name": "registry.example.com/helper", "digest": f"sha256:{'0' * 64}"},
    ]
    await given.source(CHART)
    await given.component(postBuild={"substitute": {"STAGE": "prod"}, "patches": patches, "images": images})
    await running.start()
    ready = await then.ready()
    assert (await then.config("settings")).data == {"stage": "prod", "literal": "${STAGE}", "untargeted": "yes"}
    app = await then.free_form(unstructured(Deployment.resource), "app")
    assert app.at("spec", "replicas") == 2
    containers = app.at("spec", "template", "spec", "containers")
    assert isinstance(containers, list)
    assert [dig(container, "image") for container in containers] == [
        "mirror.example.com/app:2.0",
        f"registry.example.com/helper@sha256:{'0' * 64}",
    ]
    assert {item.name: item.delete_policy for item in ready.status.inventory} == {"settings": "Orphan", "app": "Delete"}
    await given.deleted()
    await then.gone()
    assert await then.exists(ConfigMap, "settings")
