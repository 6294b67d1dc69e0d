"""What a web server offers for a Component, and the files behind it: for passes and for a person alike."""

from __future__ import annotations

from stellwerk.operators.component.api_spec import HttpRepository
from stellwerk.operators.component.api_status import Artifact
from stellwerk.operators.component.references.references import LoginSecret
from stellwerk.operators.component.sources import credentials, sources
from stellwerk.render.files.files import Files
from stellwerk.render.sources.downloads import Downloads
from stellwerk.render.sources.egress import EgressRules
from stellwerk.render.sources.http import OriginCredentials


async def head(
    downloads: Downloads,
    repository: HttpRepository,
    login: LoginSecret | None,
    rules: EgressRules,
    tenant: str = "",
    *,
    is_poll: bool = False,
) -> Artifact:
    """What the headers of a web server offer. Raises SourceError, InvalidCredentials."""
    digest, revision = sources.headers_of(repository)
    found = await downloads.head(
        repository.url,
        rules=rules,
        digest_header=digest,
        revision_header=revision,
        tenant=tenant,
        credentials=shown(repository, login),
        is_poll=is_poll,
    )
    return Artifact(url=found.url, digest=found.digest, revision=found.revision)


async def fetch(
    downloads: Downloads,
    repository: HttpRepository,
    artifact: Artifact,
    login: LoginSecret | None,
    rules: EgressRules,
    tenant: str = "",
) -> Files:
    """The files of an artifact that a web server offered. Raises SourceError, InvalidCredentials."""
    return await downloads.fetch(
        artifact.url,
        artifact.digest,
        rules=rules,
        tenant=tenant,
        credentials=shown(repository, login),
        digest_header=sources.headers_of(repository)[0],
    )


def shown(repository: HttpRepository, login: LoginSecret | None) -> OriginCredentials | None:
    """Bound to the address that the spec names: what its answer leads to may be another server."""
    return credentials.of(repository.url, login) if login is not None else None
