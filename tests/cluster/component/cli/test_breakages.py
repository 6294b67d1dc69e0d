"""`stellwerk why` names the true cause of what is broken in a Component, and a next step that works as printed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from tests.cluster import breakages
from tests.cluster.breakages import Expected, Judge
from tests.cluster.component.given import Given, config_map
from tests.cluster.component.manifests import config, deployment, gate, job, manifest
from tests.cluster.component.running import Running
from tests.cluster.program import CommandLine

from stellwerk.kube.types.model import JsonObject
from stellwerk.local.cluster import LocalCluster


@dataclass(frozen=True, slots=True)
class Row:
    """A Component that is broken by its files or its spec, and what `why` must say."""

    files: Mapping[str, str | bytes]
    cause: tuple[str, ...]
    step: str
    spec: JsonObject = field(default_factory=dict)
    never: tuple[str, ...] = ()


ONE = {"one.yaml": config_map("one")}


def files(*texts: str) -> dict[str, str | bytes]:
    return {f"{number}.yaml": text for number, text in enumerate(texts)}


CLAIM: JsonObject = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1Gi"}},
    "storageClassName": "none-such",
}
PODS: JsonObject = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "example.com/a:1"}]}
SUSPENDED: JsonObject = {"spec": {"suspend": True, "template": {"spec": PODS}}}
MISSPELT: JsonObject = {"spec": {"replicass": 1}}
CIPHERTEXT = manifest("Secret", "s", {"stringData": {"a": "ENC[AES256_GCM,data:YQ==,iv:YQ==,tag:YQ==,type:str]"}})

ROWS: dict[str, Row] = {
    "image": Row(
        files(deployment("web", fate="pull-error")),
        ("image example.com/main:1 cannot be pulled",),
        "kubectl describe pod web-",
    ),
    "crash": Row(
        files(deployment("loops", fate="crash-loop")), ("crashes again and again", "exit code 1"), "kubectl logs loops-"
    ),
    "fate": Row(files(deployment("odd", fate="unredy")), ('"unredy" is not one of',), "kubectl describe pod odd-"),
    "unready": Row(files(deployment("slow", fate="unready")), ("not ready",), "kubectl logs slow-"),
    "job": Row(files(job("migrate", fate="fail")), ("container main ended with exit code 1",), "kubectl logs migrate-"),
    "gate": Row(files(gate("closed")), ("Gate",), "kubectl describe gate.test.example.com/closed"),
    "dependency": Row(
        ONE,
        ("warehouse does not exist",),
        "kubectl edit component dependency",
        {"dependencies": [{"name": "warehouse"}]},
    ),
    "chain": Row(
        ONE,
        ("image example.com/main:1 cannot be pulled",),
        "kubectl describe pod web-",
        {"dependencies": [{"name": "image"}]},
    ),
    "template": Row({"app.yaml": "a: {{ .missing | required }}\n"}, ("app.yaml",), "stellwerk explain"),
    "yaml": Row({"app.yaml": "a: [\n"}, ("app.yaml",), "stellwerk explain"),
    "namespace": Row(
        files(config("x", namespace="nowhere-at-all")),
        ("Namespace nowhere-at-all does not exist",),
        "stellwerk explain",
        {"missingNamespacesPolicy": "DoNotCreate"},
    ),
    "field": Row(
        files(manifest("Deployment", "y", MISSPELT, api_version="apps/v1")),
        ("unknown field spec.replicass",),
        "stellwerk explain",
    ),
    "kind": Row(files(manifest("Widget", "w", api_version="none.example.com/v1")), ("Widget",), "stellwerk explain"),
    "right": Row(files(config("z")), ("may not",), "stellwerk explain", {"serviceAccountName": "powerless"}),
    "policy": Row(files(config("t", adoption_policy="nonsense")), ("adoption-policy",), "stellwerk explain"),
    "secret": Row(ONE, ("absent-values",), "stellwerk explain", {"valuesFrom": [{"name": "absent-values"}]}),
    "claim": Row(
        files(manifest("PersistentVolumeClaim", "lost", {"spec": CLAIM})),
        ("StorageClass none-such does not exist",),
        "kubectl get storageclass,pv",
        never=("see its log",),
    ),
    "paused": Row(
        files(manifest("Job", "paused", SUSPENDED, api_version="batch/v1")),
        ("the Job is suspended",),
        "kubectl describe job paused",
        never=("see its log",),
    ),
    "sops": Row({"s.yaml": CIPHERTEXT}, ("Secret s has text that SOPS encrypted", "s.yaml"), "stellwerk explain"),
    "path": Row(ONE, ("elsewhere",), "stellwerk explain", {"path": "elsewhere"}),
}
"""By Component."""


async def test_why_names_the_cause_of_each_breakage_and_a_command_that_works(
    given: Given, running: Running, component_cluster: LocalCluster, command_line: CommandLine
) -> None:
    judge = Judge(component_cluster.kubeconfig, command_line)
    await running.start()
    for name, row in ROWS.items():
        await given.source(row.files, name)
        await given.component(name, name, **row.spec)
    await given.component("source", "absent")
    expected = {name: Expected(f"comp/{name}", row.cause, row.step, row.never) for name, row in ROWS.items()}
    expected["source"] = Expected("comp/source", ["GitRepository", "absent not found"], "kubectl edit comp source")
    await breakages.all_of([(name, partial(judge.judge, given.namespace, each)) for name, each in expected.items()])
