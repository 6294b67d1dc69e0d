"""A real API server takes our CustomResourceDefinitions as they are and enforces what they say."""

from __future__ import annotations

import asyncio
import contextlib
from importlib.resources import files
from typing import Annotated, ClassVar

import pytest
from deploy import kubernetes_schemas
from tests.kubectl import kubectl, tried

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.schema import kubernetes
from stellwerk.kube.schema.crd import Definition, Version, documented
from stellwerk.kube.types import text_forms
from stellwerk.kube.types.errors import Invalid, NotServed
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, Kind, Unstructured, decode_json, dig, unstructured
from stellwerk.kube.types.object_meta import Record
from stellwerk.kube.watch.watch import Watcher
from stellwerk.kube.watch.watch_states import Changed, Synced
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.btp import api
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.operators.btp.module import operand
from stellwerk.operators.cap import api as cap
from stellwerk.runtime.clock import SystemClock
from stellwerk.testing.eventually import eventually

DEFINITIONS = unstructured(CustomResourceDefinition.resource)
OPERATORS = unstructured(BtpOperator.resource)


def true_conditions(definition: Unstructured) -> set[str]:
    conditions = definition.at("status", "conditions")
    listed = conditions if isinstance(conditions, list) else []
    return {str(dig(c, "type")) for c in listed if dig(c, "status") == "True"}


async def installed(client: Client, definition: Definition) -> Unstructured:
    """The definition on the server, once the server serves it."""
    await client.apply(DEFINITIONS, definition.body(), field_validation="Strict")
    watcher = Watcher(client, DEFINITIONS, fields=f"metadata.name={definition.name}", clock=SystemClock())
    async with asyncio.timeout(30), contextlib.aclosing(watcher.changes()) as changes:
        async for change in changes:
            match change:
                case Synced(objects=[found]) | Changed(obj=found) if "Established" in true_conditions(found):
                    await served(client, definition)
                    return found
                case _:
                    continue
    raise AssertionError("the watch ended")


async def served(client: Client, definition: Definition) -> None:
    """The server looks at its own definitions through a cache, and may serve a kind a moment after it says so."""

    async def are_served() -> bool:
        try:
            for version in definition.versions:
                if version.served:
                    await client.list(unstructured(version.kind.resource), limit=1)
        except NotServed:
            return False
        return True

    await eventually(are_served, describe=f"{definition.name} is served")


@pytest.mark.parametrize(
    "definition",
    [api.DEFINITION, operand.SERVICE_INSTANCES, operand.SERVICE_BINDINGS, *cap.DEFINITIONS],
    ids=lambda d: str(d.name),
)
async def test_a_definition_is_structural_and_kept_as_it_is(client: Client, definition: Definition) -> None:
    kept = await installed(client, definition)

    assert true_conditions(kept) == {"NamesAccepted", "Established"}
    for mine, theirs in zip(versions(definition.body()), versions(kept.body), strict=True):
        assert dig(theirs, "schema") == dig(mine, "schema")


def versions(body: JsonObject) -> list[JsonObject]:
    listed = dig(body, "spec", "versions")
    assert isinstance(listed, list)
    return [version for version in listed if isinstance(version, dict)]


def cr(name: str, **fields: object) -> JsonObject:
    metadata: JsonObject = {"name": name, "namespace": "default"}
    body: JsonObject = {"apiVersion": "operator.kyma-project.io/v1alpha1", "kind": "BtpOperator", "metadata": metadata}
    return {**body, **fields}  # type: ignore[dict-item]  # a test gives JSON


@pytest.mark.parametrize("spec", [{}, {"spec": None}, {"spec": {}}, {"spec": {"somebodys": "idea"}}])
async def test_any_spec_is_taken_and_unknown_keys_are_dropped(client: Client, spec: JsonObject) -> None:
    await installed(client, api.DEFINITION)

    made = await client.create(OPERATORS, cr("any", **spec))

    try:
        assert not made.at("spec")
    finally:
        await client.delete(OPERATORS, "any", "default")


async def test_a_status_needs_a_state_that_is_one_of_the_five(client: Client) -> None:
    await installed(client, api.DEFINITION)
    await client.create(OPERATORS, cr("judged"))

    async def write(status: JsonObject) -> Unstructured:
        return await client.patch(OPERATORS, "judged", "default", MergePatch({"status": status}), subresource="status")

    try:
        with pytest.raises(Invalid, match=r"status\.state"):
            await write({"conditions": []})
        with pytest.raises(Invalid, match=r"status\.state"):
            await write({"state": "Broken"})
        assert (await write({"state": "Warning"})).at("status", "state") == "Warning"
    finally:
        await client.delete(OPERATORS, "judged", "default")


async def test_people_see_readiness_state_and_reason(client: Client, bare_cluster: LocalCluster) -> None:
    await installed(client, api.DEFINITION)
    await client.create(OPERATORS, cr("shown"))
    condition: JsonObject = {
        "type": "Ready",
        "status": "False",
        "reason": "MissingSecret",
        "message": "no Secret",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status: JsonObject = {"state": "Warning", "conditions": [condition]}
    await client.patch(OPERATORS, "shown", "default", MergePatch({"status": status}), subresource="status")

    try:
        # What kubectl knows of a kind is published a moment after the kind is served.
        await eventually(lambda: tried(bare_cluster.kubeconfig, "explain", "btp.status.state").returncode == 0)
        table = kubectl(bare_cluster.kubeconfig, "get", "btp", "-n", "default").splitlines()
        assert [line.split()[:4] for line in table] == [
            ["NAME", "READY", "STATE", "REASON"],
            ["shown", "False", "Warning", "MissingSecret"],
        ]
        assert "no Secret" in kubectl(bare_cluster.kubeconfig, "get", "btp", "-n", "default", "-o", "wide")
        assert "shown" in kubectl(bare_cluster.kubeconfig, "get", "kyma-btp-operator", "-n", "default")
        assert "the module works" in kubectl(bare_cluster.kubeconfig, "explain", "btp.status.state")
    finally:
        await client.delete(OPERATORS, "shown", "default")


async def test_the_operands_kinds_refuse_what_they_must(client: Client) -> None:
    await installed(client, operand.SERVICE_BINDINGS)
    bindings = unstructured(Resource("services.cloud.sap.com", "v1", "ServiceBinding", "servicebindings", True))
    binding: JsonObject = {
        "apiVersion": "services.cloud.sap.com/v1",
        "kind": "ServiceBinding",
        "metadata": {"name": "b", "namespace": "default"},
    }
    parameters: JsonObject = {"deep": {"free": [1, "two"]}}

    with pytest.raises(Invalid, match="serviceInstanceName"):
        await client.create(bindings, {**binding, "spec": {}})
    with pytest.raises(Invalid, match="externalName"):
        await client.create(bindings, {**binding, "spec": {"serviceInstanceName": "i", "externalName": "x" * 101}})
    made = await client.create(bindings, {**binding, "spec": {"serviceInstanceName": "i", "parameters": parameters}})
    await client.delete(bindings, "b", "default")

    assert made.at("spec", "parameters") == parameters


async def test_the_schemas_of_pod_parts_are_those_that_the_api_server_publishes(client: Client) -> None:
    kept = files("stellwerk.kube.schema").joinpath(kubernetes.FILE).read_bytes()

    assert decode_json(kept) == await kubernetes_schemas.published(client), "run `python deploy/kubernetes_schemas.py`"


class Texts(Record, frozen=True, kw_only=True):
    host: Annotated[str, documented("A text.", form=text_forms.HOST)] = ""
    host_or_empty: Annotated[str, documented("A text.", form=text_forms.HOST_OR_EMPTY)] = ""
    time_of_day: Annotated[str, documented("A text.", form=text_forms.TIME_OF_DAY)] = ""
    semantic_version: Annotated[str, documented("A text.", form=text_forms.SEMANTIC_VERSION)] = ""
    go_duration: Annotated[str, documented("A text.", form=text_forms.GO_DURATION)] = ""
    quantity: Annotated[str, documented("A text.", pattern=text_forms.QUANTITY.pattern)] = ""


class Formed(Kind, frozen=True, kw_only=True):
    """A kind with a text of each form."""

    resource: ClassVar[Resource] = Resource("tests.stellwerk.io", "v1", "Formed", "formed", namespaced=True)

    spec: Annotated[Texts, documented("The texts.")]


async def test_a_text_without_its_form_is_answered_with_a_sentence(client: Client, bare_cluster: LocalCluster) -> None:
    await installed(client, Definition(versions=[Version(kind=Formed)]))
    forms = {
        "host": text_forms.HOST,
        "hostOrEmpty": text_forms.HOST_OR_EMPTY,
        "timeOfDay": text_forms.TIME_OF_DAY,
        "semanticVersion": text_forms.SEMANTIC_VERSION,
        "goDuration": text_forms.GO_DURATION,
        "quantity": text_forms.QUANTITY,
    }

    async def create(field: str, text: str) -> None:
        body: JsonObject = {
            "apiVersion": Formed.resource.api_version,
            "kind": "Formed",
            "metadata": {"name": "tried", "namespace": "default"},
            "spec": {field: text},
        }
        await client.create(unstructured(Formed.resource), body, dry_run=True)

    for field, form in forms.items():
        for text in form.examples:
            await create(field, text)
        for text in form.counter_examples:
            with pytest.raises(Invalid) as refused:
                await create(field, text)
            assert f"spec.{field}: Invalid value: " in str(refused.value), text
            assert f": {form.sentence}" in str(refused.value), text

    wrong = "{apiVersion: tests.stellwerk.io/v1, kind: Formed, metadata: {name: x}, spec: {host: A_}}"
    assert text_forms.HOST.sentence in tried(bare_cluster.kubeconfig, "apply", "-f", "-", stdin=wrong).stderr
