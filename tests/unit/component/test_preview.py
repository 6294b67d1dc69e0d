"""A person sees what a Component comes to with a Secret of his own, and no other's."""

from __future__ import annotations

import pytest
from tests.unit.component.given import component

from stellwerk.apply.objects.manifests import Document
from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.component.api import Component
from stellwerk.operators.component.errors import ReferencesUnresolved
from stellwerk.operators.component.insight.preview import ComponentPreviewInput
from stellwerk.render.files.files import Files
from stellwerk.render.sources.downloads import Downloads
from stellwerk.testing.servers.artifacts import ArtifactServer, Guarded


def guarded(url: str) -> Component:
    """A Component whose web server asks for a login."""
    return component(spec={"sourceRef": {"httpRepository": {"url": url, "secretRef": {"name": "login"}}}})


def secret(token: str) -> Document:
    body: JsonObject = {"kind": "Secret", "metadata": {"name": "login"}, "stringData": {"bearerToken": token}}
    return Document(body)


async def test_a_login_that_he_brings_along_is_shown_to_the_server() -> None:
    async with ArtifactServer() as server, Downloads() as downloads:
        artifact = server.publish("app.tar.gz", {"a.yaml": "kind: A\n"}, behaviour=Guarded("Bearer of-mine"))
        desk = ComponentPreviewInput(client=None, documents=(secret("of-mine"),))
        offer, files = await desk.offered(guarded(artifact.url), downloads)
    assert dict(files) == {"a.yaml": b"kind: A\n"}
    assert offer.artifact is not None
    assert offer.artifact.digest == artifact.etag


async def test_without_the_login_he_is_told_which_secret_is_missing_unless_he_names_a_folder() -> None:
    one, folder = guarded("https://example.com/a.tar.gz"), Files.of({"a.yaml": "kind: A"})
    async with Downloads() as downloads:
        with pytest.raises(ReferencesUnresolved, match="secret shop/login"):
            await ComponentPreviewInput(client=None).offered(one, downloads)
        _, files = await ComponentPreviewInput(client=None, folder=folder).offered(one, downloads)
    assert files is folder
    assert (await ComponentPreviewInput(client=None, folder=folder).resolved(one)).login is None
