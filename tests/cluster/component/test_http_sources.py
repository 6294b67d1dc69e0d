"""A plain web server can be a source; what it changes arrives soon, whoever is asked how often."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from stellwerk.operators.component.insight import why
from stellwerk.runtime import conditions
from stellwerk.testing.servers.artifacts import Guarded, HangingDownload, Published, Redirect, Refuse
from tests.cluster.component.given import Given
from tests.cluster.component.manifests import config
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then


def source(url: str, **more: Any) -> dict[str, Any]:
    """The spec of a Component that comes from there."""
    return {"sourceRef": {"httpRepository": {"url": url, **more}}}


def publish(given: Given, value: str, **options: Any) -> Published:
    """Files under the one address of the test."""
    return given.server.publish(f"{given.namespace}/app.tar.gz", {"one.yaml": config("one", value)}, **options)


async def test_a_changed_etag_is_noticed_without_anybody_telling(given: Given, running: Running, then: Then) -> None:
    first = publish(given, "1")
    await given.component(**source(first.url))
    await given.component("same", suspend=False, path="nowhere", **source(first.url))
    await running.start()
    ready = await then.ready()
    assert (ready.status.last_applied_digest, ready.status.last_applied_revision) == (first.etag, first.etag)
    second = publish(given, "2")
    await then.ready(revision=second.etag)
    assert (await then.config("one")).data == {"value": "2"}


async def test_digest_and_revision_are_taken_from_the_headers_that_are_named(
    given: Given, running: Running, then: Then
) -> None:
    app = publish(given, "1", revision="v1")
    headers = {"digestHeader": "X-Digest", "revisionHeader": "X-Revision"}
    await given.component(**source(app.url, **headers))
    await given.component("none", **source(app.url, digestHeader="X-Nothing"))
    await running.start()
    ready = await then.ready(revision="v1")
    assert ready.status.last_applied_digest == app.digest
    await then.shows("Error", "Error", "none", saying="X-Nothing")
    publish(given, "1", revision="v2")
    await then.ready(revision="v2")


async def test_a_moving_address_may_lead_to_a_fixed_one(given: Given, running: Running, then: Then) -> None:
    fixed = given.server.publish(f"{given.namespace}/fixed.tar.gz", {"one.yaml": config("one", "fixed")})
    leads = Redirect(fixed.url, carries_headers=True)
    moving = given.server.publish(
        f"{given.namespace}/latest", b"", behaviour=leads, headers={"ETag": fixed.etag}, revision="latest"
    )
    await given.component(**source(moving.url))
    await running.start()
    ready = await then.ready()
    artifact = ready.status.source_ref and ready.status.source_ref.artifact
    assert artifact
    assert artifact.url == fixed.url
    assert (await then.config("one")).data == {"value": "fixed"}


@pytest.mark.req("R-603")
@pytest.mark.req("R-801")
async def test_a_server_that_wants_a_login_gets_that_of_the_secret_as_soon_as_it_is_right(
    given: Given, running: Running, then: Then, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    app = publish(given, "1", behaviour=Guarded("Bearer canary-of-the-second-kind"))
    await running.start()
    await given.component(**source(app.url, secretRef={"name": "login"}))
    await then.shows("Pending", "Retrying", saying=f"error loading secret {then.namespace}/login: not found")
    await given.secret("login", token="canary-of-the-first-kind")
    refused = await then.shows("Error", "Error", saying=f"credentials in secret {then.namespace}/login cannot be used")
    stalled = conditions.find(refused.status.conditions, "Stalled")
    assert stalled is not None
    assert stalled.reason == "InvalidCredentials"
    await given.secret("login", bearerToken="canary-of-the-first-kind")
    await then.shows("Error", "Error", saying="401")
    await given.secret("login", bearerToken="canary-of-the-second-kind")
    ready = await then.ready()
    assert (await then.config("one")).data == {"value": "1"}

    renewed = publish(given, "2", behaviour=Guarded("Bearer canary-of-the-second-kind"))
    await then.ready(revision=renewed.etag)
    assert ready.status.last_applied_revision == app.etag
    assert "canary" not in then.told()
    assert "canary" not in caplog.text


@pytest.mark.req("R-804")
async def test_a_server_that_repeats_the_token_is_refused_and_the_token_shown_nowhere(
    given: Given, running: Running, then: Then, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    token = "canary-that-comes-back"  # of this test
    guarded = Guarded(f"Bearer {token}")
    headers = {"ETag": f'"{token}"', "X-Good": "sha256:abc"}
    named = {
        "digest": publish(given, "1", behaviour=guarded, headers=headers).url,
        "revision": given.server.publish(
            f"{given.namespace}/r.tar.gz", {"one.yaml": config("one")}, behaviour=guarded, revision=f"v1+{token}"
        ).url,
    }
    await given.secret("login", bearerToken=token)
    await running.start()
    for name, url in named.items():
        shown = {"revisionHeader": "X-Revision"} if name == "revision" else {}
        await given.component(name, **source(url, secretRef={"name": "login"}, **shown))
    for name in named:
        await then.shows("Error", "Error", name, saying=f"the answer repeats the login as the {name} of the artifact")
    await running.rests()
    assert "canary" not in then.told()
    assert "canary" not in caplog.text
    for name in named:
        shown_status = msgspec.json.encode(then.history.latest[name].status)
        assert b"canary" not in shown_status


@pytest.mark.req("R-601")
async def test_an_address_that_must_not_be_called_is_refused_and_a_server_that_fails_asked_again(
    given: Given, running: Running, then: Then
) -> None:
    app = publish(given, "1", behaviour=Refuse(503))
    await running.start()
    await given.component(**source(app.url))
    await given.component("metadata", **source("http://169.254.169.254/latest/meta-data"))
    await given.component("file", **source("file:///etc/passwd"))
    await then.shows("Error", "Error", saying="503")
    await then.shows("Error", "Error", "metadata", saying="169.254.169.254")
    await then.shows("Error", "Error", "file", saying="file")
    publish(given, "1")
    await then.ready()


async def test_each_way_in_which_a_source_is_wrong_has_its_sentence_and_its_fix(
    given: Given, running: Running, then: Then
) -> None:
    app = publish(given, "1")
    page = given.server.publish(f"{given.namespace}/page", b"<html>", headers={"ETag": '"1"'})
    await running.start()
    await given.component("noheader", **source(app.url, digestHeader="X-Nothing"))
    await given.component("absent", **source(f"{given.server.url}/{given.namespace}/absent.tar.gz"))
    await given.component("host", **source("http://web.invalid/app.tar.gz"))
    await given.component("page", **source(page.url))
    for name, sentence, fix in (
        ("noheader", "without the header X-Nothing", "set digestHeader"),
        ("absent", "was answered with 404", "correct the path of the URL"),
        ("host", "no connection: its name is not known", "correct the host of the URL"),
        ("page", "neither tar", "have the URL lead to a tar or zip archive"),
    ):
        shown = await then.shows("Error", "Error", name, saying=sentence)
        told = why.explain(why.ComponentSurroundings(component=shown, now=datetime.now(UTC)))
        assert told.next_step.startswith(fix)
        assert "SourceUnusable" in told.next_step


async def test_a_new_component_is_shown_as_seen_only_if_its_source_takes_long(
    given: Given, running: Running, then: Then
) -> None:
    slow = publish(given, "1", behaviour=HangingDownload())
    await running.start()
    await given.component(**source(slow.url))
    await given.server.asked(f"{given.namespace}/app.tar.gz", method="HEAD")
    assert then.reasons() == []
    await running.clock.jump(seconds=1)
    await then.shows("Pending", "FirstSeen")
