"""The objects of a CAPOperator, as they are applied and deleted.

A rendering is kept for an hour: a chart that looks objects up (the Secret of its own certificate) would otherwise cost
requests in every pass. It is repeated earlier when anything that goes into it has changed, and an hour later, because a
chart may renew a certificate that is about to expire.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial

from stellwerk.api.apps import Deployment
from stellwerk.apply.objects import discover
from stellwerk.apply.objects.manifests import Document
from stellwerk.apply.set.checks.crd_usage import CrdUsage
from stellwerk.apply.set.model import inventory_codec
from stellwerk.apply.set.model.desired_set import DesiredObject
from stellwerk.apply.set.model.inventory import Inventory
from stellwerk.apply.set.model.owner import Owner
from stellwerk.apply.set.plan.plan_input import ApplyOptions
from stellwerk.delivery.sets.served_apis import ServedApis
from stellwerk.delivery.sets.set_pass import SetWork
from stellwerk.delivery.template_lookup import answer
from stellwerk.delivery.watched_objects import OwnedObjects
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import MethodNotAllowed, NotServed
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import JsonObject, metadata_of, unstructured
from stellwerk.operators.cap_manager.api import MANAGER, CAPOperator, CAPOperatorStatus
from stellwerk.operators.cap_manager.capoperator import resources
from stellwerk.operators.cap_manager.capoperator.chart import Chart
from stellwerk.operators.cap_manager.capoperator.observe import Content
from stellwerk.render.request.request import ClusterApis, ReleaseInfo, Rendered, RenderRequest
from stellwerk.render.worker.renderer import Renderer
from stellwerk.runtime.clock import Clock

RENDERED_SECONDS = 3600.0
"""For how long a rendering is kept."""
_SHOWN = 3
"""How many objects of a kind, and kinds, a message names."""


@dataclass(frozen=True, slots=True)
class PreparedSet:
    """The objects of a rendering, what they were made of, and when."""

    made_of: tuple[str, bool]
    at: float
    wanted: tuple[DesiredObject, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Installer:
    """Works on the objects of CAPOperators. `cluster_uid` returns the uid of the cluster."""

    client: Client
    renderer: Renderer
    chart: Chart
    owned: OwnedObjects
    apis: ServedApis
    cluster_uid: Callable[[], Awaitable[str]]
    clock: Clock

    async def prepared(
        self, capoperator: CAPOperator, status: CAPOperatorStatus, content: Content, former: PreparedSet | None
    ) -> PreparedSet:
        """The objects that a content asks for; the former ones where nothing can have changed.

        Raises a RenderError, InvalidSet, ApiError.
        """
        now = self.clock.monotonic()
        made_of = (content.digest, capoperator.retains_objects)
        if former is not None and former.made_of == made_of and self._is_valid(former, now):
            return former
        asked = request_of(capoperator, status, content, self.chart, await self.apis.facts(self.client))
        rendered = await self.renderer.render(asked, partial(answer, self.client))
        documents = await documents_of(capoperator, rendered, self.client)
        served = await discover.served(documents, self.client.mapper)
        terms = resources.terms(capoperator.key, await self.cluster_uid())
        return PreparedSet(made_of, now, terms.desired(documents, served, capoperator.status.processing_digest))

    def _is_valid(self, former: PreparedSet, now: float) -> bool:
        """Whether the cluster serves what it served then: while that is doubted, every pass renders again."""
        return former.at >= self.apis.doubted_until and now - former.at < RENDERED_SECONDS

    async def work(self, capoperator: CAPOperator, prepared: PreparedSet) -> SetWork:
        """The objects as a pass applies them. Raises ApiError."""
        known = inventory_codec.read(capoperator.status.inventory)
        if self.chart.is_product:
            known = resources.keeping_certificate(known, capoperator.key)
        return replace(await self.work_of_deletion(capoperator, known), wanted=prepared.wanted)

    async def work_of_deletion(self, capoperator: CAPOperator, known: Inventory) -> SetWork:
        """The objects as a pass deletes them; none while users have CAP objects, also new ones. Raises ApiError."""
        terms = resources.terms(capoperator.key, await self.cluster_uid())
        return SetWork(
            client=self.client,
            owned=self.owned,
            owner=terms.owner,
            policies=terms.policies,
            options=ApplyOptions(repairs_drift=True),
            known=known,
            only_unused=True,
        )

    async def users(self, capoperator: CAPOperator, inventory: Inventory) -> list[str]:
        """The objects of users for which the installation must stay; empty where it may go. Raises ApiError."""
        owner = resources.terms(capoperator.key, await self.cluster_uid()).owner
        usage = CrdUsage(self.client, owner, self.clock.now())
        if not (obstacle := await usage.obstacle(inventory)):
            return []
        found = [await self._in_use(resource, owner) for resource in await self._brought(inventory)]
        return [text for text in found if text] or [obstacle]

    async def _brought(self, inventory: Inventory) -> list[Resource]:
        served = await self.client.mapper.all()
        return [
            resource
            for entry in inventory
            for type_ in entry.managed_types
            for resource in served
            if type_.matches(resource.gvk)
        ]

    async def _in_use(self, resource: Resource, owner: Owner) -> str:
        """The first objects of a kind of the installation that users have; empty where there are none."""
        selector = f"{owner.mark}!={owner.label_value}"
        pages = self.client.pages(metadata_of(resource), labels=selector, limit=_SHOWN)
        try:
            async with aclosing(pages):
                page = await anext(pages)
        except (NotServed, MethodNotAllowed):
            return ""
        named = ", ".join(str(obj.key) for obj in page.items[:_SHOWN])
        return f"{resource.kind} {named}{' and more' if page.continue_token else ''}" if named else ""


async def documents_of(capoperator: CAPOperator, rendered: Rendered, client: Client) -> list[Document]:
    """The objects as they can be applied where they are. Raises ApiError."""
    documents = resources.documents(rendered, retains=capoperator.retains_objects)
    namespace = capoperator.metadata.namespace
    selectors: dict[ObjectKey, JsonObject] = {}
    for key in resources.deployments(documents, namespace):
        live = await client.find(unstructured(Deployment.resource), key.name, key.namespace)
        selector = live.at("spec", "selector") if live is not None else None
        if isinstance(selector, dict):
            selectors[key] = selector
    return resources.with_selectors(documents, selectors, namespace)


def request_of(
    capoperator: CAPOperator, status: CAPOperatorStatus, content: Content, chart: Chart, apis: ClusterApis
) -> RenderRequest:
    """What the renderer is asked for (pure)."""
    key = capoperator.key
    return RenderRequest(
        files=chart.files,
        generator="helm",
        prefix=MANAGER,
        release=ReleaseInfo(key.name, key.namespace, MANAGER, max(status.revision, 1)),
        values=content.values,
        component_digest=content.digest,
        cluster=apis,
        tenant=key.namespace,
    )
