"""A person sees what a Component comes to with a Secret of his own, and no other's."""

from __future__ import annotations

from typing import cast

import pytest
from tests.unit.component.given import component

from stellwerk.apply.objects.manifests import Document
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import Undiscovered
from stellwerk.kube.types.identifiers import GroupVersionKind, Resource
from stellwerk.kube.types.model import JsonObject, PartialObjectMetadata
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.component.api import Component
from stellwerk.operators.component.api_status import Artifact
from stellwerk.operators.component.component.deployment import DeploymentContent
from stellwerk.operators.component.errors import ReferencesUnresolved
from stellwerk.operators.component.insight.preview import ComponentPreviewInput
from stellwerk.operators.component.references.references import Resolved
from stellwerk.render.files.files import Files
from stellwerk.render.request.request import Rendered
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


class SilentServer:
    """A client and its mapper, where the group of an API service is not known."""

    @property
    def mapper(self) -> SilentServer:
        return self

    async def get(self, *_: object) -> PartialObjectMetadata:
        return PartialObjectMetadata(metadata=ObjectMeta(name="kube-system", uid="u"))

    async def resource(self, gvk: GroupVersionKind) -> Resource:
        if gvk.group == "x.example.com":
            raise Undiscovered("its API service does not answer")
        return Resource(*gvk, plural=f"{gvk.kind.lower()}s", namespaced=False)


async def test_objects_of_an_api_service_of_the_set_are_shown_while_it_does_not_answer() -> None:
    service: JsonObject = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": "v1.x.example.com"},
        "spec": {"group": "x.example.com", "version": "v1"},
    }
    widget: JsonObject = {"apiVersion": "x.example.com/v1", "kind": "Widget", "metadata": {"name": "mine"}}
    desk = ComponentPreviewInput(client=cast(Client, SilentServer()))
    content = DeploymentContent(Artifact(url="https://x/a.tgz", digest="", revision=""), Resolved(), "d")

    def rendered(*objects: JsonObject) -> Rendered:
        return Rendered("helm", objects, ("",) * len(objects), None, frozenset(), "d")

    found = await desk.wanted(component(), content, rendered(service, widget))
    assert [(obj.identity.kind, obj.is_served) for obj in found] == [("APIService", True), ("Widget", False)]
    with pytest.raises(Undiscovered):
        await desk.wanted(component(), content, rendered(widget))
