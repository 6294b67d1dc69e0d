"""Every kind of flux is a source, in the version that the cluster serves, and as soon as it serves one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from stellwerk.api import flux
from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.core import ConfigMap
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject
from stellwerk.testing.eventually import eventually
from tests.cluster.component.given import Given, config_map
from tests.cluster.component.kinds import established, removed
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then
from tests.cluster.component.world import free_definition

PLAIN = {"one.yaml": config_map("one")}
CHART = {
    "shop/Chart.yaml": "apiVersion: v2\nname: shop\nversion: 1.0.0\n",
    "shop/templates/one.yaml": config_map("one"),
}
"""As flux packs a chart: in a folder named after it."""


def reference(key: str) -> JsonObject:
    return {"sourceRef": {key: {"name": "other"}}}


@pytest.mark.parametrize(
    ("key", "kind", "files"),
    [
        ("fluxOciRepository", flux.OciRepository, PLAIN),
        ("fluxBucket", flux.Bucket, PLAIN),
        ("fluxHelmChart", flux.HelmChart, CHART),
        ("fluxExternalArtifact", flux.ExternalArtifact, PLAIN),
    ],
)
async def test_an_artifact_of_every_kind_is_deployed_and_followed(
    given: Given, running: Running, then: Then, key: str, kind: type[flux.FluxSource], files: dict[str, str]
) -> None:
    await running.start()
    await given.component(**reference(key))
    await then.shows("Pending", "Retrying", saying=f"{kind.resource.kind} {then.namespace}/other not found")
    for revision in ("r1", "r2"):
        artifact = given.server.publish(f"{given.namespace}/other.tar.gz", files, revision=revision)
        await given.offers(artifact, "other", kind=kind)
        await then.ready(revision=revision)
    assert await then.exists(ConfigMap, "one")


@pytest.fixture
async def without_buckets(admin: Client) -> AsyncIterator[None]:
    """A cluster that does not know one of the kinds; afterwards it does again."""
    bucket = flux.Bucket.resource
    await removed(admin, bucket.group_resource)
    yield
    await removed(admin, bucket.group_resource)
    await _served(admin, bucket)


async def _served(client: Client, resource: Resource) -> None:
    await client.apply(CustomResourceDefinition, free_definition(resource))
    await eventually(lambda: established(client, resource.group_resource))


@pytest.mark.req("R-207")
@pytest.mark.usefixtures("without_buckets")
@pytest.mark.parametrize("version", flux.VERSIONS)
async def test_a_kind_that_is_not_there_is_waited_for_and_taken_in_the_version_in_which_it_comes(
    given: Given, running: Running, then: Then, admin: Client, version: str
) -> None:
    await running.start()
    await given.component(**reference("fluxBucket"))
    await then.shows("Pending", "Retrying", saying="the cluster serves no Bucket; install flux's source-controller")
    await given.source({"two.yaml": config_map("two")})
    await given.component("neighbour")
    await then.ready("neighbour")

    (resource,) = (one for one in flux.resources(flux.Bucket) if one.version == version)
    await _served(admin, resource)
    artifact = given.server.publish(f"{given.namespace}/other.tar.gz", PLAIN, revision="r1")
    await given.offers(artifact, "other", kind=flux.Bucket, version=version)
    await running.tries_until(lambda: then.ready(revision="r1", within=3), minutes=2)
