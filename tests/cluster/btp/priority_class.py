"""The priority class that the operand's pods name: without it the API server refuses such pods."""

from __future__ import annotations

from stellwerk.api.core import Pod
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import Forbidden
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, unstructured
from stellwerk.testing.eventually import eventually

PRIORITY_CLASS = unstructured(Resource("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", False))
NAME = "btp-manager-kyma-priority"
BODY: JsonObject = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": NAME},
    "value": 2100000,
}


async def exists(client: Client) -> None:
    """Create it."""
    await client.apply(PRIORITY_CLASS, BODY)


async def is_missing(client: Client, namespace: str = "kyma-system") -> None:
    """Delete it, and return when the API server refuses pods that name it.

    It knows the classes from a watch of its own, so it accepts such pods for a moment longer.
    """
    await client.delete(PRIORITY_CLASS, NAME)
    spec: JsonObject = {"containers": [{"name": "c", "image": "i"}], "priorityClassName": NAME}
    pod: JsonObject = {"metadata": {"name": "probe", "namespace": namespace}, "spec": spec}

    async def is_refused() -> bool:
        try:
            await client.create(Pod, {"apiVersion": "v1", "kind": "Pod", **pod}, dry_run=True)
        except Forbidden as error:
            return NAME in str(error)
        return False

    await eventually(is_refused, describe="the API server misses the priority class")
