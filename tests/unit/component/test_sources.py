"""A source is taken when it has something for its present spec, and only what was asked for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from tests.unit.component.given import component

from stellwerk.api import flux
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.component.api_spec import HttpRepository
from stellwerk.operators.component.api_status import Artifact
from stellwerk.operators.component.errors import InvalidSpec, SourceNotReady, WaitingForPin
from stellwerk.operators.component.references import digests
from stellwerk.operators.component.sources import sources
from stellwerk.operators.component.sources.sources import FLUX_KINDS, Source, SourceKind

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
TIMEOUT = timedelta(minutes=5)
ARTIFACT: JsonObject = {"url": "http://sc/a.tar.gz", "digest": "sha256:1", "revision": "main@sha1:2"}
READY: JsonObject = {"type": "Ready", "status": "True", "observedGeneration": 2}
REPO = Source(SourceKind.FluxGitRepository, ObjectKey("shop", "repo"))


def repository(
    *,
    artifact: JsonValue = ARTIFACT,
    ready: JsonObject | None = READY,
    kind: type[flux.FluxSource] = flux.GitRepository,
) -> flux.FluxSource:
    body = {
        "metadata": {"namespace": "shop", "name": "repo", "uid": "u", "generation": 2},
        "status": {"conditions": [ready] if ready else [], "artifact": artifact},
    }
    return msgspec.convert(body, kind)


@pytest.mark.parametrize("kind", [kind for kind in SourceKind if kind is not SourceKind.HttpRepository])
def test_a_source_lies_in_the_components_namespace_unless_it_says_another(kind: SourceKind) -> None:
    near = component(spec={"sourceRef": {kind.value: {"name": "x"}}})
    far = component(spec={"sourceRef": {kind.value: {"namespace": "infra", "name": "x"}}})

    assert sources.named(near) == Source(kind, ObjectKey("shop", "x"))
    assert sources.named(far) == Source(kind, ObjectKey("infra", "x"))
    assert list(sources.index_by_source(far)) == [f"{kind.value}/infra/x"]
    assert sources.index_value(kind, ObjectKey("infra", "x")) == f"{kind.value}/infra/x"


def test_a_web_server_is_known_by_its_address() -> None:
    plain = component(spec={"sourceRef": {"httpRepository": {"url": "https://x/a"}}})

    assert sources.named(plain).repository == HttpRepository(url="https://x/a")
    assert list(sources.index_by_source(plain)) == ["httpRepository/https://x/a"]
    assert sources.headers_of(HttpRepository(url="x")) == ("etag", "etag")
    assert sources.headers_of(HttpRepository(url="x", digest_header="sum")) == ("sum", "sum")
    assert sources.headers_of(HttpRepository(url="x", revision_header="date")) == ("etag", "date")


@pytest.mark.req("R-407")
@pytest.mark.parametrize(
    ("reference", "why"),
    [
        ({}, "names no source"),
        ({"fluxBucket": {"name": "a"}, "blueprint": {"name": "b"}}, "names 2 sources"),
        ({"httpRepository": {}}, "url: is missing"),
    ],
)
def test_a_component_without_a_single_source_is_told_so(reference: JsonObject, why: str) -> None:
    with pytest.raises(InvalidSpec, match=why):
        sources.named(component(spec={"sourceRef": reference}))


def test_a_ready_source_offers_its_artifact() -> None:
    found = repository()
    offered = sources.offered_by_flux(REPO, found)

    assert offered.artifact == Artifact(url="http://sc/a.tar.gz", digest="sha256:1", revision="main@sha1:2")
    assert offered.digest == digests.of_source(found.metadata, offered.artifact)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (None, "GitRepository shop/repo not found"),
        (repository(ready=None), "source not ready: GitRepository shop/repo has no condition Ready"),
        (repository(ready={**READY, "status": "False", "message": "auth failed"}), "is not Ready: auth failed"),
        (repository(ready={**READY, "status": "Unknown"}), "is not Ready"),
        (repository(ready={**READY, "observedGeneration": 1}), "has changed, and its controller"),
        (repository(artifact=None), "has no complete artifact"),
        (repository(artifact={**ARTIFACT, "digest": ""}), "has no complete artifact"),
    ],
)
def test_a_source_that_is_absent_or_behind_offers_nothing_yet(found: flux.FluxSource | None, why: str) -> None:
    with pytest.raises(SourceNotReady, match=why) as caught:
        sources.offered_by_flux(REPO, found)

    assert str(caught.value).startswith("error resolving references: /sourceRef/fluxGitRepository: ")
    assert caught.value.retry_after_seconds == 10


def test_an_external_artifact_needs_no_condition() -> None:
    source = Source(SourceKind.FluxExternalArtifact, ObjectKey("shop", "repo"))

    assert sources.offered_by_flux(source, repository(kind=flux.ExternalArtifact, ready=None)).artifact is not None
    with pytest.raises(SourceNotReady):
        sources.offered_by_flux(source, repository(kind=flux.ExternalArtifact, ready={**READY, "status": "False"}))


@pytest.mark.req("R-207")
@pytest.mark.parametrize("kind", list(FLUX_KINDS))
def test_a_kind_that_the_cluster_does_not_serve_is_a_source_that_is_not_there_yet(kind: SourceKind) -> None:
    failure = sources.not_served(Source(kind, ObjectKey("shop", "repo")))

    assert failure.retriable
    assert "install flux's source-controller" in str(failure)


def test_a_pin_waits_for_its_digest_and_its_revision() -> None:
    artifact = Artifact(url="u", digest="d", revision="r")

    sources.check_pins(component(spec={"digest": "d", "revision": "r"}).spec, artifact)
    sources.check_pins(component().spec, artifact)
    with pytest.raises(WaitingForPin, match=r"source digest \(d\) does not match specified digest \(e\)"):
        sources.check_pins(component(spec={"digest": "e", "revision": "s"}).spec, artifact)
    with pytest.raises(WaitingForPin, match=r"source revision \(r\) does not match specified revision \(s\)"):
        sources.check_pins(component(spec={"revision": "s"}).spec, artifact)


def sticky(**changes: JsonValue) -> JsonObject:
    return {
        "observedGeneration": 1,
        "processingSince": "2026-01-02T03:03:05Z",
        "sourceRef": {"artifact": ARTIFACT, "digest": "s"},
        **changes,
    }


def test_a_sticky_component_finishes_what_it_has_begun() -> None:
    under_way = component(spec={"sticky": True}, status=sticky())

    assert sources.held(under_way, TIMEOUT, NOW) == under_way.status.source_ref


def test_a_component_takes_the_newest_when_it_is_done_too_late_edited_or_not_sticky() -> None:
    late = NOW + timedelta(minutes=4)
    for one in (
        component(status=sticky()),
        component(spec={"sticky": True}, status=sticky(processingSince=None)),
        component(spec={"sticky": True}, status=sticky(), generation=2),
        component(spec={"sticky": True}, status=sticky(sourceRef={"digest": "s"})),
    ):
        assert sources.held(one, TIMEOUT, NOW) is None
    assert sources.held(component(spec={"sticky": True}, status=sticky()), TIMEOUT, late) is None


def test_a_source_is_news_unless_the_component_is_ready_with_its_artifact() -> None:
    artifact = Artifact(url="u", digest="d", revision="r")
    ready: JsonObject = {"state": "Ready", "lastAttemptedDigest": "d", "lastAttemptedRevision": "r"}

    assert not sources.is_news(component(status=ready), artifact)
    assert sources.is_news(component(status={**ready, "state": "Processing"}), artifact)
    assert sources.is_news(component(status={**ready, "lastAttemptedRevision": "q"}), artifact)


def test_a_source_made_anew_is_another_offer() -> None:
    artifact = Artifact(url="u", digest="d", revision="r")

    assert sources.offer(ObjectMeta(uid="1"), artifact) != sources.offer(ObjectMeta(uid="2"), artifact)
    assert sources.download_offer(artifact).digest == digests.of_values("u", "d", "r")
