"""`status.appliedAs` names the account that applied the objects: it is written after a write, and decides deletions."""

from __future__ import annotations

from typing import Any

import pytest

from stellwerk.api.core import ConfigMap, Secret
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import metadata_of, to_json_object
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.component.api import RECONCILER, Component
from stellwerk.operators.component.settings import Mode
from stellwerk.testing.cluster import AuditLog
from tests.cluster.component.given import Given
from tests.cluster.component.manifests import config, manifest
from tests.cluster.component.running import Running
from tests.cluster.component.test_identity_on_the_way_out import accounts, status_edited, writers
from tests.cluster.component.then import Then

CHART = {"Chart.yaml": "apiVersion: v2\nname: app\nversion: 1.0.0\n", "templates/app.yaml": config("app")}
HOOK = {"templates/bye.yaml": manifest("ConfigMap", "bye", annotations={"helm.sh/hook": "pre-delete"})}

pytestmark = pytest.mark.req("R-953")


@pytest.fixture
def audit(component_cluster: LocalCluster, admin: Client) -> AuditLog:
    return AuditLog(component_cluster)


def policies(**words: str) -> dict[str, Any]:
    return {f"{RECONCILER}/{name.replace('_', '-')}": word for name, word in words.items()}


async def unauthorised(given: Given, running: Running, then: Then, mode: Mode, **spec: Any) -> Component:
    """A Component whose account may do nothing, after the API server refused its first object."""
    await given.component(serviceAccountName="nobody", **spec)
    await running.start(tenancy=mode)
    return await then.shows("Error", "Error", saying=f"system:serviceaccount:{then.namespace}:nobody")


@pytest.mark.parametrize("mode", [Mode.STRICT, Mode.COMPATIBLE])
@pytest.mark.parametrize("spec", [{}, {"deleteHooks": "Run"}], ids=["plain", "hooks"])
async def test_a_component_of_an_account_without_rights_that_applied_nothing_can_be_deleted(
    given: Given, running: Running, then: Then, audit: AuditLog, mode: Mode, spec: dict[str, str]
) -> None:
    await given.source(CHART | (HOOK if spec else {}))
    refused = await unauthorised(given, running, then, mode, **spec)
    assert refused.status.applied_as == ""
    assert refused.status.inventory
    await given.deleted()
    await then.gone()
    assert writers(audit, then.namespace) == set()


async def test_a_corrected_account_applies_is_recorded_and_deletes(
    given: Given, running: Running, then: Then, audit: AuditLog
) -> None:
    await given.account("deployer", "edit")
    await given.source(CHART | HOOK)
    await unauthorised(given, running, then, Mode.STRICT, deleteHooks="Run")
    await given.component(serviceAccountName="deployer", deleteHooks="Run")
    ready = await then.ready()
    assert {ready.status.applied_as} == accounts(then.namespace, "deployer")
    await given.deleted()
    await then.gone()
    assert writers(audit, then.namespace) == accounts(then.namespace, "deployer")


async def test_an_account_that_an_earlier_version_recorded_before_any_write_does_not_hold_the_deletion(
    given: Given, running: Running, then: Then
) -> None:
    """Its record has a valid seal, as one of the present has: it is taken from a Component that is Ready."""
    await given.account("deployer", "edit")
    await given.source(CHART)
    await given.component(serviceAccountName="deployer")
    await running.start()
    ready = await then.ready()
    await running.stop()
    item = to_json_object(ready.status.inventory[0]) | {"uid": None, "lastAppliedAt": None, "phase": "Creating"}
    await status_edited(given, inventory=[{key: value for key, value in item.items() if value is not None}])
    await given.client.delete(metadata_of(ConfigMap), "app", given.namespace)
    patch = MergePatch({"spec": {"serviceAccountName": "nobody"}})
    await given.client.patch(metadata_of(Component), "comp", given.namespace, patch)
    await given.deleted()
    await running.start()
    await then.gone()


async def test_an_account_without_rights_does_not_take_over_what_another_applied(
    given: Given, running: Running, then: Then, audit: AuditLog
) -> None:
    await given.account("deployer", "edit")
    await given.source(CHART | HOOK)
    await given.component(serviceAccountName="deployer", deleteHooks="Run")
    await running.start()
    await then.ready()
    for account in ("nobody", "another", "third"):
        await given.component(serviceAccountName=account, deleteHooks="Run")
        refused = await then.shows("Error", "Error", saying=f"system:serviceaccount:{then.namespace}:{account}")
        assert {refused.status.applied_as} == accounts(then.namespace, "deployer")
    await given.deleted()  # its delete hooks run: their seal outlasts the accounts that came after
    await then.gone()
    assert writers(audit, then.namespace) == accounts(then.namespace, "deployer")


@pytest.mark.parametrize("former", ["deployer", ""], ids=["an account", "the operator"])
async def test_another_account_is_recorded_when_it_has_written_every_object_and_none_is_created_again(
    given: Given, running: Running, then: Then, audit: AuditLog, former: str
) -> None:
    await given.account("deployer", "edit")
    await given.account("successor", "edit")
    files = {
        "plain.yaml": config("plain"),
        "once.yaml": manifest("ConfigMap", "once", annotations=policies(reconcile_policy="Once")),
        "anew.yaml": manifest("ConfigMap", "anew", annotations=policies(update_policy="Recreate")),
        "merge.yaml": manifest("ConfigMap", "merge", annotations=policies(update_policy="SsaMerge")),
        "secret.yaml": manifest("Secret", "secret"),
        "done.yaml": manifest("ConfigMap", "done", annotations=policies(purge_order="1")),
    }
    await given.source(files)
    await given.component(**({"serviceAccountName": former} if former else {}))
    await running.start()
    before = await then.ready()
    await running.rests()
    audit.mark()
    await given.component(serviceAccountName="successor")
    after = await then.ready()
    assert {after.status.applied_as} == accounts(then.namespace, "successor")
    kinds = {"configmaps", "secrets"}
    written = audit.entries(lambda one: one.is_write and one.resource in kinds and one.namespace == then.namespace)
    successor = accounts(then.namespace, "successor").pop()
    names = {one.name for one in written if one.acting_as == successor and one.status < 300}
    assert names >= {"plain", "once", "anew", "merge", "secret"}
    assert "done" not in names
    assert not [one for one in written if one.verb == "delete"]
    uids = {item.name: item.uid for item in before.status.inventory}
    assert {item.name: item.uid for item in after.status.inventory} == uids


async def test_after_a_crash_between_a_write_and_its_record_the_account_writes_again_and_is_recorded(
    given: Given, running: Running, then: Then, audit: AuditLog
) -> None:
    await given.account("deployer", "edit")
    await given.source(CHART)
    await given.component(serviceAccountName="deployer")
    await running.start()
    ready = await then.ready()
    await running.stop()
    item = to_json_object(ready.status.inventory[0]) | {"phase": "Creating"}
    del item["uid"], item["lastAppliedAt"]
    await status_edited(given, inventory=[item], appliedAs=None, appliedAsSeal=None)
    await given.client.patch(
        metadata_of(Component), "comp", given.namespace, MergePatch({"spec": {"serviceAccountName": "nobody"}})
    )
    await running.start()
    refused = await then.shows("Error", "Error", saying=f"system:serviceaccount:{then.namespace}:nobody")
    assert refused.status.applied_as == ""
    await given.component(serviceAccountName="deployer")
    again = await then.ready()
    assert {again.status.applied_as} == accounts(then.namespace, "deployer")
    await given.deleted()
    await then.gone()
    assert writers(audit, then.namespace) == accounts(then.namespace, "deployer")


async def test_what_an_account_without_rights_may_have_created_holds_the_deletion_until_the_spec_names_another(
    given: Given, running: Running, then: Then
) -> None:
    await given.account("deployer", "edit")
    await given.source(CHART)
    await given.component(serviceAccountName="deployer")
    await running.start()
    ready = await then.ready()
    await running.stop()
    item = to_json_object(ready.status.inventory[0]) | {"phase": "Creating"}
    del item["uid"], item["lastAppliedAt"]
    await status_edited(given, inventory=[item], appliedAs=None, appliedAsSeal=None)
    patch = MergePatch({"spec": {"serviceAccountName": "nobody"}})
    await given.client.patch(metadata_of(Component), "comp", given.namespace, patch)
    await given.deleted()
    await running.start()
    await then.shows("Error", "Error", saying='"serviceAccountName":"ACCOUNT"')
    assert await then.exists(ConfigMap, "app")
    await given.component(serviceAccountName="deployer")
    await then.gone()
    assert not await then.exists(ConfigMap, "app")


@pytest.mark.parametrize(
    "spec",
    [{"serviceAccountName": "Not_A_Name"}, {"kubeConfig": {"secretRef": {"name": "missing"}}}, {}],
    ids=["name", "kubeconfig", "none"],
)
async def test_a_component_without_objects_is_deleted_whatever_its_spec_lacks(
    given: Given, running: Running, then: Then, spec: dict[str, Any]
) -> None:
    await given.account("deployer", "edit")
    await given.source({"README.md": "no objects"})
    await given.component(serviceAccountName="deployer")
    await running.start()
    ready = await then.ready()
    assert ready.status.applied_as == ""
    await running.stop()
    wanted = {"serviceAccountName": None, **spec}
    await given.client.patch(metadata_of(Component), "comp", given.namespace, MergePatch({"spec": wanted}))
    await given.deleted()
    await running.start(tenancy=Mode.STRICT)
    await then.gone()
    assert not await then.exists(Secret, "comp.delete-hooks")
