"""A set is created with as few requests as there are objects, wave by wave, and saved before it is touched."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.cluster import permissions
from tests.cluster.apply.object_sets import Place, R, annotated
from tests.cluster.apply.sets import CONFIG, DEFINITION, DEPLOYMENT, INSTANCE, SECRET

from stellwerk.apply.errors import InvalidSet, Obstacle
from stellwerk.apply.set.model.inventory import EntryStatus, Phase
from stellwerk.apply.set.model.policy import MissingNamespacesPolicy, Policies, UpdatePolicy
from stellwerk.kube.types.errors import Forbidden
from stellwerk.kube.types.model import PartialObjectMetadata
from stellwerk.testing.eventually import eventually

NAMESPACE_SECONDS = 90.0
"""Kubernetes looks at a namespace on its way out every few seconds at best; after failures, it takes its time."""


def config_maps(count: int) -> str:
    """Some small ConfigMaps."""
    return "---".join(
        f"\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{number}}}\ndata: {{A: '1'}}\n"
        for number in range(count)
    )


async def test_ten_new_objects_cost_one_list_and_ten_writes(place: Place) -> None:
    kept = place.new_set()
    place.audit.mark()
    first = await kept.apply(config_maps(10))
    assert (first.must_be_saved, first.carried) == (True, ())
    assert place.asked() == ["list configmaps"]
    second = await kept.apply(config_maps(10))
    assert second.done
    assert Counter(each.verb for each in place.requests()) == {"patch": 10}
    assert {entry.phase for entry in kept.inventory} == {Phase.READY}
    assert len(second.carried) == 10


async def test_where_owners_are_watched_nothing_is_asked_before_the_writes(place: Place) -> None:
    kept = place.new_set()
    kept.watches_owners = True
    place.audit.mark()
    await kept.rolled_out(config_maps(10))
    assert Counter(each.verb for each in place.requests()) == {"patch": 10}


@pytest.mark.req("R-108")
async def test_a_calm_pass_asks_nothing_not_even_in_a_new_process(place: Place) -> None:
    kept = place.new_set()
    await kept.rolled_out(config_maps(3) + "---" + SECRET)
    place.audit.mark()
    before = kept.inventory
    for _ in range(2):
        assert (await kept.apply(config_maps(3) + "---" + SECRET)).done
        kept.restarts()
    assert (place.requests(), kept.inventory) == ([], before)


async def test_an_object_carries_the_marks_of_its_owner(place: Place) -> None:
    kept = place.new_set()
    await kept.rolled_out(CONFIG)
    found = (await place.body("ConfigMap", "config")).metadata
    (entry,) = kept.inventory
    assert found.labels == {"app": "x", f"{R}/owner-id": kept.owner.label_value}
    assert found.annotations == {f"{R}/owner-id": kept.owner.id, f"{R}/digest": entry.digest}
    assert [(each.manager, each.operation) for each in found.managers] == [(R, "Apply")]


@pytest.mark.parametrize("policy", ["replace", "recreate"])
async def test_without_server_side_apply_an_object_is_made_by_a_plain_creation(place: Place, policy: str) -> None:
    kept = place.new_set()
    place.audit.mark()
    await kept.rolled_out(annotated(CONFIG, update_policy=policy))
    assert place.asked() == ["create configmaps config", "get configmaps config"]
    assert [(each.manager, each.operation) for each in await place.managers("ConfigMap", "config")] == [(R, "Update")]


@pytest.mark.parametrize("policy", ["ssa-override", "replace"])
async def test_the_values_of_a_secret_are_sent_and_never_read(place: Place, policy: str) -> None:
    kept = place.new_set()
    progress = await kept.rolled_out(annotated(SECRET, update_policy=policy))
    assert [type(each.live) for each in progress.carried] == [PartialObjectMetadata]
    assert (await place.body("Secret", "secret")).at("data", "password") == "aHVudGVyMg=="
    for shown in (repr(progress), repr(kept.memory), repr(kept.inventory)):
        assert "hunter2" not in shown
        assert "aHVudGVyMg" not in shown


async def test_a_wave_waits_for_a_deployment(place: Place) -> None:
    kept = place.new_set()
    text = "---".join([annotated(CONFIG, apply_order=1), DEPLOYMENT.replace("serviceAccountName: manager", "")])
    progress = await kept.passing(text)
    assert not progress.done
    assert [str(each.ref) for each in progress.waits] == [f"Deployment {place.namespace}/manager"]
    assert await place.find("ConfigMap", "config") is None
    await kept.rolled_out(text)
    assert kept.phases() == {"config": "Ready", "manager": "Ready"}


async def test_a_definition_its_instance_and_its_controller_come_in_order(place: Place) -> None:
    kept = place.new_set()
    text = "---".join([INSTANCE, DEFINITION, DEPLOYMENT.replace("serviceAccountName: manager", "")])
    progress = await kept.passing(text)
    assert [each.address.resource.kind for each in progress.carried] == ["CustomResourceDefinition", "Deployment"]
    await kept.rolled_out(text)
    assert (await place.body("Thing", "one")).at("spec") == {"note": "hello", "size": 1}
    definition = await place.body("CustomResourceDefinition", f"things.{place.namespace}.example.org", namespace="")
    assert R in definition.metadata.finalizers


# ---- namespaces


async def test_a_missing_namespace_is_made_belongs_to_nobody_and_stays(place: Place) -> None:
    kept = place.new_set()
    other = f"{place.namespace}-other"
    await kept.rolled_out(CONFIG.replace("name: config", f"name: config, namespace: {other}"))
    namespace = await place.body("Namespace", other, namespace="")
    assert not [name for name in namespace.metadata.labels if name.startswith(R)]
    assert R in [each.manager for each in namespace.metadata.managers]
    await kept.deleted()
    assert await place.find("Namespace", other, namespace="") is not None
    place.kubectl("delete", "namespace", other, "--wait=false")


async def test_a_missing_namespace_is_made_when_no_cache_knows_of_it(place: Place) -> None:
    kept = place.new_set()
    kept.knows_namespaces = False
    other = f"{place.namespace}-unknown"
    place.audit.mark()
    await kept.rolled_out(config_maps(2).replace("{name: c", f"{{namespace: {other}, name: c"))
    created = [each for each in place.requests() if each.resource == "namespaces"]
    assert [(each.verb, each.status) for each in created] == [("create", 201)]
    place.kubectl("delete", "namespace", other, "--wait=false")


async def test_a_missing_namespace_that_must_not_be_made_is_a_failure_with_its_name(place: Place) -> None:
    policies = Policies(update=UpdatePolicy.SSA_OVERRIDE, missing_namespaces=MissingNamespacesPolicy.DO_NOT_CREATE)
    kept = place.new_set(policies=policies)
    other = f"{place.namespace}-other"
    text = CONFIG.replace("name: config", f"name: config, namespace: {other}")
    await kept.apply(text)
    progress = await kept.apply(text)
    (failure,) = progress.failures
    assert failure.obstacle is Obstacle.NAMESPACE_MISSING
    assert (
        str(failure)
        == f"cannot apply ConfigMap {other}/config: Namespace {other} does not exist (create the namespace)"
    )
    assert await place.find("Namespace", other, namespace="") is None


async def test_a_namespace_of_the_set_comes_first_and_goes_last(place: Place) -> None:
    kept = place.new_set()
    other = f"{place.namespace}-own"
    text = "---".join(
        [
            CONFIG.replace("name: config", f"name: config, namespace: {other}"),
            f"\napiVersion: v1\nkind: Namespace\nmetadata: {{name: {other}}}\n",
        ]
    )
    progress = await kept.rolled_out(text)
    assert [each.address.resource.kind for each in progress.carried] == ["Namespace", "ConfigMap"]
    progress = await kept.delete()
    assert [each.address.resource.kind for each in progress.carried] == ["ConfigMap", "Namespace"]
    await kept.deleted(within=NAMESPACE_SECONDS)
    assert await place.find("Namespace", other, namespace="") is None


# ---- what must not be


@pytest.mark.req("R-406")
async def test_a_set_with_a_mistake_is_refused_whole_and_nothing_is_asked(place: Place) -> None:
    kept = place.new_set()
    place.audit.mark()
    with pytest.raises(InvalidSet) as refused:
        await kept.apply(
            CONFIG + "---" + CONFIG + "---\n{apiVersion: nothing.org/v1, kind: Nothing, metadata: {name: x}}"
        )
    assert len(refused.value.problems) == 2
    assert place.requests() == []
    assert await place.find("ConfigMap", "config") is None


async def counts(place: Place) -> None:
    """Return when the API server knows what the role `few` grants."""
    user = permissions.account("default", place.namespace)
    await permissions.count(place.others, user, permissions.on("configmaps", "patch", place.namespace))


@pytest.mark.req("R-206", "R-406")
async def test_an_object_that_we_have_no_right_to_make_is_named(place: Place) -> None:
    client = place.client.acting_as(f"system:serviceaccount:{place.namespace}:default")
    place.kubectl("create", "role", "few", "--verb=get,list,create,patch", "--resource=configmaps")
    place.kubectl("create", "rolebinding", "few", "--role=few", f"--serviceaccount={place.namespace}:default")
    await counts(place)
    kept = place.new_set(client=client)
    role = "\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: NAMESPACE-x}\nrules: []\n"
    await kept.rolled_out(CONFIG)
    with pytest.raises(Forbidden, match="clusterroles"):
        await kept.apply(CONFIG + "---" + role)


@pytest.mark.req("R-206")
async def test_a_tenant_who_may_only_get_needs_no_right_to_list(place: Place) -> None:
    client = place.client.acting_as(f"system:serviceaccount:{place.namespace}:default")
    place.kubectl("create", "role", "few", "--verb=get,create,patch", "--resource=configmaps")
    place.kubectl("create", "rolebinding", "few", "--role=few", f"--serviceaccount={place.namespace}:default")
    await counts(place)
    kept = place.new_set(client=client)
    assert (await kept.rolled_out(config_maps(4))).done


async def test_a_field_that_the_kind_does_not_know_is_a_failure_that_names_it(place: Place) -> None:
    kept = place.new_set()
    text = DEPLOYMENT.replace("  replicas: 1", "  replicaz: 1")
    await kept.apply(text)
    progress = await kept.apply(text)
    (failure,) = progress.failures
    assert failure.obstacle is Obstacle.INVALID
    assert "replicaz" in failure.cause


# ---- APIServices

API_SERVICE = """
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.NAMESPACE.example.org}
spec: {group: NAMESPACE.example.org, version: v1, groupPriorityMinimum: 100, versionPriority: 100SERVICE}
"""


async def test_an_api_service_comes_after_what_is_plain_and_is_waited_for_until_it_is_available(place: Place) -> None:
    kept = place.new_set()
    absent = ", insecureSkipTLSVerify: true, service: {name: absent, namespace: NAMESPACE}"
    text = "---".join([INSTANCE, API_SERVICE.replace("SERVICE}", absent + "}"), CONFIG])
    progress = await kept.passing(text)
    assert [each.address.resource.kind for each in progress.carried] == ["ConfigMap", "APIService"]
    assert [each.ref.gvk.kind for each in progress.waits] == ["APIService"]
    await kept.deleted()


async def test_an_instance_of_an_api_service_waits_until_its_kind_is_served(place: Place) -> None:
    kept = place.new_set()
    text = "---".join([INSTANCE, API_SERVICE.replace("SERVICE}", "}")])

    async def waits_for_the_kind() -> bool:
        progress = await kept.passing(text)
        return [str(each) for each in progress.waits] == [f"Thing {place.namespace}/one: its kind is not served yet"]

    await eventually(waits_for_the_kind, describe="an APIService that is available, without a kind")
    place.kubectl("apply", "-f", "-", stdin=DEFINITION)
    await kept.rolled_out(text)
    assert (await place.body("Thing", "one")).at("spec", "note") == "hello"
    assert {entry.status for entry in kept.inventory} == {EntryStatus.CURRENT}
