"""What a source offers, and the files behind it: the reading side of `sources`.

Flux objects and Blueprints are watched, so what they offer is looked up in memory. A kind of flux that the cluster does
not serve is no failure of ours: its watch is parked until it is served, and Components that need it report that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from stellwerk.api import flux
from stellwerk.operators.component.api import Component
from stellwerk.operators.component.api_status import Artifact, SourceStatus
from stellwerk.operators.component.errors import SourceNotReady, SourceUnusable, failure_of
from stellwerk.operators.component.references import references
from stellwerk.operators.component.references.referenced_data import ReferenceReader
from stellwerk.operators.component.references.references import LoginSecret
from stellwerk.operators.component.sources import credentials, sources
from stellwerk.operators.component.sources.blueprints import BlueprintStore
from stellwerk.operators.component.sources.sources import Source, SourceKind
from stellwerk.render.errors import SourceError
from stellwerk.render.files.files import Files
from stellwerk.render.sources.downloads import Downloads
from stellwerk.render.sources.egress import IN_CLUSTER, EgressRules, shown_url
from stellwerk.render.sources.http import OriginCredentials
from stellwerk.runtime.cache.informer import Informer

Watches = Callable[[SourceKind], Awaitable[Informer[flux.FluxSource]]]
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

    async def offer(self, component: Component, source: Source, login: LoginSecret | None = None) -> SourceStatus:
        """What the source offers now. Raises `SourceNotReady`, `SourceUnusable` or `InvalidCredentials`."""
        match source.kind:
            case SourceKind.Blueprint:
                return await self.blueprints.offer(source)
            case SourceKind.HttpRepository:
                return await self._ask(component, source, login)
            case _:
                return await self._flux(source)

    def has_to_call(
        self, component: Component, source: Source, artifact: Artifact, login: LoginSecret | None = None
    ) -> bool:
        """Whether `files` has to call a server. Raises InvalidCredentials."""
        if source.kind is SourceKind.Blueprint:
            return False
        shown = _shown(source, login) if source.repository is not None else None
        rules = self.tenant_rules if source.repository is not None else self.flux_rules
        tenant = component.metadata.namespace
        return not self.downloads.has(artifact.url, artifact.digest, rules=rules, tenant=tenant, credentials=shown)

    async def files(
        self, component: Component, source: Source, artifact: Artifact, login: LoginSecret | None = None
    ) -> Files:
        """The files of an artifact. Raises a `SourceError` or `InvalidCredentials`."""
        if source.kind is SourceKind.Blueprint:
            return await self.blueprints.files(source, artifact)
        if not artifact.digest:
            raise SourceUnusable(f"the artifact {shown_url(artifact.url)} has no digest, so it cannot be checked")
        tenant = component.metadata.namespace
        if source.repository is None:
            return await self.downloads.fetch(artifact.url, artifact.digest, rules=self.flux_rules, tenant=tenant)
        header, _ = sources.headers_of(source.repository)
        return await self.downloads.fetch(
            artifact.url,
            artifact.digest,
            rules=self.tenant_rules,
            tenant=tenant,
            credentials=_shown(source, login),
            digest_header=header,
        )

    async def _flux(self, source: Source) -> SourceStatus:
        cache = await self.watches(source.kind)
        await cache.wait_settled()
        if cache.parked is not None:
            raise sources.not_watched(source, cache.parked)
        assert source.key is not None
        if odd := cache.unreadable.get(source.key):
            raise SourceNotReady(source.place, str(odd))
        return sources.offered_by_flux(source, cache.store.get(source.key))

    async def _ask(self, component: Component, source: Source, login: LoginSecret | None) -> SourceStatus:
        assert source.repository is not None
        digest, revision = sources.headers_of(source.repository)
        shown = _shown(source, login)
        try:
            found = await self.downloads.head(
                source.repository.url,
                rules=self.tenant_rules,
                digest_header=digest,
                revision_header=revision,
                tenant=component.metadata.namespace,
                credentials=shown,
            )
        except SourceError as error:
            raise failure_of(error) from error
        return sources.download_offer(Artifact(url=found.url, digest=found.digest, revision=found.revision))


def _shown(source: Source, login: LoginSecret | None) -> OriginCredentials | None:
    """Bound to the address that the spec names: what its answer leads to may be another server."""
    assert source.repository is not None
    return credentials.of(source.repository.url, login) if login is not None else None


@dataclass(frozen=True, slots=True)
class Logins:
    """What the web servers of Components are shown, for who is not in the middle of a pass."""

    contents: ReferenceReader

    async def __call__(self, component: Component) -> OriginCredentials | None:
        """What the server of a Component is shown, or nothing. Raises ComponentFailed."""
        wanted = references.for_source(component)
        resolved = references.settle(component, wanted, await self.contents.read(obj.target for obj in wanted))
        repository = component.spec.source_ref.http_repository
        if repository is None or resolved.login is None:
            return None
        return credentials.of(repository.url, resolved.login)
