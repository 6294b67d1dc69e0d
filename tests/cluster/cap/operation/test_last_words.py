"""The last words of a failed Job are those that its pod has written."""

from __future__ import annotations

from stellwerk.api.core import Pod
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, metadata_of
from stellwerk.operators.cap.pods.last_words import last_words


async def pod(client: Client, namespace: str, name: str, job: str, **terminated: str | int) -> None:
    """A pod of a Job that no node runs, whose container has ended so."""
    metadata: JsonObject = {"name": name, "namespace": namespace, "labels": {"batch.kubernetes.io/job-name": job}}
    spec: JsonObject = {
        "schedulerName": "none",
        "nodeName": "elsewhere",
        "containers": [{"name": "main", "image": "job:1"}],
    }
    await client.create(Pod, {"metadata": metadata, "spec": spec})
    state: JsonObject = {"terminated": {**terminated}}
    shown: JsonObject = {"name": "main", "image": "job:1", "imageID": "", "ready": False, "restartCount": 0}
    patch = MergePatch({"status": {"phase": "Failed", "containerStatuses": [{**shown, "state": state}]}})
    await client.patch(metadata_of(Pod), name, namespace, patch, subresource="status")


async def test_the_exit_code_and_the_message_of_the_pod_that_ended_last_are_shown(admin: Client, home: str) -> None:
    early, late = "2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z"
    await pod(admin, home, "first", "mtxs-1", exitCode=2, reason="Error", message="early", finishedAt=early)
    await pod(admin, home, "second", "mtxs-1", exitCode=3, reason="OOMKilled", message="no HDI\n", finishedAt=late)
    await pod(admin, home, "other", "mtxs-2", exitCode=9, reason="Error", message="other", finishedAt=late)

    assert await last_words(admin, ObjectKey(home, "mtxs-1")) == ". Last exit code 3 (OOMKilled): no HDI"


async def test_a_job_without_pods_has_no_last_words(admin: Client, home: str) -> None:
    assert await last_words(admin, ObjectKey(home, "mtxs-1")) == ""
