"""What a source offers, and the files behind it: the reading side of `sources`.

Flux objects and Blueprints are watched, so what they offer is looked up in memory. A kind of flux that the cluster does
not serve is no failure of ours: its watch is parked until it is served, and Components that need it say so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from stellwerk.api import flux
from stellwerk.operators.component import sources
from stellwerk.operators.component.api import Component
from stellwerk.operators.component.api_status import Artifact, SourceStatus
from stellwerk.operators.component.blueprints import BlueprintStore
from stellwerk.operators.component.errors import SourceUnusable
from stellwerk.operators.component.sources import Source, SourceKind
from stellwerk.render.downloads import Downloads
from stellwerk.render.egress import IN_CLUSTER, EgressRules
from stellwerk.render.errors import SourceError
from stellwerk.render.files import Files
from stellwerk.runtime.informer import Informer

Watches = Callable[[SourceKind], Awaitable[Informer[flux.Source]]]
"""Gives the cache of a kind of flux, and opens it where there is none yet."""


@dataclass(slots=True, kw_only=True)
class Artifacts:
    """Reads sources for all Components."""

    watches: Watches
    blueprints: BlueprintStore
    downloads: Downloads
    flux_rules: EgressRules = IN_CLUSTER
    """What may be called for an artifact that flux names."""
    tenant_rules: EgressRules = IN_CLUSTER
    """What may be called for a URL that a Component names."""

    async def offer(self, component: Component, source: Source) -> SourceStatus:
        """What the source offers now. Raises `SourceNotReady` or `SourceUnusable`."""
        match source.kind:
            case SourceKind.Blueprint:
                return self.blueprints.offer(source)
            case SourceKind.HttpRepository:
                return await self._ask(component, source)
            case _:
                return await self._flux(source)

    async def files(self, component: Component, source: Source, artifact: Artifact) -> Files:
        """The files of an artifact. Raises a `SourceError`."""
        if source.kind is SourceKind.Blueprint:
            return await self.blueprints.files(source, artifact)
        tenant = component.metadata.namespace
        if source.repository is None:
            return await self.downloads.fetch(artifact.url, artifact.digest, rules=self.flux_rules, tenant=tenant)
        header, _ = sources.headers_of(source.repository)
        return await self.downloads.fetch(
            artifact.url, artifact.digest, rules=self.tenant_rules, tenant=tenant, digest_header=header
        )

    async def _flux(self, source: Source) -> SourceStatus:
        cache = await self.watches(source.kind)
        await cache.wait_settled()
        if cache.parked is not None:
            raise sources.not_served(source)
        assert source.key is not None
        return sources.offered_by_flux(source, cache.store.get(source.key))

    async def _ask(self, component: Component, source: Source) -> SourceStatus:
        assert source.repository is not None
        digest, revision = sources.headers_of(source.repository)
        try:
            found = await self.downloads.head(
                source.repository.url,
                rules=self.tenant_rules,
                digest_header=digest,
                revision_header=revision,
                tenant=component.metadata.namespace,
            )
        except SourceError as error:
            raise SourceUnusable(str(error)) from error
        return sources.download_offer(Artifact(url=found.url, digest=found.digest, revision=found.revision))
