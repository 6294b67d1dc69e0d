"""A web server is asked as the spec of a Component names it, with its own login, and under the rules for tenants."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import cast

import pytest
from tests.unit.component.given import component

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonValue
from stellwerk.operators.component.api_spec import ReferenceKind
from stellwerk.operators.component.api_status import Artifact
from stellwerk.operators.component.errors import SourceSilent, SourceUnusable
from stellwerk.operators.component.references.referenced_data import ReferenceReader
from stellwerk.operators.component.references.references import Found, ReferencedContent, ReferencedObject
from stellwerk.operators.component.sources import sources
from stellwerk.operators.component.sources.artifacts import Artifacts
from stellwerk.operators.component.sources.blueprints import BlueprintStore
from stellwerk.render.errors import SourceError, Unavailable
from stellwerk.render.sources.downloads import Downloads, HttpArtifact
from stellwerk.render.sources.egress import EgressRules
from stellwerk.render.sources.http import OriginCredentials

URL = "https://charts.example.com/app.tar.gz"
LOGIN = ReferencedObject(ReferenceKind.Secret, ObjectKey("shop", "login"))
CONTENTS: Found = {LOGIN: ReferencedContent({"bearerToken": b"word"})}
FLUX, TENANT = EgressRules(hosts=("flux.example.com",)), EgressRules(hosts=("charts.example.com",))


class FixedContents:
    """The Secret of the login, and nothing else."""

    async def read(self, targets: Iterable[ReferencedObject]) -> Found:
        return {target: CONTENTS[target] for target in targets}


@dataclass
class AskedDownloads:
    """Answers with what it was asked."""

    asked: dict[str, object] = field(default_factory=dict)

    async def head(self, url: str, **fields: object) -> HttpArtifact:
        self.asked = {"url": url, **fields}
        return HttpArtifact(f"{url}?at=1", "the digest", "the revision")


def artifacts_of(downloads: object) -> Artifacts:
    return Artifacts(
        watches=pytest.fail,
        blueprints=cast(BlueprintStore, None),
        downloads=cast(Downloads, downloads),
        contents=cast(ReferenceReader, FixedContents()),
        flux_rules=FLUX,
        tenant_rules=TENANT,
    )


async def polled(**fields: JsonValue) -> tuple[Artifact, dict[str, object]]:
    """What a poll answers, and what the server was asked."""
    one = component(spec={"sourceRef": {"httpRepository": {"url": URL, **fields}}})
    downloads = AskedDownloads()
    artifacts = artifacts_of(downloads)
    repository = one.spec.source_ref.http_repository
    assert repository is not None
    return await artifacts.poll(one, repository), downloads.asked


async def test_a_poll_asks_for_the_headers_of_the_spec_with_the_login_of_the_component() -> None:
    artifact, asked = await polled(
        digestHeader="x-digest", revisionHeader="x-revision", secretRef={"name": LOGIN.key.name}
    )

    assert artifact == Artifact(url=f"{URL}?at=1", digest="the digest", revision="the revision")
    assert asked == {
        "url": URL,
        "rules": TENANT,
        "digest_header": "x-digest",
        "revision_header": "x-revision",
        "tenant": "shop",
        "credentials": OriginCredentials.bearer(URL, "word"),
        "is_poll": True,
    }


async def test_a_poll_without_more_than_a_url_asks_for_one_header_and_shows_nothing() -> None:
    _, asked = await polled()

    assert (asked["digest_header"], asked["revision_header"], asked["credentials"]) == ("etag", "etag", None)
    assert asked["rules"] == TENANT


@dataclass
class FailingDownloads:
    """Answers each request with the same failure."""

    failure: SourceError

    async def head(self, url: str, **fields: object) -> HttpArtifact:
        raise self.failure


@pytest.mark.parametrize(("status", "expected"), [(404, SourceUnusable), (0, SourceSilent)])
async def test_a_web_server_that_offers_nothing_is_a_reference_that_cannot_be_resolved(
    status: int, expected: type[SourceUnusable]
) -> None:
    one = component(spec={"sourceRef": {"httpRepository": {"url": URL}}})
    artifacts = artifacts_of(FailingDownloads(Unavailable(f"HEAD {URL} failed", status=status)))
    with pytest.raises(SourceUnusable) as caught:
        await artifacts.offer(one, sources.named(one), None)
    assert type(caught.value) is expected
    assert str(caught.value).startswith(f"error resolving references: /sourceRef/httpRepository: HEAD {URL} failed")
