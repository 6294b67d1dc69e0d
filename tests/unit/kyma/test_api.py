"""The kinds of the lifecycle manager are read leniently, written exactly, and described in full."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest
from tests.unit import definitions

from stellwerk.kube.schema.crd import Definition
from stellwerk.kube.types.model import JsonObject, Kind, decode_json, dig, to_json_object, view
from stellwerk.operators.kyma import api, labels
from stellwerk.operators.kyma.api import Kyma, Module, ModuleStatus
from stellwerk.operators.kyma.api_manifest import Manifest, ManifestSpec, ManifestStatus, SyncedResource
from stellwerk.operators.kyma.api_module import MODULE_RELEASE_METAS, ModuleReleaseMeta, ModuleTemplate
from stellwerk.operators.kyma.api_status import LastOperation, State
from stellwerk.operators.kyma.api_watcher import Watcher, WatcherStatus

REFERENCE = definitions.SHARED / "api" / "kyma"
KINDS: list[type[Kind]] = [Kyma, Manifest, ModuleTemplate, ModuleReleaseMeta, Watcher]

OP = "operator.kyma-project.io"


def test_every_key_that_clusters_of_the_original_have_is_spelled_as_there() -> None:
    below_the_group: Mapping[str, str] = {
        labels.KYMA_NAME_LABEL: "kyma-name",
        labels.MANAGED_BY_LABEL: "managed-by",
        labels.WATCHED_BY_LABEL: "watched-by",
        labels.SKIP_RECONCILIATION_LABEL: "skip-reconciliation",
        labels.BETA_LABEL: "beta",
        labels.INTERNAL_LABEL: "internal",
        labels.SYNC_LABEL: "sync",
        labels.MODULE_NAME_LABEL: "module-name",
        labels.CHANNEL_LABEL: "channel",
        labels.CONTROLLER_NAME_LABEL: "controller-name",
        labels.MANDATORY_MODULE_LABEL: "mandatory-module",
        labels.SIGNATURE_LABEL: "signature",
        labels.PURPOSE_LABEL: "purpose",
        labels.WATCHER_GATEWAY_LABEL: "watcher-gateway",
        labels.POD_RESTART_LABEL: "pod-restart-trigger",
        labels.FQDN_ANNOTATION: "fqdn",
        labels.OCM_COMPONENT_NAME_ANNOTATION: "ocm-component-name",
        labels.IS_UNMANAGED_ANNOTATION: "is-unmanaged",
        labels.IS_CLUSTER_SCOPED_ANNOTATION: "is-cluster-scoped",
        labels.MODULE_VERSION_ANNOTATION: "module-version",
        labels.DISCLAIMER_ANNOTATION: "managed-by-reconciler-disclaimer",
        labels.INJECT_DATA_ANNOTATION: "inject-data-from-kcp",
        labels.KYMA_FINALIZER: "Kyma",
        labels.WATCHER_FINALIZER: "watcher",
        labels.PURGE_FINALIZER: "purge-finalizer",
        labels.FINALIZER_MANAGER: "lifecycle-manager",
    }
    assert [*below_the_group] == [f"{OP}/{suffix}" for suffix in below_the_group.values()]
    assert labels.OWNED_BY_ANNOTATION == "deprecated-operator.kyma-project.io/owned-by"
    assert labels.MANDATORY_MODULE_FINALIZER == "operator.kyma-project.io/mandatory-module"
    assert (labels.MANIFEST_FINALIZER, labels.LABEL_REMOVAL_FINALIZER, labels.RESOURCE_FINALIZER) == (
        "declarative.kyma-project.io/finalizer",
        "label-removal-finalizer",
        "resource.kyma-project.io/finalizer",
    )
    assert {
        labels.FIELD_MANAGER,
        labels.MODULE_MANAGER,
        labels.RESOURCE_MANAGER,
        labels.CATALOG_MANAGER,
        labels.SYNC_MANAGER,
    } == {
        "lifecycle-manager",
        "declarative.kyma-project.io/applier",
        "resource.kyma-project.io/finalizer",
        "catalog-sync",
        "kyma-sync-context",
    }
    assert labels.LEASE_NAME == "893110f7.kyma-project.io"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.__name__))
def test_an_object_that_breaks_the_schema_is_still_read(kind: type[Kind]) -> None:
    odd: list[JsonObject] = [
        {},
        {"spec": {}},
        {"spec": {"channel": "NONE", "modules": [{"name": "x", "customResourcePolicy": "Sometimes"}], "unknown": 1}},
        {"spec": {"version": "v1", "install": {}, "field": "metadata", "resource": None}},
        {"status": {}},
    ]
    for body in odd:
        assert view(kind).decode(msgspec.json.encode({"metadata": {"name": "odd"}, **body})).key.name == "odd"


def test_json_that_is_nested_too_deep_makes_an_object_unreadable_and_none_that_is_not() -> None:
    deep: JsonObject = {}
    for _ in range(98):
        deep = {"more": deep}
    specs: list[tuple[type[Kind], JsonObject]] = [
        (ModuleTemplate, {"descriptor": deep}),
        (ModuleTemplate, {"descriptor": {}, "data": deep}),
        (Manifest, {"install": {"name": "raw-manifest", "source": deep}}),
        (Manifest, {"resource": deep}),
    ]
    for kind, spec in specs:
        with pytest.raises(msgspec.ValidationError, match="nested deeper than 100 levels"):
            view(kind).decode(msgspec.json.encode({"metadata": {"name": "deep"}, "spec": spec}))
    text = msgspec.json.encode({"metadata": {"name": "flat"}, "spec": {"descriptor": deep["more"]}})
    assert view(ModuleTemplate).decode(text).key.name == "flat"


def test_a_module_is_managed_and_its_custom_resource_created_unless_it_says_otherwise() -> None:
    module = msgspec.convert({"name": "keda"}, Module)

    assert (module.managed, module.custom_resource_policy) == (True, "CreateAndDelete")
    assert to_json_object(module) == {"name": "keda"}


def test_a_status_has_every_field_that_the_schema_requires_even_if_it_is_empty() -> None:
    item = SyncedResource(group="", version="v1", kind="Namespace", name="shop", namespace="")

    assert to_json_object(ManifestStatus()) == {"state": ""}
    assert to_json_object(WatcherStatus()) == {"state": ""}
    assert to_json_object(LastOperation()) == {"operation": ""}
    assert to_json_object(ModuleStatus(name="keda", state=State.Unset)) == {"name": "keda", "state": ""}
    assert to_json_object(item) == {"group": "", "version": "v1", "kind": "Namespace", "name": "shop", "namespace": ""}
    assert to_json_object(ManifestSpec())["remote"] is False


def test_every_word_for_a_state_is_the_one_of_the_original() -> None:
    assert [*State] == ["Processing", "Deleting", "Ready", "Error", "", "Warning", "Unmanaged"]


@pytest.mark.parametrize("definition", api.DEFINITIONS, ids=lambda each: str(each.name))
def test_one_version_is_served_and_stored_and_the_former_one_is_only_defined(definition: Definition) -> None:
    versions = dig(definition.body(), "spec", "versions")
    assert isinstance(versions, list)
    expected = [("v1beta2", True, True), ("v1beta1", False, False)]

    found = [(dig(each, "name"), dig(each, "served"), dig(each, "storage")) for each in versions]

    assert found == expected[: 1 if definition is MODULE_RELEASE_METAS else 2]


@pytest.mark.parametrize("definition", api.DEFINITIONS, ids=lambda each: str(each.name))
def test_every_field_is_described(definition: Definition) -> None:
    assert definitions.undescribed(definition) == []


@pytest.mark.skipif(not REFERENCE.exists(), reason="the reference schemas are not beside this repository")
@pytest.mark.parametrize("definition", api.DEFINITIONS, ids=lambda each: str(each.name))
def test_every_column_and_field_of_the_original_is_there(definition: Definition) -> None:
    assert definitions.lacking(REFERENCE / f"{definition.name}.json", definition) == []


@pytest.mark.parametrize("definition", api.DEFINITIONS, ids=lambda each: str(each.name))
def test_a_spec_that_is_written_again_has_every_field_that_the_schema_requires(definition: Definition) -> None:
    """Entries of the catalog are copied to remote clusters, whose API servers refuse one that lacks a field."""
    kind = definition.versions[0].kind
    versions = dig(definition.body(), "spec", "versions")
    assert isinstance(versions, list)
    schema = dig(versions[0], "schema", "openAPIV3Schema", "properties", "spec")
    spec = definitions.emptiest(schema)
    assert [*definitions.unset(schema, spec, "")] == [], "the test has made a spec that the schema refuses"

    (shape,) = (field.type for field in msgspec.structs.fields(kind) if field.name == "spec")
    written = decode_json(msgspec.json.encode(msgspec.convert(spec, shape)))

    assert [*definitions.unset(schema, written, "spec")] == []


def test_a_status_of_the_original_is_written_as_it_was_read() -> None:
    moment = "2026-01-31T09:30:00Z"
    condition: JsonObject = {
        "type": "Modules",
        "status": "True",
        "reason": "Ready",
        "message": "",
        "lastTransitionTime": moment,
    }
    operation: JsonObject = {"operation": "kyma is ready", "lastUpdateTime": moment}
    place: JsonObject = {"apiVersion": f"{OP}/v1beta2", "kind": "Manifest", "metadata": {"name": "m", "generation": 3}}
    module: JsonObject = {"name": "keda", "state": "Ready", "fqdn": "f", "ocmComponentName": "f", "channel": "fast"}
    statuses: list[tuple[type[Kind], JsonObject]] = [
        (
            Kyma,
            {
                "state": "Ready",
                "activeChannel": "fast",
                "conditions": [condition],
                "lastOperation": operation,
                "modules": [{**module, "version": "1.0.0", "message": "m", "maintenance": True, "manifest": place}],
            },
        ),
        (
            Manifest,
            {
                "state": "Warning",
                "conditions": [condition],
                "lastOperation": operation,
                "synced": [{"group": "", "version": "v1", "kind": "Namespace", "name": "n", "namespace": ""}],
            },
        ),
        (Watcher, {"state": "Error", "conditions": [condition], "observedGeneration": 2}),
    ]
    for kind, status in statuses:
        text = msgspec.json.encode({"metadata": {"name": "taken-over"}, "status": status})
        assert decode_json(msgspec.json.encode(view(kind).decode(text)))["status"] == status
