"""The chart of the operator makes objects that an API server takes, whatever is installed of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cluster.component.given import Given

from stellwerk.api.core import Namespace, Pod
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.http import warnings
from stellwerk.kube.types.identifiers import GroupVersionKind
from stellwerk.kube.types.model import JsonObject, JsonValue, metadata_of, unstructured
from stellwerk.render.binary import renderer_path
from stellwerk.render.files import local_files
from stellwerk.render.request.capabilities import facts_of
from stellwerk.render.request.request import ReleaseInfo, RenderRequest
from stellwerk.render.worker.renderer import Renderer
from stellwerk.testing.eventually import eventually

CHART = Path(__file__).parents[3] / "deploy" / "chart" / "component-operator"
IMAGE: JsonObject = {"repository": "example.com/stellwerk"}


async def looks_closely(admin: Client, namespace: str) -> bool:
    """Whether the server knows already that it shall: it hears of a label a moment after it has taken it."""
    containers: JsonValue = [{"name": "main", "image": "example.com/main:1", "securityContext": {"privileged": True}}]
    metadata: JsonObject = {"name": "careless", "namespace": namespace}
    with warnings.Listening() as heard:
        await admin.apply(metadata_of(Pod), {"metadata": metadata, "spec": {"containers": containers}}, dry_run=True)
    return bool(heard)


async def remarks_on(admin: Client, namespace: str, values: JsonObject) -> list[str]:
    """What a server remarks that looks closely at all that an installation makes. Raises where it refuses."""
    label = MergePatch({"metadata": {"labels": {"pod-security.kubernetes.io/warn": "restricted"}}})
    await admin.patch(metadata_of(Namespace), namespace, "", label)
    await eventually(lambda: looks_closely(admin, namespace), describe="the server remarks on a pod with all rights")
    request = RenderRequest(
        files=local_files.read(CHART),
        prefix="example.com",
        release=ReleaseInfo("component-operator", namespace),
        values={"image": IMAGE, **values},
        cluster=await facts_of(admin),
    )
    async with Renderer(renderer_path) as renderer:
        made = (await renderer.render(request)).objects
    assert {"Deployment", "CustomResourceDefinition"} <= {str(one["kind"]) for one in made}
    with warnings.Listening() as heard:
        for body in made:
            gvk = GroupVersionKind.parse(str(body["apiVersion"]), str(body["kind"]))
            target = unstructured(await admin.mapper.resource(gvk))
            await admin.apply(target, body, dry_run=True, field_validation="Strict")
    return heard


@pytest.mark.parametrize("values", [{}, {"rbac": {"clusterAdmin": False}, "replicaCount": 2}], ids=["as it is", "less"])
async def test_every_object_of_the_chart_passes_the_strictest_look_of_a_server(
    admin: Client, given: Given, values: JsonObject
) -> None:
    assert await remarks_on(admin, given.namespace, values) == []


async def test_a_pod_with_less_caution_would_not_be_restricted(admin: Client, given: Given) -> None:
    (heard,) = await remarks_on(admin, given.namespace, {"securityContext": None})
    assert "allowPrivilegeEscalation" in heard
