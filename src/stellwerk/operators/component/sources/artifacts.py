"""What a source offers, and the files behind it: the reading side of `sources`.

Flux objects and Blueprints are watched, so what they offer is looked up in memory. A kind of flux that the cluster does
not serve is no failure of ours: its watch is parked until it is served, and Components that need it report that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from stellwerk.api import flux
from stellwerk.operators.component.api import Component
from stellwerk.operators.component.api_spec import HttpRepository
from stellwerk.operators.component.api_status import Artifact, SourceStatus
from stellwerk.operators.component.errors import SourceNotReady, SourceUnusable, failure_of
from stellwerk.operators.component.references import references
from stellwerk.operators.component.references.referenced_data import ReferenceReader
from stellwerk.operators.component.references.references import LoginSecret
from stellwerk.operators.component.sources import sources
from stellwerk.operators.component.sources.blueprints import BlueprintStore
from stellwerk.operators.component.sources.sources import Source, SourceKind
from stellwerk.operators.component.sources.web import WebServer
from stellwerk.render.errors import SourceError
from stellwerk.render.files.files import Files
from stellwerk.render.sources.downloads import Downloads
from stellwerk.render.sources.egress import IN_CLUSTER, EgressRules, shown_url
from stellwerk.runtime.cache.informer import Informer

Watches = Callable[[SourceKind], Awaitable[Informer[flux.FluxSource]]]
"""Gives the cache of a kind of flux, and opens it where there is none yet."""


@dataclass(slots=True, kw_only=True)
class Artifacts:
    """Reads sources for all Components."""

    watches: Watches
    blueprints: BlueprintStore
    downloads: Downloads
    contents: ReferenceReader
    flux_rules: EgressRules = IN_CLUSTER
    """What may be called for an artifact that flux names."""
    tenant_rules: EgressRules = IN_CLUSTER
    """What may be called for a URL that a Component names."""

    async def offer(self, component: Component, source: Source, login: LoginSecret | None) -> SourceStatus:
        """What the source offers now. Raises `SourceNotReady`, `SourceUnusable` or `InvalidCredentials`."""
        if source.kind is SourceKind.Blueprint:
            return await self.blueprints.offer(source)
        if source.repository is None:
            return await self._flux(source)
        try:
            found = await self._server(component, source.repository, login).head()
        except SourceError as error:
            raise failure_of(error).resolving(source.place) from error
        return sources.download_offer(found)

    def has_to_call(self, component: Component, source: Source, artifact: Artifact, login: LoginSecret | None) -> bool:
        """Whether `files` has to call a server. Raises InvalidCredentials."""
        if source.kind is SourceKind.Blueprint:
            return False
        if source.repository is not None:
            return not self._server(component, source.repository, login).has(artifact)
        tenant = component.metadata.namespace
        return not self.downloads.has(artifact.url, artifact.digest, rules=self.flux_rules, tenant=tenant)

    async def files(self, component: Component, source: Source, artifact: Artifact, login: LoginSecret | None) -> Files:
        """The files of an artifact. Raises a `SourceError` or `InvalidCredentials`."""
        if source.kind is SourceKind.Blueprint:
            return await self.blueprints.files(source, artifact)
        if not artifact.digest:
            raise SourceUnusable(f"the artifact {shown_url(artifact.url)} has no digest, so it cannot be checked")
        if source.repository is not None:
            return await self._server(component, source.repository, login).fetch(artifact)
        tenant = component.metadata.namespace
        return await self.downloads.fetch(artifact.url, artifact.digest, rules=self.flux_rules, tenant=tenant)

    def _server(self, component: Component, repository: HttpRepository, login: LoginSecret | None) -> WebServer:
        return WebServer(self.downloads, repository, login, self.tenant_rules, component.metadata.namespace)

    async def _flux(self, source: Source) -> SourceStatus:
        cache = await self.watches(source.kind)
        await cache.wait_settled()
        if cache.parked is not None:
            raise sources.not_watched(source, cache.parked)
        if odd := cache.unreadable.get(source.key):
            raise SourceNotReady(source.place, str(odd))
        return sources.offered_by_flux(source, cache.store.get(source.key))

    async def poll(self, component: Component, repository: HttpRepository) -> Artifact:
        """What the web server of a Component offers now, outside of its passes. Raises SourceError, ComponentFailed."""
        wanted = references.for_source(component)
        resolved = references.settle(component, wanted, await self.contents.read(obj.target for obj in wanted))
        return await self._server(component, repository, resolved.login).head(is_poll=True)
