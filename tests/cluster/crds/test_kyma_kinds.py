"""The API server takes the kinds of the lifecycle manager as they are, and refuses what they forbid."""

from __future__ import annotations

import pytest
from tests.cluster.crds.test_definitions import installed, true_conditions, versions
from tests.kubectl import kubectl, tried

from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types import text_forms
from stellwerk.kube.types.errors import Invalid
from stellwerk.kube.types.model import JsonObject, Kind, Unstructured, dig, unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.kyma import api
from stellwerk.operators.kyma.api import Kyma
from stellwerk.operators.kyma.api_manifest import Manifest
from stellwerk.operators.kyma.api_module import ModuleReleaseMeta, ModuleTemplate
from stellwerk.operators.kyma.api_watcher import Watcher
from stellwerk.testing.eventually import eventually


def body(kind: type[Kind], spec: JsonObject) -> JsonObject:
    return {
        "apiVersion": kind.resource.api_version,
        "kind": kind.resource.kind,
        "metadata": {"name": "tried", "namespace": "default"},
        "spec": spec,
    }


def kyma(**spec: object) -> JsonObject:
    return body(Kyma, {"channel": "regular", **spec})  # type: ignore[dict-item]  # a test gives JSON


def module(**fields: object) -> JsonObject:
    return kyma(modules=[{"name": "keda", **fields}])


def template(**spec: object) -> JsonObject:
    return body(ModuleTemplate, {"descriptor": {"any": ["thing"]}, **spec})  # type: ignore[dict-item]  # as above


def release(**spec: object) -> JsonObject:
    return body(ModuleReleaseMeta, {"moduleName": "keda", **spec})  # type: ignore[dict-item]  # as above


def channel(version: str, name: str = "regular") -> JsonObject:
    return release(channels=[{"channel": name, "version": version}])


def mandatory(version: str) -> JsonObject:
    return release(mandatory={"version": version})


def manifest(**spec: object) -> JsonObject:
    install: JsonObject = {"name": "raw-manifest", "source": {"repo": "r", "whatever": {"is": 1}}}
    return body(Manifest, {"install": install, "remote": True, **spec})  # type: ignore[dict-item]  # as above


def watcher(**spec: object) -> JsonObject:
    whole: JsonObject = {
        "serviceInfo": {"name": "klm-event-service", "namespace": "kcp-system", "port": 8082},
        "resourceToWatch": {"group": "operator.kyma-project.io", "version": "*", "resource": "kymas"},
        "field": "spec",
        "gateway": {"selector": {"matchLabels": {"app": "klm"}}},
    }
    return body(Watcher, {**whole, **spec})  # type: ignore[dict-item]  # as above


RESOURCES = {each.resource.kind: each.resource for each in (Kyma, Manifest, ModuleTemplate, ModuleReleaseMeta, Watcher)}
COMPONENT = "kyma-project.io/module/keda"
ACCEPTED = [
    kyma(),
    *(kyma(channel=name) for name in ("abc", "a" * 32, "none")),
    *(module(channel=name) for name in ("abc", "a" * 32)),
    module(customResourcePolicy="Ignore", managed=False, controller="c", remoteModuleTemplateRef="r"),
    kyma(modules=[{"name": "ns/keda"}, {"name": COMPONENT}], skipMaintenanceWindows=True),
    template(),
    *(template(version=each) for each in text_forms.MODULE_VERSION.examples),
    *(template(moduleName=each) for each in text_forms.MODULE_NAME.examples),
    *(template(channel=each) for each in text_forms.CHANNEL_OR_EMPTY.examples),
    template(data={"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cr"}, "data": {"a": "b"}}),
    template(resources=[{"name": "rawManifest", "link": "https://example.com/m.yaml"}]),
    template(manager={"group": "apps", "version": "v1", "kind": "Deployment", "name": "m"}),
    *(channel(each) for each in text_forms.MODULE_VERSION.examples),
    release(channels=[]),
    release(channels=[{"channel": name, "version": "1.0.0"} for name in ("regular", "fast")]),
    *(mandatory(each) for each in text_forms.FULL_SEMANTIC_VERSION.examples),
    *(release(channels=[], ocmComponentName=each) for each in text_forms.OCM_COMPONENT_NAME.examples),
    release(channels=[], kymaSelector={"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}),
    manifest(),
    manifest(resource=None, config={"type": ""}, localizedImages=["a/b:1"], customResourcePolicy="Ignore"),
    watcher(),
    watcher(field="status", manager="lifecycle-manager", labelsToWatch={"a": "b"}),
]
LETTERS = text_forms.CHANNEL.sentence
ONE_OF = "exactly one of 'mandatory' or 'channels' must be specified"
REFUSED: list[tuple[JsonObject, str]] = [
    (body(Kyma, {}), "spec.channel: Required value"),
    (kyma(channel="Regular"), LETTERS),
    (kyma(channel="fast-1"), LETTERS),
    (kyma(channel="ab"), "should be at least 3 chars long"),
    (kyma(channel="a" * 33), "may not be more than 32"),
    (module(channel="Regular"), "spec.modules[0].channel"),
    (module(channel="ab"), "should be at least 3 chars long"),
    (module(channel="a" * 33), "may not be more than 32"),
    (module(customResourcePolicy="Keep"), 'supported values: "CreateAndDelete", "Ignore"'),
    (kyma(modules=[{"channel": "fast"}]), "spec.modules[0].name: Required value"),
    (kyma(modules=[{"name": "keda"}, {"name": "keda"}]), "Duplicate value"),
    (body(ModuleTemplate, {"moduleName": "keda"}), "spec.descriptor: Required value"),
    *(
        (template(version=each), text_forms.MODULE_VERSION.sentence)
        for each in text_forms.MODULE_VERSION.counter_examples
    ),
    (template(version="1.0.0-" + "a" * 27), "may not be more than 32"),
    *((template(moduleName=each), text_forms.MODULE_NAME.sentence) for each in text_forms.MODULE_NAME.counter_examples),
    (template(moduleName="a" * 65), "may not be more than 64"),
    *(
        (template(channel=each), text_forms.CHANNEL_OR_EMPTY.sentence)
        for each in text_forms.CHANNEL_OR_EMPTY.counter_examples
    ),
    (template(channel="a" * 33), "may not be more than 32"),
    (template(resources=[{"name": "a", "link": "not an address"}]), "link"),
    (template(resources=[{"name": "a", "link": "https://a"}, {"name": "a", "link": "https://b"}]), "Duplicate value"),
    (template(info={"repository": "r"}), "spec.info.documentation: Required value"),
    (template(data={"a": "b"}), "spec.data.apiVersion: Required value"),
    (body(ModuleReleaseMeta, {"channels": []}), "spec.moduleName: Required value"),
    (release(), ONE_OF),
    (release(channels=[], mandatory={"version": "1.0.0"}), ONE_OF),
    (channel("1.0.0", "ab"), "should be at least 3 chars long"),
    (channel("1.0.0", "Fast"), "spec.channels[0].channel"),
    (release(channels=[{"channel": "fast"}]), "spec.channels[0].version: Required value"),
    (release(channels=[{"channel": "fast", "version": "1.0.0"}] * 2), "Duplicate value"),
    *((channel(each), "spec.channels[0].version") for each in text_forms.MODULE_VERSION.counter_examples),
    *(
        (mandatory(each), text_forms.FULL_SEMANTIC_VERSION.sentence)
        for each in text_forms.FULL_SEMANTIC_VERSION.counter_examples
    ),
    *(
        (release(channels=[], ocmComponentName=each), text_forms.OCM_COMPONENT_NAME.sentence)
        for each in text_forms.OCM_COMPONENT_NAME.counter_examples
    ),
    (release(channels=[], ocmComponentName="a.io/" + "a" * 251), "may not be more than 255"),
    (body(Manifest, {"remote": True}), "spec.install: Required value"),
    (body(Manifest, {"install": {"name": "n", "source": {}}}), "spec.remote: Required value"),
    (manifest(config={"type": "zip"}), "spec.config.type"),
    (manifest(manager={"group": "apps", "version": "v1", "kind": "Deployment"}), "spec.manager.name: Required value"),
    (watcher(field="metadata"), 'supported values: "spec", "status"'),
    (watcher(gateway={}), "spec.gateway.selector: Required value"),
    (watcher(resourceToWatch={"group": "g", "version": "v1"}), "spec.resourceToWatch.resource: Required value"),
]


@pytest.mark.req("KYMA-28", "KYMA-58")
async def test_each_field_has_the_bounds_of_the_original_and_a_sentence_about_them(client: Client) -> None:
    for definition in api.DEFINITIONS:
        kept = await installed(client, definition)
        assert true_conditions(kept) == {"NamesAccepted", "Established"}
        assert [dig(each, "schema") for each in versions(kept.body)] == [
            dig(each, "schema") for each in versions(definition.body())
        ]

    async def answer(obj: JsonObject) -> str:
        try:
            await client.create(unstructured(RESOURCES[str(obj["kind"])]), obj, dry_run=True)
        except Invalid as refused:
            return str(refused)
        return ""

    assert [(obj["spec"], said) for obj in ACCEPTED if (said := await answer(obj))] == []
    assert [(obj["spec"], said) for obj, part in REFUSED if part not in (said := await answer(obj))] == []


async def test_people_see_the_state_and_its_reason(client: Client, bare_cluster: LocalCluster) -> None:
    await installed(client, api.KYMAS)
    kymas = unstructured(Kyma.resource)
    await client.create(kymas, kyma())
    status: JsonObject = {"state": "Error", "lastOperation": {"operation": "no access secret"}}

    async def write(status: JsonObject) -> Unstructured:
        return await client.patch(kymas, "tried", "default", MergePatch({"status": status}), subresource="status")

    try:
        await write(status)
        await eventually(lambda: tried(bare_cluster.kubeconfig, "explain", "kyma.spec.modules").returncode == 0)
        shown = kubectl(bare_cluster.kubeconfig, "get", "kyma", "-n", "default")
        assert [word in shown for word in ("STATE", "REASON", "AGE", "Error", "no access secret")] == [True] * 5
        assert "without updates" in kubectl(bare_cluster.kubeconfig, "explain", "kyma.spec.modules.managed")
    finally:
        await client.delete(kymas, "tried", "default")
