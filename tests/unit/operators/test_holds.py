"""What `why` says of objects that wait without an end of their own."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from stellwerk.apply.readiness import deployment_diagnosis
from stellwerk.apply.readiness.deployment_diagnosis import Surroundings
from stellwerk.delivery.sets.holds import hold_of
from stellwerk.delivery.sets.unsettled_objects import UnsettledObject
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, ObjectRef
from stellwerk.kube.types.model import JsonObject, Unstructured
from stellwerk.operators.component.api import Component
from stellwerk.operators.component.insight import why
from stellwerk.runtime.insight.diagnosis import root_causes

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DATABASE = ObjectRef(GroupVersionKind("apps", "v1", "Deployment"), ObjectKey("shop", "db"))


def an_object(
    api_version: str, kind: str, spec: JsonObject, status: JsonObject | None = None, **more: str
) -> Unstructured:
    metadata: JsonObject = {"name": "a", "namespace": "shop", "annotations": dict(more)}
    return Unstructured.of(
        {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec, "status": status or {}}
    )


def a_claim(spec: JsonObject, phase: str = "Pending", **annotations: str) -> Unstructured:
    return an_object("v1", "PersistentVolumeClaim", spec, {"phase": phase}, **annotations)


def a_class(mode: str) -> Unstructured:
    return Unstructured.of(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "slow"},
            "provisioner": "example.com/disks",
            "volumeBindingMode": mode,
        }
    )


LATE, AT_ONCE = a_class("WaitForFirstConsumer"), a_class("Immediate")
SLOW: JsonObject = {"storageClassName": "slow"}
GATED: JsonObject = {"schedulingGates": [{"name": "example.com/hold"}, {"name": "example.com/quota"}]}
OWNER: JsonObject = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": "u"}
SUSPENDED = an_object("batch/v1", "Job", {"suspend": True})


@pytest.mark.parametrize(
    ("live", "storage_class", "later", "cause"),
    [
        (
            a_claim(SLOW),
            LATE,
            [DATABASE],
            "waits for its first consumer (StorageClass slow binds late); of a later wave: Deployment shop/db",
        ),
        (
            a_claim(SLOW),
            LATE,
            [],
            "waits for its first consumer (StorageClass slow binds late); no pod that uses it is scheduled yet",
        ),
        (
            a_claim(SLOW, **{"volume.kubernetes.io/selected-node": "n1"}),
            LATE,
            [],
            "provisioner example.com/disks of StorageClass slow has made no volume for node n1 yet",
        ),
        (a_claim(SLOW), AT_ONCE, [], "provisioner example.com/disks of StorageClass slow has made no volume yet"),
        (a_claim({}), None, [], "it has no StorageClass, and no PersistentVolume fits it"),
        (a_claim({"volumeName": "v"}, "Lost"), None, [], "PersistentVolume v, which it was bound to, is gone"),
        (an_object("v1", "Pod", GATED), None, [], "scheduling gates: example.com/hold, example.com/quota"),
        (SUSPENDED, None, [], "the Job is suspended: set spec.suspend to false"),
        (
            an_object("batch/v1", "Job", {"managedBy": "example.com/queue"}),
            None,
            [],
            "the Job is left to controller example.com/queue (spec.managedBy)",
        ),
    ],
)
def test_what_waits_without_an_end_of_its_own_names_the_cause_and_a_step(
    live: Unstructured, storage_class: Unstructured | None, later: list[ObjectRef], cause: str
) -> None:
    hold = hold_of(live, storage_class, later)
    assert hold is not None
    assert hold.what == cause
    assert hold.step
    assert "see its log" not in hold.step


@pytest.mark.parametrize(
    "live",
    [
        a_claim(SLOW, "Bound"),
        an_object("v1", "Pod", {}),
        an_object("batch/v1", "Job", {"suspend": False}),
        an_object("batch/v1", "Job", {"managedBy": "kubernetes.io/job-controller"}),
        an_object("batch/v1", "Job", {"suspend": True}, {"conditions": [{"type": "Complete", "status": "True"}]}),
        an_object("example.com/v1", "Job", {"suspend": True}),
    ],
)
def test_what_goes_on_by_itself_is_not_held(live: Unstructured) -> None:
    assert hold_of(live, LATE, [DATABASE]) is None


def test_a_component_names_the_held_object_as_root_cause_and_its_step_as_the_next() -> None:
    component = msgspec.convert(
        {
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {},
            "status": {
                "observedGeneration": 0,
                "conditions": [
                    {"type": "Ready", "status": "Unknown", "reason": "Processing", "message": "Waiting"},
                    {"type": "Stalled", "status": "True", "reason": "ObjectsNotReady", "message": "Waiting"},
                ],
            },
        },
        Component,
    )
    held = UnsettledObject(SUSPENDED.ref, SUSPENDED, hold=hold_of(SUSPENDED))
    seen = why.ComponentSurroundings(component=component, dependents=(held,), now=NOW)
    told = why.explain(seen)
    assert [one.text for one in root_causes(told.findings)] == [
        "Job shop/a: the Job is suspended: set spec.suspend to false"
    ]
    assert told.next_step.startswith("set spec.suspend to false")


def test_gates_on_the_pods_of_a_workload_are_its_cause() -> None:
    condition: JsonObject = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": "gated"}
    metadata: JsonObject = {"name": "p", "namespace": "shop", "ownerReferences": [OWNER]}
    pod = Unstructured.of(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": GATED,
            "status": {"phase": "Pending", "conditions": [condition]},
        }
    )
    stateful_set = Unstructured.of(
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s", "namespace": "shop", "uid": "u"}}
    )
    cause = deployment_diagnosis.explain(stateful_set, Surroundings(pods=[pod]))
    assert cause is not None
    assert cause.what == "scheduling gates: example.com/hold, example.com/quota"
