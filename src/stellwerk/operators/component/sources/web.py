"""What a web server offers for a Component, and the files behind it: for passes and for a person alike."""

from __future__ import annotations

from dataclasses import dataclass

from stellwerk.operators.component.api_spec import HttpRepository
from stellwerk.operators.component.api_status import Artifact
from stellwerk.operators.component.references.references import LoginSecret
from stellwerk.operators.component.sources import credentials, sources
from stellwerk.render.files.files import Files
from stellwerk.render.sources.downloads import Downloads
from stellwerk.render.sources.egress import EgressRules
from stellwerk.render.sources.http import OriginCredentials


@dataclass(frozen=True, slots=True)
class WebServer:
    """A web server, and how it is called. Everything raises InvalidCredentials."""

    downloads: Downloads
    repository: HttpRepository
    login: LoginSecret | None
    rules: EgressRules
    tenant: str = ""

    @property
    def _credentials(self) -> OriginCredentials | None:
        """Bound to the address that the spec names: what its answer leads to may be another server."""
        return credentials.of(self.repository.url, self.login) if self.login is not None else None

    async def head(self, *, is_poll: bool = False) -> Artifact:
        """What the headers of the server offer. Raises SourceError."""
        digest, revision = sources.headers_of(self.repository)
        found = await self.downloads.head(
            self.repository.url,
            rules=self.rules,
            digest_header=digest,
            revision_header=revision,
            tenant=self.tenant,
            credentials=self._credentials,
            is_poll=is_poll,
        )
        return Artifact(url=found.url, digest=found.digest, revision=found.revision)

    def has(self, artifact: Artifact) -> bool:
        """Whether the files of an artifact are here."""
        url, digest, shown = artifact.url, artifact.digest, self._credentials
        return self.downloads.has(url, digest, rules=self.rules, tenant=self.tenant, credentials=shown)

    async def fetch(self, artifact: Artifact) -> Files:
        """The files of an artifact that the server offered. Raises SourceError."""
        return await self.downloads.fetch(
            artifact.url,
            artifact.digest,
            rules=self.rules,
            tenant=self.tenant,
            credentials=self._credentials,
            digest_header=sources.headers_of(self.repository)[0],
        )
