"""The last words of a failed Job: how its containers ended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stellwerk.api.core import ContainerTerminated, Pod
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import ApiError
from stellwerk.kube.types.identifiers import ObjectKey

MOST_PODS = 20
"""Pods of a Job that are looked at."""


async def last_words(client: Client, job: ObjectKey) -> str:
    """The exit code and the last message, to be appended to a sentence; empty where no pod is left."""
    labels = f"batch.kubernetes.io/job-name={job.name}"
    try:
        pods = await client.list(Pod, job.namespace, labels=labels, limit=MOST_PODS)
    except ApiError:
        return ""
    ends = [end for pod in pods.items for end in _ends(pod) if end.exit_code]
    if not ends:
        return ""
    last = max(ends, key=lambda end: end.finished_at.timestamp() if end.finished_at else 0.0)
    details = f": {last.message.strip()}" if last.message.strip() else ""
    return f". Last exit code {last.exit_code} ({last.reason or 'Error'}){details}"


@dataclass(frozen=True, slots=True)
class LastWords:
    """The last words of this very Job, loaded when its failure is shown."""

    key: ObjectKey
    uid: str

    @property
    def tenant(self) -> str:
        """As `Load.tenant`."""
        return self.key.namespace

    @property
    def about(self) -> str:
        """As `Load.about`."""
        return f"how the containers of Job {self.key} ended"

    async def fetch(self, client: Client) -> str:
        """As `Load.fetch`. A failure is shown without them if they cannot be read."""
        return await last_words(client, self.key)

    def size(self, value: str) -> int:
        """As `Load.size`."""
        return len(value)


def _ends(pod: Pod) -> Iterable[ContainerTerminated]:
    for container in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        if (end := container.state.terminated or container.last_state.terminated) is not None:
            yield end
