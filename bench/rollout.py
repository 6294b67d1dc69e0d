"""What a pass over a set that has not changed costs us: preparing, registering, deciding. No cluster, no I/O.

python -m bench.rollout
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import msgspec

from stellwerk.apply.objects import json_edit
from stellwerk.apply.objects.manifests import Document, Origin
from stellwerk.apply.set.model.confirmation import confirm
from stellwerk.apply.set.model.desired_set import DesiredObject, prepared
from stellwerk.apply.set.model.inventory import Inventory
from stellwerk.apply.set.model.owner import Owner
from stellwerk.apply.set.model.policy import Policies, UpdatePolicy
from stellwerk.apply.set.plan import plan_apply
from stellwerk.apply.set.plan.inventory_update import register
from stellwerk.apply.set.plan.plan_input import LiveObject, PlanInput
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, Unstructured
from stellwerk.kube.types.object_meta import FieldManager

LIMIT_MICROSECONDS = 60.0
OWNER = Owner("component-operator.cs.sap.com", "uid/there/one")
POLICIES = Policies(update=UpdatePolicy.SSA_OVERRIDE)
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", True)
DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments", True)
RESOURCES = {resource.gvk: resource for resource in (CONFIG_MAPS, DEPLOYMENTS)}
READY: JsonObject = {
    "observedGeneration": 1,
    "replicas": 1,
    "updatedReplicas": 1,
    "availableReplicas": 1,
    "readyReplicas": 1,
    "conditions": [{"type": "Available", "status": "True"}],
}


def config_map(number: int) -> JsonObject:
    """A small ConfigMap."""
    data: JsonObject = {f"key{index}": "value" * 8 for index in range(8)}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"c{number}", "labels": {"app": "x"}},
        "data": data,
    }


def deployment(number: int) -> JsonObject:
    """A usual Deployment."""
    container: JsonObject = {
        "name": "main",
        "image": "registry.example.org/main:1",
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
    }
    template: JsonObject = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"d{number}", "labels": {"app": "x", "tier": "y"}},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "x"}}, "template": template},
    }


def documents(count: int) -> list[Document]:
    """One Deployment for four ConfigMaps."""
    return [Document(deployment(n) if n % 5 == 4 else config_map(n), Origin()) for n in range(count)]


def live(one: DesiredObject) -> Unstructured:
    """The object as a cache shows it when it is ready."""
    server: JsonObject = {"uid": one.address.key.name, "resourceVersion": "7", "generation": 1}
    body = json_edit.merged(one.desired.body, server, "metadata")
    if one.address.resource == DEPLOYMENTS:
        body = {**body, "status": READY}
    found = Unstructured.of(body)
    managers = (FieldManager(manager=OWNER.prefix, operation="Apply"),)
    return Unstructured(body, msgspec.structs.replace(found.metadata, managers=managers))


def microseconds_each(act: Callable[[], object], count: int) -> float:
    """Our own CPU for each object, the best of several rounds."""
    rounds = max(3, 3_000 // count)
    best = float("inf")
    for _ in range(15):
        began = time.process_time()
        for _ in range(rounds):
            act()
        best = min(best, (time.process_time() - began) / rounds)
    return best / count * 1e6


def measured(count: int) -> float:
    """Print the figures of a set; the sum for each object."""
    given = documents(count)

    def prepare() -> tuple[DesiredObject, ...]:
        return prepared(given, RESOURCES, namespace="there", owner=OWNER, policies=POLICIES, set_digest="s")

    wanted, now = prepare(), datetime.now(UTC)
    seen = {one.identity: LiveObject(one.address, live(one)) for one in wanted}
    scene = PlanInput(
        owner=OWNER,
        policies=POLICIES,
        seen=seen,
        resources={one.identity: one.address.resource for one in wanted},
        confirmations={one.address: confirm(one.desired, seen[one.identity].live, OWNER.prefix) for one in wanted},
        now=now,
        clock=0.0,
    )
    first = register(wanted, Inventory(), {}, OWNER).inventory
    inventory = plan_apply.next_stage(
        wanted, Inventory(tuple(replace(entry, last_applied_at=now) for entry in first)), scene
    ).inventory
    assert plan_apply.next_stage(wanted, inventory, scene).done
    figures = {
        "prepare": microseconds_each(prepare, count),
        "register": microseconds_each(lambda: register(wanted, inventory, {}, OWNER), count),
        "decide": microseconds_each(lambda: plan_apply.next_stage(wanted, inventory, scene), count),
    }
    total = sum(figures.values())
    shown = ", ".join(f"{name} {value:.1f}" for name, value in figures.items())
    print(f"{count} objects, us each: {shown}; together {total:.1f} (limit {LIMIT_MICROSECONDS:.0f})")
    return total


if __name__ == "__main__":
    sys.exit(1 if max([measured(10), measured(1_000)]) > LIMIT_MICROSECONDS else 0)
