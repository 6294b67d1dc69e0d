"""On every way out a Component acts as the identity that applied it, whatever was edited in between.

The API server's audit log has the user that each request impersonated.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json

import msgspec
import pytest

from stellwerk.api.core import ConfigMap, Secret
from stellwerk.api.rbac import ClusterRoleBinding
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import JsonPatch, MergePatch
from stellwerk.kube.types.model import JsonObject, JsonValue, metadata_of, to_json_object
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.component.api import APPROVED_HOOKS_ANNOTATION, OWNER_ID, SEALS, Component
from stellwerk.operators.component.settings import Mode
from stellwerk.testing.cluster import AuditEntry, AuditLog
from tests.cluster.component.conftest import OPERATOR
from tests.cluster.component.given import Given
from tests.cluster.component.manifests import config, manifest
from tests.cluster.component.running import HOME, Running
from tests.cluster.component.test_identities import stalled
from tests.cluster.component.then import Then

CHART = {"Chart.yaml": "apiVersion: v2\nname: app\nversion: 1.0.0\n", "templates/app.yaml": config("app")}
KEEPER = "comp.delete-hooks"
HOOK = manifest("ConfigMap", "bye", annotations={"helm.sh/hook": "pre-delete"})


@pytest.fixture
def audit(component_cluster: LocalCluster, admin: Client) -> AuditLog:
    return AuditLog(component_cluster)


def evil_hooks(name: str) -> bytes:
    """Hooks as the operator packs them, that make the tenant an administrator."""
    body: JsonObject = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    }
    return gzip.compress(json.dumps([{"moments": ["pre-delete"], "weight": 0, "body": body}]).encode())


async def keeper_edited(given: Given, packed: bytes) -> None:
    """The Secret with the hooks holds others."""
    patch = MergePatch({"data": {"hooks": base64.b64encode(packed).decode()}})
    await given.client.patch(metadata_of(Secret), KEEPER, given.namespace, patch, field_manager="attacker")


async def status_edited(given: Given, **fields: JsonValue) -> None:
    """A client that may write the status has done so."""
    patch = MergePatch({"status": {**fields}})
    await given.client.patch(metadata_of(Component), "comp", given.namespace, patch, subresource="status")


async def without_account(given: Given) -> None:
    """The spec names no account any more, and is not reconciled in between."""
    patch = MergePatch({"spec": {"serviceAccountName": None}})
    await given.client.patch(metadata_of(Component), "comp", given.namespace, patch)


OWN = {"components", "events", "blueprintversions", "leases", "selfsubjectaccessreviews"}
"""What the operator writes as itself."""


def writers(audit: AuditLog, namespace: str) -> set[str]:
    """The identities under which the operator wrote objects of the test, rehearsals included; empty text: its own."""

    def counts(entry: AuditEntry) -> bool:
        return entry.user == OPERATOR and entry.is_write and entry.resource not in OWN and entry.status < 400

    return {entry.acting_as for entry in audit.entries(counts) if entry.namespace in (namespace, "")}


def accounts(namespace: str, *names: str) -> set[str]:
    return {f"system:serviceaccount:{namespace}:{name}" for name in names}


@pytest.mark.req("R-509")
@pytest.mark.parametrize("mode", [Mode.STRICT, Mode.COMPATIBLE])
async def test_an_edited_keeper_and_a_dropped_account_give_nobody_new_rights(
    given: Given, running: Running, then: Then, audit: AuditLog, mode: Mode
) -> None:
    evil = f"evil-{given.namespace}"
    await given.account("deployer", "edit")
    await given.source(CHART | {"templates/bye.yaml": HOOK})
    await given.component(serviceAccountName="deployer", deleteHooks="Run")
    await running.start(tenancy=mode)
    ready = await then.ready()
    assert {ready.status.applied_as} == accounts(then.namespace, "deployer")
    await running.stop()

    await keeper_edited(given, evil_hooks(evil))
    await without_account(given)
    await given.deleted()
    await running.start(tenancy=mode)
    refused = await then.shows("Error", "Error", saying="are not the ones that were sealed")
    assert stalled(refused) == "DeleteHooksNotSealed"
    assert await then.exists(ConfigMap, "app")
    assert not await then.exists(ClusterRoleBinding, evil, "")

    await given.client.patch(
        metadata_of(Component), "comp", given.namespace, MergePatch({"spec": {"deleteHooks": "Skip"}})
    )
    await then.gone()
    assert writers(audit, then.namespace) == accounts(then.namespace, "deployer")


@pytest.mark.req("R-509")
async def test_edited_hooks_that_are_approved_have_no_other_rights_than_the_account_that_applied(
    given: Given, running: Running, then: Then, audit: AuditLog
) -> None:
    evil = f"evil-{given.namespace}"
    await given.account("deployer", "edit")
    await given.source(CHART | {"templates/bye.yaml": HOOK})
    await given.component(serviceAccountName="deployer", deleteHooks="Run")
    await running.start()
    await then.ready()
    await running.stop()
    packed = evil_hooks(evil)
    await keeper_edited(given, packed)
    await without_account(given)
    await given.annotated(**{APPROVED_HOOKS_ANNOTATION: hashlib.sha256(packed).hexdigest()})
    await given.deleted()
    await running.start()
    failed = await then.shows("Error", "Error", saying="clusterrolebindings")
    assert f"system:serviceaccount:{then.namespace}:deployer" in failed.status.conditions[0].message
    assert not await then.exists(ClusterRoleBinding, evil, "")
    assert writers(audit, then.namespace) == accounts(then.namespace, "deployer")


@pytest.mark.req("R-509")
@pytest.mark.parametrize("spec", [{"serviceAccountName": None}, {"serviceAccountName": "admin"}])
@pytest.mark.parametrize("mode", [Mode.STRICT, Mode.COMPATIBLE])
async def test_a_deletion_acts_as_the_account_that_applied_though_the_spec_names_none_or_another(
    given: Given, running: Running, then: Then, audit: AuditLog, mode: Mode, spec: dict[str, JsonValue]
) -> None:
    await given.account("deployer", "edit")
    await given.account("admin", "admin")
    await given.source(CHART | {"templates/bye.yaml": HOOK})
    await given.component(serviceAccountName="deployer", deleteHooks="Run")
    await running.start(tenancy=mode)
    await then.ready()
    await running.stop()
    await given.client.patch(metadata_of(Component), "comp", given.namespace, MergePatch({"spec": {**spec}}))
    await given.deleted()
    await running.start(tenancy=mode)
    await then.gone()
    assert writers(audit, then.namespace) == accounts(then.namespace, "deployer")
    assert not await then.exists(ConfigMap, "app")


@pytest.mark.req("R-509")
async def test_an_identity_that_another_client_wrote_into_the_status_counts_for_nothing(
    given: Given, running: Running, then: Then, audit: AuditLog
) -> None:
    await given.account("deployer", "edit")
    await given.source(CHART | {"templates/bye.yaml": HOOK})
    await given.component(serviceAccountName="deployer", deleteHooks="Run")
    await running.start()
    await then.ready()
    await running.stop()
    await status_edited(given, appliedAs="operator")
    await keeper_edited(given, evil_hooks("evil"))
    await given.deleted()
    await running.start()
    await then.shows("Error", "Error", saying="are not the ones that were sealed")
    await given.component(serviceAccountName="deployer", deleteHooks="Skip")
    await then.gone()
    assert writers(audit, then.namespace) == accounts(then.namespace, "deployer")


@pytest.mark.req("R-509")
async def test_a_sealed_keeper_of_another_component_is_not_believed(given: Given, running: Running, then: Then) -> None:
    """The tenant of the test's namespace copies Secret and status of a Component that may do more."""
    far = Given(given.client, given.server, await given.a_namespace())
    await far.source(CHART | {"templates/evil.yaml": HOOK})
    await far.component(deleteHooks="Run")
    await given.source(CHART | {"templates/bye.yaml": HOOK})
    await given.component(deleteHooks="Run")
    await running.start()
    await then.ready()
    await running.rests()
    await running.stop()
    there = await far.client.get(Component, "comp", far.namespace)
    assert there.is_ready
    packed = (await far.client.get(Secret, KEEPER, far.namespace)).decoded()["hooks"]
    await keeper_edited(given, packed)
    await status_edited(given, deleteHookSeals=[*there.status.delete_hook_seals])
    await given.deleted()
    await running.start()
    await then.shows("Error", "Error", saying="are not the ones that were sealed")
    assert not await then.exists(ConfigMap, "bye")
    await far.deleted()
    await then.absent(Component, "comp", far.namespace)
    await given.component(deleteHooks="Skip")
    await then.gone()


@pytest.mark.req("R-509")
async def test_seals_outlast_the_process_and_a_lost_key_is_renewed_on_living_components_and_named_on_others(
    given: Given, running: Running, then: Then
) -> None:
    await given.source(CHART | {"templates/bye.yaml": HOOK})
    other = {"Chart.yaml": CHART["Chart.yaml"], "templates/app.yaml": config("other")}
    await given.source(other | {"templates/bye.yaml": HOOK.replace("bye", "gone")}, "living")
    await given.component(deleteHooks="Run")
    await given.component("living", "living", deleteHooks="Run")
    await running.start()
    await then.ready()
    before = await then.ready("living")
    key = (await given.client.get(Secret, SEALS, HOME)).decoded()
    await running.stop()
    await running.start()
    await running.rests()
    assert (await given.client.get(Secret, SEALS, HOME)).decoded() == key
    assert then.history.latest["living"].status == before.status
    await running.stop()

    await given.client.delete(metadata_of(Secret), SEALS, HOME)
    await given.deleted()
    await running.start()
    refused = await then.shows("Error", "Error", saying="are not the ones that were sealed")
    approval = refused.status.conditions[0].message.partition(f"{APPROVED_HOOKS_ANNOTATION}=")[2][:64]
    await given.annotated(**{APPROVED_HOOKS_ANNOTATION: approval})
    await then.gone()
    await then.is_sealed_again("living", before.status.delete_hook_seals)
    await given.deleted("living")
    await then.gone("living")


@pytest.mark.req("R-501")
@pytest.mark.req("R-509")
async def test_every_write_and_question_of_a_whole_life_goes_out_as_the_account(
    given: Given, running: Running, then: Then, audit: AuditLog
) -> None:
    asked = "{{ (lookup `v1` `ConfigMap` .Release.Namespace `asked`).data.word }}"
    await given.account("deployer", "edit")
    await given.config("asked", word="hello")
    first = CHART | {"templates/app.yaml": config("app", asked), "templates/old.yaml": config("old")}
    await given.source(first | {"templates/bye.yaml": HOOK}, revision="r1")
    await given.component(serviceAccountName="deployer", deleteHooks="Run")
    await running.start(tenancy=Mode.STRICT)
    await then.ready(revision="r1")
    await given.component(serviceAccountName="deployer", deleteHooks="Run", suspend=True)
    await then.shows("Pending", "Suspended")
    await given.source(CHART | {"templates/app.yaml": config("app", "new"), "templates/bye.yaml": HOOK}, revision="r2")
    await given.component(serviceAccountName="deployer", deleteHooks="Run")
    await then.ready(revision="r2")
    assert not await then.exists(ConfigMap, "old")
    await given.config_deleted("app")  # its entry is looked for before it is dropped
    await given.deleted()
    await then.gone()

    user = accounts(then.namespace, "deployer")
    assert writers(audit, then.namespace) == user
    questions = audit.entries(lambda one: one.verb == "get" and one.name == "asked" and one.user == OPERATOR)
    assert {one.acting_as for one in questions} == user
    verbs = {one.verb for one in audit.entries(lambda one: one.acting_as in user)}
    assert {"patch", "create", "delete", "get"} <= verbs


@pytest.mark.req("R-501")
@pytest.mark.req("R-509")
async def test_a_component_of_another_cluster_writes_nothing_at_home_and_there_as_its_kubeconfig(
    given: Given,
    running: Running,
    then: Then,
    audit: AuditLog,
    remote: Client,
    remote_cluster: LocalCluster,
    login: str,
) -> None:
    there = AuditLog(remote_cluster)
    await given.account("deployer", "edit")
    await given.secret("there", value=login)
    await given.source(CHART | {"templates/bye.yaml": HOOK})
    spec: dict[str, JsonValue] = {"serviceAccountName": "deployer", "deleteHooks": "Run"}
    await given.component(**spec, kubeConfig={"secretRef": {"name": "there"}})
    await running.start(tenancy=Mode.STRICT)
    ready = await then.ready()
    assert ready.status.applied_as == "kubeconfig"
    await given.deleted()
    await then.gone()
    assert writers(audit, then.namespace) == set()
    assert {one.user for one in there.entries(lambda one: one.is_write and one.namespace == then.namespace)} == {
        "component-operator-from-afar"
    }
    assert await remote.find(metadata_of(ConfigMap), "app", then.namespace) is None


@pytest.mark.req("R-509")
async def test_what_was_applied_before_identities_were_recorded_goes_as_the_spec_says(
    given: Given, running: Running, then: Then, audit: AuditLog
) -> None:
    await given.account("deployer", "edit")
    await given.source(CHART)
    await given.component(serviceAccountName="deployer")
    await running.start()
    await then.ready()
    await running.stop()
    await status_edited(given, appliedAs=None, appliedAsSeal=None)
    await given.deleted()
    await running.start(tenancy=Mode.STRICT)
    await then.gone()
    assert writers(audit, then.namespace) == accounts(then.namespace, "deployer")


@pytest.mark.req("R-509")
async def test_objects_that_the_new_account_may_not_delete_stay_and_are_named(
    given: Given, running: Running, then: Then, audit: AuditLog
) -> None:
    await given.account("deployer", "edit")
    await given.source(CHART | {"templates/old.yaml": config("old")}, revision="r1")
    await given.component(serviceAccountName="deployer")
    await running.start()
    await then.ready(revision="r1")
    await given.component(serviceAccountName="deployer", suspend=True)
    await then.shows("Pending", "Suspended")  # else the former account could delete what is outdated
    await given.source(CHART, revision="r2")
    await given.component(serviceAccountName="reader")
    failed = await then.shows("Error", "Error", saying=f"system:serviceaccount:{then.namespace}:reader")
    assert {failed.status.applied_as} == accounts(then.namespace, "deployer")
    assert await then.exists(ConfigMap, "old")
    await given.deleted()
    await then.gone()
    assert not await then.exists(ConfigMap, "old")
    assert writers(audit, then.namespace) == accounts(then.namespace, "deployer")


@pytest.mark.req("R-509")
async def test_an_edited_inventory_names_nothing_that_the_component_never_applied(
    given: Given, running: Running, then: Then, audit: AuditLog
) -> None:
    """Compatible tenancy, so that the operator itself could delete anything."""
    there = await given.a_namespace()
    victim = await given.config("victim", there)
    labelled = await given.config("labelled", there)
    await given.source(CHART)
    await given.component()
    await running.start()
    ready = await then.ready()
    await running.stop()
    (app,) = ready.status.inventory
    ours = await then.config("app")
    mark = MergePatch({"metadata": {"labels": {OWNER_ID: ours.metadata.labels[OWNER_ID]}}})
    await given.client.patch(metadata_of(ConfigMap), "labelled", there, mark, field_manager="attacker")
    forged = [
        msgspec.structs.replace(app, namespace=there, name="victim", uid=victim.metadata.uid),
        msgspec.structs.replace(app, namespace=there, name="labelled", uid="another", digest=""),
        msgspec.structs.replace(app, group="", kind="Namespace", namespace="", name=there, uid=""),
    ]
    await status_edited(given, inventory=[to_json_object(item) for item in (app, *forged)])
    await given.deleted()
    await running.start()
    await then.gone()
    assert not await then.exists(ConfigMap, "app")
    for one in (victim, labelled):
        assert (await then.config(one.metadata.name, there)).metadata.uid == one.metadata.uid


@pytest.mark.req("R-509")
@pytest.mark.req("R-413")
@pytest.mark.parametrize(
    "edit",
    [
        {"name": "one/../../namespaces/kube-system"},
        {"name": ""},
        {"name": "two", "uid": "u" * 900_000},
        {"kind": "a/b"},
    ],
    ids=["path", "no-name", "uid", "kind"],
)
async def test_garbage_in_an_inventory_is_a_condition_that_names_the_way_out(
    given: Given, running: Running, then: Then, audit: AuditLog, edit: dict[str, str]
) -> None:
    await given.source(CHART)
    await given.component()
    await running.start()
    ready = await then.ready()
    await running.stop()
    items = [*ready.status.inventory, msgspec.structs.replace(ready.status.inventory[0], **edit)]
    await status_edited(given, inventory=[to_json_object(item) for item in items])
    audit.mark()
    await running.start()
    await then.shows("Error", "Error", saying="status.inventory[1]: its ")
    await given.deleted()
    refused = await then.shows("Error", "Error", saying="status.inventory[1]: its ")
    assert stalled(refused) == "InvalidInventory"
    assert await then.exists(ConfigMap, "app")
    assert writers(audit, then.namespace) == set()
    remove: list[JsonValue] = [{"op": "remove", "path": "/status/inventory/1"}]
    assert json.dumps(remove, separators=(",", ":")) in refused.status.conditions[0].message
    patch = JsonPatch([{"op": "remove", "path": "/status/inventory/1"}])
    await given.client.patch(metadata_of(Component), "comp", given.namespace, patch, subresource="status")
    # A pass that began before may still show the edited status, and wait another ten seconds.
    await running.tries_until(lambda: then.gone(within=1), seconds=15)


@pytest.mark.req("R-509")
async def test_objects_at_home_are_not_left_behind_for_a_kubeconfig_that_comes_later(
    given: Given, running: Running, then: Then, remote: Client, login: str
) -> None:
    await given.source(CHART)
    await given.component()
    await given.secret("there", value=login)
    await running.start()
    await then.ready()
    await running.stop()
    elsewhere = MergePatch({"spec": {"kubeConfig": {"secretRef": {"name": "there"}}}})
    await given.client.patch(metadata_of(Component), "comp", given.namespace, elsewhere)
    await given.deleted()
    await running.start()
    refused = await then.shows("Error", "Error", saying="the component now leads to the cluster")
    assert stalled(refused) == "TargetClusterChanged"
    assert await then.exists(ConfigMap, "app")
    back = MergePatch({"spec": {"kubeConfig": None}})
    await given.client.patch(metadata_of(Component), "comp", given.namespace, back)
    await then.gone()
    assert not await then.exists(ConfigMap, "app")
