"""What a Component comes to, worked out for a person: without the operator, and if need be without a cluster.

    resolved   what its spec refers to, from the person's own files first, then from the cluster
    offered    its source, with the files: a folder that the person names, or what the cluster offers
    rendered   the objects
    wanted     the objects as they would be applied

Everything is read with the person's own rights. The pure steps are the operator's own; only the reading differs,
because a person asks once and has no caches.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from ipaddress import ip_network

import msgspec

from stellwerk.api import flux
from stellwerk.api.core import ConfigMap, Secret
from stellwerk.apply.errors import ApplyError
from stellwerk.apply.objects import discover
from stellwerk.apply.objects.manifests import Document
from stellwerk.apply.set.model import inventory_codec
from stellwerk.apply.set.model.desired_set import DesiredObject, Terms, promised, remembered
from stellwerk.apply.set.model.owner import Owner
from stellwerk.delivery.insight import Preview, PreviewFailed, PreviewRequest
from stellwerk.delivery.sets.cluster_identity import ClusterIdentity
from stellwerk.delivery.template_lookup import answer
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import LoginFailed
from stellwerk.kube.types.model import JsonValue, View
from stellwerk.operators.component.api import RECONCILER, Blueprint, Component
from stellwerk.operators.component.api_status import Artifact, SourceStatus
from stellwerk.operators.component.component import delete_hooks, status_plan
from stellwerk.operators.component.component.deployment import DeploymentContent, request_of
from stellwerk.operators.component.errors import ComponentFailed, SourceNotReady
from stellwerk.operators.component.references import digests, referenced_data, references
from stellwerk.operators.component.references.inputs import layers_of
from stellwerk.operators.component.sources import blueprint_versions, sources
from stellwerk.operators.component.sources.sources import FLUX_KINDS, Source, SourceKind
from stellwerk.operators.component.sources.web import WebServer
from stellwerk.render.errors import RenderError, SourceError
from stellwerk.render.files import local_files
from stellwerk.render.files.files import Files
from stellwerk.render.request.capabilities import facts_of
from stellwerk.render.request.request import UNKNOWN_CLUSTER, Missing, Rendered, TemplateQuery
from stellwerk.render.sources.downloads import Downloads
from stellwerk.render.sources.egress import EgressRules
from stellwerk.render.worker.renderer import Renderer

ANYWHERE = EgressRules(http=True, private=True, networks=(ip_network("0.0.0.0/0"), ip_network("::/0")))
"""A user may call what the machine may call."""

CALL_SECONDS = 10.0
"""How long another cluster may take for an answer."""

LOCAL = Artifact(url="file://", digest="local", revision="local")
"""Replaces the source where the user names a folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentPreviewInput:
    """What a person has at hand. Without a client nothing of a cluster is known."""

    client: Client | None
    documents: tuple[Document, ...] = ()
    """Secrets and ConfigMaps of the user; they precede those of the cluster."""
    folder: Files | None = None
    """The files, where the user names a folder."""
    target: Client | None = None
    """The cluster that the objects go to; None: the one of the Component."""

    async def reaching(self, component: Component, connections: AsyncExitStack) -> ComponentPreviewInput:
        """The same with the cluster of a Component's kubeconfig. Raises ComponentFailed, LoginFailed, ApiError."""
        login = [each for each in references.find(component) if each.place == references.KUBE_CONFIG]
        named = (await self._settled(component, login)).kube_config
        assert named is not None, "the Component has a kubeconfig"
        config = ClusterConfig.from_kubeconfig_text(named.text.decode())
        opening = Client.connect(config, user_agent="stellwerk-cli", call_seconds=CALL_SECONDS)
        return replace(self, target=await connections.enter_async_context(opening))

    async def resolved(self, component: Component) -> references.Resolved:
        """What the objects are made of. Raises ComponentFailed with all that is missing."""
        logins = references.for_source(component)
        return await self._settled(component, [one for one in references.find(component) if one not in logins])

    async def offered(self, component: Component, downloads: Downloads) -> tuple[SourceStatus, Files]:
        """The source and its files. Raises ComponentFailed, SourceError or ApiError."""
        if self.folder is not None:
            taken = component.status.source_ref.artifact if component.status.source_ref else None
            return sources.download_offer(taken or LOCAL), self.folder
        source = sources.named(component)
        if source.repository is not None:
            login = (await self._settled(component, references.for_source(component))).login
            server = WebServer(downloads, source.repository, login, ANYWHERE)
            artifact = await server.head()
            return sources.download_offer(artifact), await server.fetch(artifact)
        if self.client is None:
            raise SourceNotReady(source.place, "there is no cluster to ask for the source; name a folder with --path")
        if source.kind is SourceKind.Blueprint:
            return await _blueprint(self.client, source)
        return await _flux(self.client, source, downloads)

    async def rendered(
        self, component: Component, offer: SourceStatus, files: Files, renderer: Renderer
    ) -> tuple[DeploymentContent, Rendered]:
        """The objects. Raises ComponentFailed or RenderError."""
        resolved = await self.resolved(component)
        assert offer.artifact is not None  # an offer has one
        digest = digests.of_component(component, {**resolved.digests, "/sourceRef": offer.digest})
        begun = status_plan.start_content(component, offer, digest)
        content = DeploymentContent(offer.artifact, resolved, begun.digest)
        status = status_plan.record_attempt(begun.status, offer.artifact)
        there = self.target or self.client
        cluster = await facts_of(there) if there is not None else UNKNOWN_CLUSTER
        request = request_of(component, status, content, files, cluster, layers_of(component, resolved))
        return content, await renderer.render(request, self._lookup)

    async def wanted(
        self, component: Component, content: DeploymentContent, rendered: Rendered
    ) -> tuple[DesiredObject, ...]:
        """The objects as they would be applied. Raises InvalidSet, ApiError."""
        assert self.client is not None
        documents, _ = delete_hooks.documents_of(component, rendered)
        owner = Owner.of(RECONCILER, await ClusterIdentity(self.client)(), component.key)
        served = await discover.served(documents, (self.target or self.client).mapper, promised(documents))
        terms = Terms(component.target.namespace, owner, status_plan.policies(component.spec))
        resources = remembered(documents, served, lambda: inventory_codec.read(component.status.inventory))
        return terms.desired(documents, resources, content.digest)

    async def _lookup(self, query: TemplateQuery) -> JsonValue | Missing:
        if self.client is None or query.where == "kubeconfig":
            return [] if query.many else Missing.OBJECT
        return await answer(self.target or self.client if query.where == "target" else self.client, query)

    async def _settled(self, component: Component, wanted: Sequence[references.Reference]) -> references.Resolved:
        return references.settle(component, wanted, await self._found({obj.target for obj in wanted}))

    async def _found(self, targets: set[references.ReferencedObject]) -> references.Found:
        return {target: self._brought(target) or await self._read(target) for target in targets}

    def _brought(self, target: references.ReferencedObject) -> references.ReferencedContent | None:
        for document in self.documents:
            if document.body.get("kind") == target.kind:
                obj = msgspec.convert(document.body, referenced_data.KINDS[target.kind])
                if obj.metadata.name == target.key.name and obj.metadata.namespace in ("", target.key.namespace):
                    return referenced_data.content_of(_folded(obj, document))
        return None

    async def _read(
        self, target: references.ReferencedObject
    ) -> references.ReferencedContent | references.UnreadReference:
        if self.client is None:
            return referenced_data.NOT_FOUND
        found = await referenced_data.find(self.client, target)
        return referenced_data.content_of(found) if found is not None else referenced_data.NOT_FOUND


def _folded(obj: Secret | ConfigMap, document: Document) -> Secret | ConfigMap:
    """A Secret as a person writes it: texts in stringData."""
    texts = document.body.get("stringData")
    if not isinstance(obj, Secret) or not isinstance(texts, dict):
        return obj
    encoded = {key: base64.b64encode(str(value).encode()).decode() for key, value in texts.items()}
    return msgspec.structs.replace(obj, data={**obj.data, **encoded})


async def _flux(client: Client, source: Source, downloads: Downloads) -> tuple[SourceStatus, Files]:
    kind = FLUX_KINDS[source.kind]
    if (resource := await flux.served(kind, client.mapper)) is None:
        raise sources.not_served(source)
    offer = sources.offered_by_flux(
        source, await client.find(View(resource, kind), source.key.name, source.key.namespace)
    )
    assert offer.artifact is not None
    return offer, await downloads.fetch(offer.artifact.url, offer.artifact.digest, rules=ANYWHERE)


async def _blueprint(client: Client, source: Source) -> tuple[SourceStatus, Files]:
    found = await client.find(Blueprint, source.key.name, source.key.namespace)
    if found is None:
        raise SourceNotReady(source.place, f"Blueprint {source.key} not found")
    return sources.offer(found.metadata, blueprint_versions.artifact(found)), blueprint_versions.files(found.spec.files)


class ComponentPreviewer:
    """Computes what the component-operator would apply for a Component."""

    kind = Component
    accepts_image = False

    async def preview(self, subject: Component, request: PreviewRequest) -> Preview:
        """See `Previewer`. Objects in another cluster are compared there, with the login of the Component."""
        try:
            folder = local_files.read(request.folder) if request.folder is not None else None
        except SourceError as error:
            raise PreviewFailed(str(error), fix="name another folder with --path") from None
        desk = ComponentPreviewInput(client=request.client, documents=request.documents, folder=folder)
        try:
            if subject.spec.kube_config is not None:
                desk = await desk.reaching(subject, request.connections)
            offer, files = await desk.offered(subject, request.downloads)
            content, rendered = await desk.rendered(subject, offer, files, request.renderer)
            members = await desk.wanted(subject, content, rendered)
        except (ComponentFailed, RenderError, ApplyError) as error:
            raise PreviewFailed(str(error)) from None
        except (LoginFailed, UnicodeDecodeError) as error:
            raise PreviewFailed(f"the kubeconfig of spec.kubeConfig cannot be used: {error}") from None
        warnings = rendered.chart.warnings if rendered.chart is not None else ()
        found = Preview(
            field_manager=RECONCILER,
            members=members,
            inventory=inventory_codec.read(subject.status.inventory),
            client=desk.target,
            place="in the cluster of spec.kubeConfig" if desk.target is not None else "",
        )
        if desk.target is None:
            return replace(found, warnings=warnings)
        return Preview(field_manager=RECONCILER, others=(found,), warnings=warnings)


previewer = ComponentPreviewer()
