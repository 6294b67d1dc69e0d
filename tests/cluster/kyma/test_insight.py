"""What people see of broken Kymas, by the real command line on two real API servers.

No operator runs: the statuses are those that it writes (see the unit tests), so that each state is there at once.
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from tests.cluster.cli.conftest import ENVIRONMENT, Given
from tests.cluster.program import CommandLine, Ended

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.apps import Deployment, ReplicaSet
from stellwerk.api.core import ConfigMap, Namespace, Pod, Secret, ServiceAccount
from stellwerk.apply.objects import json_edit
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, JsonValue, Unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import DEFINITIONS, Kyma
from stellwerk.operators.kyma.api_manifest import Manifest
from stellwerk.operators.kyma.api_module import ModuleReleaseMeta, ModuleTemplate
from stellwerk.operators.kyma.kyma.status import WAITING
from stellwerk.operators.kyma.module.resolution import manifest_name
from stellwerk.testing.eventually import POLL_SECONDS

HOME, SPACE, KYMA_SYSTEM = labels.KCP_NAMESPACE, "insight", labels.SKR_NAMESPACE
SINCE = "2026-05-01T12:00:00Z"
BLOCKED = "waiting for module crs deletion: 2 Sample: a/one, b/two"
NOT_UP = "waiting for resources to become ready: Deployment insight/manager"
SILENT = f"the cluster of Secret {HOME}/access-silent: it does not answer"
COMPONENT = "kyma-project.io/module/sample"
REMOTE = [each for each in DEFINITIONS if each.versions[0].kind in (Kyma, ModuleTemplate, ModuleReleaseMeta)]
"""What a remote cluster has of our definitions."""
Run = Callable[..., Ended]


def operation(text: str) -> JsonObject:
    return {"operation": text, "lastUpdateTime": SINCE}


def kyma(given: Given, name: str, state: str, said: str, *modules: JsonObject, **metadata: object) -> None:
    listed: list[object] = [*modules]
    status = {"state": state, "lastOperation": operation(said), "modules": listed}
    given.put(Kyma.resource, HOME, name, metadata=metadata, spec={"channel": "regular"}, status=status)


def module(of: str, state: str, message: str = "") -> JsonObject:
    ref: JsonObject = {"apiVersion": Manifest.resource.api_version, "kind": "Manifest", "metadata": {"name": named(of)}}
    template: JsonObject = {**ref, "kind": "ModuleTemplate", "metadata": {"name": "sample-1.0.0", "generation": 1}}
    shown: JsonObject = {"name": "sample", "version": "1.0.0", "channel": "regular", "state": state, "message": message}
    return {**shown, "manifest": ref, "template": template}


def named(of: str, module: str = "sample") -> str:
    return manifest_name(of, COMPONENT, module)


def manifest(
    given: Given, folder: Path, of: str, state: str, said: str, module: str = "sample", **metadata: object
) -> None:
    marks = {labels.KYMA_NAME_LABEL: of, labels.MODULE_NAME_LABEL: module, labels.CHANNEL_LABEL: "regular"}
    digest = f"sha256:{hashlib.sha256((folder / '1.0.0.yaml').read_bytes()).hexdigest()}"
    source = {"type": "raw-url", "url": (folder / "1.0.0.yaml").as_uri(), "ref": digest}
    spec = {
        "remote": True,
        "version": "1.0.0",
        "install": {"name": "raw-manifest", "source": source},
        "resource": {"apiVersion": "operator.example.org/v1", "kind": "Sample", "metadata": {"name": "default"}},
    }
    synced = [{"group": "apps", "version": "v1", "kind": "Deployment", "name": "manager", "namespace": SPACE}]
    status = {"state": state, "lastOperation": operation(said), "synced": synced}
    given.put(
        Manifest.resource, HOME, named(of, module), metadata={"labels": marks, **metadata}, spec=spec, status=status
    )


def login(given: Given, of: str, kubeconfig: str) -> None:
    data = {labels.KUBECONFIG_KEY: base64.b64encode(kubeconfig.encode()).decode()}
    given.put(Secret.resource, HOME, f"access-{of}", metadata={"labels": {labels.KYMA_NAME_LABEL: of}}, data=data)


def prepare_remote(there: Given) -> None:
    """The manager of a module, with a pod whose image is missing, and the Kyma of the user."""
    for each in REMOTE:
        there.definition(json_edit.with_labels(each.body(), {labels.MANAGED_BY_LABEL: labels.KYMA}))
    for namespace in (SPACE, KYMA_SYSTEM):
        there.namespace(namespace)
    path, wire = Namespace.resource.path("", KYMA_SYSTEM), there.cluster.wire()
    found = wire.ask("GET", path)
    assert found is not None
    bare = json_edit.without(msgspec.json.decode(found.body), "metadata", "labels")  # other tests have prepared it
    wire.ask("PUT", path, bare)
    marks = {labels.MANAGED_BY_LABEL: labels.KYMA, labels.PART_OF_LABEL: labels.PART_OF, "app": "manager"}
    owned = {labels.OWNED_BY_ANNOTATION: f"{HOME}/{named('busy')}"}
    pods = {"metadata": {"labels": {"app": "manager"}}, "spec": {"containers": [{"name": "m", "image": "none:1"}]}}
    workload = {"replicas": 1, "selector": {"matchLabels": {"app": "manager"}}, "template": pods}
    there.put(
        Deployment.resource,
        SPACE,
        "manager",
        metadata={"labels": marks, "annotations": owned},
        spec=workload,
        status={"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "unavailableReplicas": 1},
    )
    mine = {"labels": {"app": "manager"}, "ownerReferences": [owner(there, Deployment.resource, "manager")]}
    there.put(ReplicaSet.resource, SPACE, "manager-1", metadata=mine, spec=workload)
    there.put(ServiceAccount.resource, SPACE, "default")
    mine = {"labels": {"app": "manager"}, "ownerReferences": [owner(there, ReplicaSet.resource, "manager-1")]}
    waiting = {"waiting": {"reason": "ErrImagePull", "message": "not found"}}
    shown = {"name": "m", "image": "none:1", "imageID": "", "ready": False, "restartCount": 0, "state": waiting}
    status = {"phase": "Pending", "containerStatuses": [shown]}
    there.put(Pod.resource, SPACE, "manager-1-x", metadata=mine, spec=pods["spec"], status=status)
    there.put(
        Kyma.resource,
        KYMA_SYSTEM,
        "default",
        metadata={
            "labels": {labels.MANAGED_BY_LABEL: labels.KYMA},
            "annotations": {labels.OWNED_BY_ANNOTATION: f"{HOME}/busy"},
        },
        spec={"channel": "regular"},
    )


IMAGES = {"1.0.0": "none:1", "2.0.0": "none:2"}
LAYER = """
apiVersion: apps/v1
kind: Deployment
metadata: {{name: manager, namespace: insight}}
spec:
  replicas: 1
  selector: {{matchLabels: {{app: manager}}}}
  template:
    metadata: {{labels: {{app: manager}}}}
    spec: {{containers: [{{name: m, image: "{image}"}}]}}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: settings, namespace: insight}}
data: {{colour: red}}
"""


def template(folder: Path, module: str, version: str) -> JsonObject:
    return {
        "moduleName": module,
        "version": version,
        "descriptor": {"component": {"name": COMPONENT, "version": version}},
        "resources": [{"name": "rawManifest", "link": (folder / f"{version}.yaml").as_uri()}],
    }


def offer(**channels: str) -> JsonObject:
    listed: list[JsonValue] = [{"channel": channel, "version": version} for channel, version in channels.items()]
    return {"moduleName": "sample", "ocmComponentName": COMPONENT, "channels": listed}


def owner(there: Given, resource: Resource, name: str) -> JsonObject:
    answer = there.cluster.wire().ask("GET", resource.path(SPACE, name))
    assert answer is not None
    uid = Unstructured.of(msgspec.json.decode(answer.body)).metadata.uid
    return {"apiVersion": resource.api_version, "kind": resource.kind, "name": name, "uid": uid, "controller": True}


@pytest.fixture(scope="module")
def broken(
    home_cluster: LocalCluster, remote_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """Kymas in each broken state."""
    here, there = Given(home_cluster), Given(remote_cluster)
    folder = tmp_path_factory.mktemp("insight")
    prepare_remote(there)
    for version, image in IMAGES.items():
        (folder / f"{version}.yaml").write_text(LAYER.format(image=image))
    reachable = remote_cluster.kubeconfig_for("insight", ["system:masters"]).read_text()
    for name in ("busy", "blocked"):
        login(here, name, reachable)
    login(here, "silent", reachable.replace(f":{remote_cluster.port}", ":1"))
    kyma(here, "busy", "Processing", WAITING, module("busy", "Processing"))
    manifest(here, folder, "busy", "Processing", NOT_UP)
    kyma(here, "blocked", "Processing", WAITING, module("blocked", "Deleting", BLOCKED))
    manifest(here, folder, "blocked", "Deleting", BLOCKED, finalizers=[labels.MANIFEST_FINALIZER])
    here.gone(Manifest.resource, HOME, named("blocked"))
    kyma(here, "silent", "Error", SILENT, module("silent", "Error", SILENT))
    manifest(here, folder, "silent", "Error", SILENT)
    here.put(ModuleReleaseMeta.resource, HOME, "sample", spec=offer(regular="1.0.0", fast="3.0.0"))
    for version in IMAGES:
        here.put(ModuleTemplate.resource, HOME, f"sample-{version}", spec=template(folder, "sample", version))
    words = ["stellwerk", "run", "kyma", "--raw-manifest-links=file", "--module-rollout-at-once=5"]
    pods = {
        "metadata": {"labels": {"app": "operator"}},
        "spec": {"containers": [{"name": "manager", "image": "stellwerk", "command": words}]},
    }
    operator = {"selector": {"matchLabels": {"app": "operator"}}, "template": pods}
    here.put(Deployment.resource, HOME, "operator", spec=operator)
    yield folder
    wire = home_cluster.wire()
    held = wire.ask("GET", Manifest.resource.path(HOME, named("blocked")))
    assert held is not None
    released = json_edit.without(msgspec.json.decode(held.body), "metadata", "finalizers")
    wire.ask("PUT", Manifest.resource.path(HOME, named("blocked")), released)
    for name in ("busy", "blocked", "silent"):
        here.gone(Secret.resource, HOME, f"access-{name}")
    for resource in (Kyma.resource, Manifest.resource, ModuleReleaseMeta.resource, ModuleTemplate.resource):
        wire.ask("DELETE", resource.path(HOME))
    there.gone(Kyma.resource, KYMA_SYSTEM, "default")
    for each in REMOTE:
        there.gone(CustomResourceDefinition.resource, "", each.name)
        path, deadline = CustomResourceDefinition.resource.path("", each.name), time.monotonic() + 60
        while (left := remote_cluster.wire().ask("GET", path)) is None or left.status != 404:
            assert time.monotonic() < deadline, f"{each.name} is not deleted"
            time.sleep(POLL_SECONDS)
    here.gone(Deployment.resource, HOME, "operator")


@pytest.fixture
def stellwerk(home_cluster: LocalCluster, command_line: CommandLine, broken: Path) -> Run:
    def run(*arguments: str, cluster: LocalCluster = home_cluster, namespace: str = HOME) -> Ended:
        words = [*arguments, "-n", namespace, "--kubeconfig", str(cluster.kubeconfig)]
        return command_line.run(words, ENVIRONMENT)

    return run


def test_why_goes_from_a_kyma_to_the_pod_in_its_remote_cluster(stellwerk: Run) -> None:
    ended = stellwerk("why", "kyma/busy")
    assert ended.stderr == ""
    lines = [" ".join(line.split()) for line in ended.stdout.splitlines()[1:]]
    assert [line for line in lines if not line.startswith("Remark:")] == [  # that the operator does not run
        "└─ module sample 1.0.0 is Processing",
        f"└─ Manifest kcp-system/{named('busy')}: {NOT_UP.partition(': ')[0]} WaitsForObjects",
        "└─ Deployment insight/manager in the remote cluster: 0 of 1 replicas available",
        "└─ Pod insight/manager-1-x: image none:1 cannot be pulled ErrImagePull <- root cause",
        "Next: in the remote cluster, check the image's name, and the pull secret if the registry asks for one: "
        "kubectl describe pod manager-1-x -n insight",
    ]


@pytest.mark.parametrize(
    ("verb", "said"),
    [
        (["why", "kyma/blocked"], "Next: delete all of them, in the remote cluster: kubectl delete sample.operator"),
        (["why", "kyma/silent"], f"{SILENT} (since {SINCE})"),
        (["why", "mrm/sample"], "channel fast: ModuleTemplate kcp-system/sample-3.0.0 does not exist"),
        (["get", "kyma"], "kcp-system  Kyma  silent   False   Error        "),
        (["status", "kyma/silent"], f"Message:  {SILENT}"),
        (["unstick", f"mf/{named('blocked')}"], "then the object of the module and all its custom resources stay"),
        (["tree", "kyma/busy"], "Deployment insight/manager (in the remote cluster)"),
        (["tree", "kyma/busy"], "✗ Pod insight/manager-1-x"),
        (["status", "kyma"], "sample  1.0.0    Deleting    1"),
        (["tree", "kyma/silent"], "in the remote cluster, which cannot be read: "),
    ],
)
def test_each_verb_knows_kymas_and_their_clusters(stellwerk: Run, verb: list[str], said: str) -> None:
    assert said in stellwerk(*verb).stdout


def test_trace_leads_from_an_object_in_the_remote_cluster_to_its_manifest_and_kyma(
    stellwerk: Run, remote_cluster: LocalCluster
) -> None:
    ended = stellwerk("trace", f"deployment/{SPACE}/manager", cluster=remote_cluster)
    assert ended.stdout.splitlines() == [
        "Object:       ◌ Deployment insight/manager",
        f"Managed by:   Manifest kcp-system/{named('busy')}   (it is in another cluster)",
        "Managed by:   Kyma kcp-system/busy   (it is in another cluster)",
    ]
    ended = stellwerk("trace", f"kyma/{KYMA_SYSTEM}/default", cluster=remote_cluster)
    assert ended.stdout.splitlines()[1] == "Managed by:   Kyma kcp-system/busy   (it is in another cluster)"


def test_diff_shows_what_a_pass_would_write_on_both_clusters_and_writes_nothing(
    stellwerk: Run, remote_cluster: LocalCluster
) -> None:
    ended = stellwerk("diff", f"mf/{named('busy')}")
    assert ended.returncode == 3
    lines = [line for line in ended.stdout.splitlines() if line[0] in "~+-"]
    there = f"in the cluster of Secret {HOME}/access-busy"
    assert [lines[0].split("(")[0].rstrip(), *lines[1:]] == [
        f"~ Manifest {HOME}/{named('busy')}",
        f"~ Deployment {SPACE}/manager {there}",
        f"+ ConfigMap {SPACE}/settings {there}",
    ]
    assert "the API server serves no operator.example.org/v1 Sample" in ended.stderr
    found = remote_cluster.wire().ask("GET", ConfigMap.resource.path(SPACE, "settings"))
    assert found is not None
    assert found.status == 404


def test_diff_of_a_kyma_shows_what_its_cluster_lacks_or_why_that_is_not_known(stellwerk: Run) -> None:
    ended = stellwerk("diff", "kyma/busy")
    there = f"in the cluster of Secret {HOME}/access-busy"
    assert f"~ Namespace {KYMA_SYSTEM} {there}" in ended.stdout.splitlines()
    assert f"+ ModuleTemplate {KYMA_SYSTEM}/sample-1.0.0 {there}" in ended.stdout.splitlines()
    ended = stellwerk("diff", "kyma/silent")
    assert f"Warning: the cluster of Secret {HOME}/access-silent: cannot get" in ended.stderr
    assert "the connection was refused" in ended.stderr


def test_diff_of_a_changed_channel_names_the_kymas_that_change_and_what_changes_in_one_cluster(
    stellwerk: Run, broken: Path
) -> None:
    ended = stellwerk("diff", "-f", changed(broken, "sample", offer(regular="2.0.0", fast="2.0.0")))
    for name in ("blocked", "busy", "silent"):
        assert f"(Kyma {HOME}/{name}: version 1.0.0 -> 2.0.0)" in ended.stdout
    assert (
        f"~ Deployment {SPACE}/manager in the cluster of Secret {HOME}/access-busy of Kyma {HOME}/busy" in ended.stdout
    )
    assert "spec.template.spec.containers[name=m].image: none:1 -> none:2" in ended.stdout
    assert "Warning: at most 5 clusters change at a time" in ended.stderr
    assert stellwerk("diff", "mrm/sample").stdout == "nothing differs, 3 unchanged\n"


@pytest.fixture
def everywhere(home_cluster: LocalCluster, broken: Path) -> Iterator[str]:
    """A mandatory module, which one of the Kymas has. Its objects are those of the other module."""
    here, name = Given(home_cluster), "base"
    here.put(ModuleReleaseMeta.resource, HOME, name, spec=mandatory("1.0.0"))
    for version in IMAGES:
        here.put(ModuleTemplate.resource, HOME, f"{name}-{version}", spec=template(broken, name, version))
    manifest(here, broken, "busy", "Ready", "", module=name)
    yield name
    here.gone(Manifest.resource, HOME, named("busy", name))
    here.gone(ModuleReleaseMeta.resource, HOME, name)
    for version in IMAGES:
        here.gone(ModuleTemplate.resource, HOME, f"{name}-{version}")


def test_diff_of_a_mandatory_module_names_all_kymas_and_what_changes_in_one_cluster(
    stellwerk: Run, broken: Path, everywhere: str
) -> None:
    ended = stellwerk("diff", "-f", changed(broken, everywhere, mandatory("2.0.0")))
    for name, former in (("blocked", "none"), ("busy", "1.0.0"), ("silent", "none")):
        assert f"(Kyma {HOME}/{name}: version {former} -> 2.0.0)" in ended.stdout
    assert (
        f"~ Deployment {SPACE}/manager in the cluster of Secret {HOME}/access-busy of Kyma {HOME}/busy" in ended.stdout
    )
    assert "spec.template.spec.containers[name=m].image: none:1 -> none:2" in ended.stdout

    ended = stellwerk("diff", "-f", changed(broken, everywhere, mandatory("3.0.0")))
    assert "Manifest" not in ended.stdout
    assert "Warning: 3 Kymas keep what they have: failed to get module template" in ended.stderr


def mandatory(version: str) -> JsonObject:
    return {"moduleName": "base", "ocmComponentName": COMPONENT, "mandatory": {"version": version}}


def changed(folder: Path, name: str, spec: JsonObject) -> str:
    """A file with another ModuleReleaseMeta."""
    file = folder / "changed.yaml"
    metadata = {"name": name, "namespace": HOME}
    body = {"apiVersion": Kyma.resource.api_version, "kind": "ModuleReleaseMeta", "metadata": metadata, "spec": spec}
    file.write_text(msgspec.json.encode(body).decode())
    return str(file)


def test_diff_of_the_kyma_of_a_user_shows_what_becomes_of_its_modules(stellwerk: Run, broken: Path) -> None:
    changed = broken / "kyma.yaml"
    metadata = {
        "name": "default",
        "namespace": KYMA_SYSTEM,
        "annotations": {labels.OWNED_BY_ANNOTATION: f"{HOME}/busy"},
    }
    body = {"apiVersion": Kyma.resource.api_version, "kind": "Kyma", "metadata": metadata}
    changed.write_text(msgspec.json.encode({**body, "spec": {"channel": "regular"}}).decode())
    ended = stellwerk("diff", "-f", str(changed), namespace=KYMA_SYSTEM)
    gone = f"- Manifest {HOME}/{named('busy')}"
    assert [line.partition(" (")[2] for line in ended.stdout.splitlines() if line.startswith(gone)] == [
        "will be deleted: the module sample is removed)"
    ]
    metadata["annotations"] = {}
    changed.write_text(msgspec.json.encode({**body, "spec": {"channel": "regular"}}).decode())
    ended = stellwerk("diff", "-f", str(changed), namespace=KYMA_SYSTEM)
    assert "no Kyma of the control plane follows Kyma kyma-system/default" in ended.stderr
