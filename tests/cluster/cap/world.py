"""What lies around the operator under test: the kinds that it has and uses, and the rights of its user."""

from __future__ import annotations

import asyncio

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import unstructured
from stellwerk.local.build import published_definitions
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.cap import api
from stellwerk.operators.cap.rights import GRANTS, HOME_GRANTS
from stellwerk.testing import cluster as clusters
from stellwerk.testing.eventually import eventually
from tests.cluster import permissions
from tests.cluster.cap.shop import OPERATOR
from tests.cluster.component.kinds import established

PUBLISHED = (
    "gateways.networking.istio.io",
    "virtualservices.networking.istio.io",
    "destinationrules.networking.istio.io",
    "certificates.cert-manager.io",
    "certificates.cert.gardener.cloud",
    "dnsentries.dns.gardener.cloud",
)

_FINALIZED = ("capapplications", "capapplicationversions", "captenants", "captenantoperations", "domains")


async def prepare(cluster: LocalCluster) -> None:
    """Have the cluster serve the kinds of CAP and those that it uses, and grant the rights of the operator."""
    async with Client.connect(ClusterConfig.load(cluster.kubeconfig), field_manager="tests") as client:
        target = unstructured(CustomResourceDefinition.resource)
        bodies = [definition.body() for definition in api.DEFINITIONS]
        bodies += published_definitions.definitions(PUBLISHED)
        made = await asyncio.gather(*(client.apply(target, body) for body in bodies))
        for definition in made:
            await eventually(lambda name=definition.metadata.name: established(client, name))  # type: ignore[misc]
        await permissions.grant(client, OPERATOR, (*GRANTS, *HOME_GRANTS))


def leave_namespace(cluster: LocalCluster, name: str) -> None:
    """Delete what the next operator would work on, in a namespace whose operator has stopped or has nothing to do."""
    kinds = [f"sme.sap.com/v1alpha1/{plural}" for plural in _FINALIZED]
    clusters.delete_objects(cluster, name, [*kinds, "v1/secrets"])  # some are notes of subscriptions that have ended
