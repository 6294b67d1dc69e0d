"""The last words of a failed Job: how its containers ended."""

from __future__ import annotations

from collections.abc import Iterable

from stellwerk.api.batch import Job
from stellwerk.api.core import ContainerTerminated, Pod
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import ApiError

MOST_PODS = 20
"""Pods of a Job that are looked at."""


async def last_words(client: Client, job: Job) -> str:
    """The exit code and the last message, to be appended to a sentence; empty where no pod is left."""
    labels = f"batch.kubernetes.io/job-name={job.metadata.name}"
    try:
        pods = await client.list(Pod, job.metadata.namespace, labels=labels, limit=MOST_PODS)
    except ApiError:
        return ""
    ends = [end for pod in pods.items for end in _ends(pod) if end.exit_code]
    if not ends:
        return ""
    last = max(ends, key=lambda end: end.finished_at.timestamp() if end.finished_at else 0.0)
    details = f": {last.message.strip()}" if last.message.strip() else ""
    return f". Last exit code {last.exit_code} ({last.reason or 'Error'}){details}"


def _ends(pod: Pod) -> Iterable[ContainerTerminated]:
    for container in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        if (end := container.state.terminated or container.last_state.terminated) is not None:
            yield end
