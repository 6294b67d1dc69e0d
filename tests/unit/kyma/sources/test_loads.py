"""Descriptors and layers as loads: once for all who ask, with the cause if they cannot be read."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.kube.scripted import serving
from tests.unit.kyma.kyma.worlds import a_template
from tests.unit.kyma.sources.components import MANIFEST, NAME, OBJECT, VERSION, blob, component, digest_of, image
from tests.unit.kyma.sources.test_registry import DIGEST, FOLDER, HERE, PASSWORD, USER, Served, trusting
from tests.unit.kyma.sources.test_signatures import JSON, a_component, key, public, signed
from tests.unit.render.archives import tar_of

from stellwerk.api.core import Secret
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonValue, PartialObjectMetadata
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.kyma.api_manifest import InstallInfo, LayerType, Manifest, ManifestSpec
from stellwerk.operators.kyma.api_module import ModuleTemplate
from stellwerk.operators.kyma.collections import OTHER_SECRETS, SIGNATURE_SECRETS, TEMPLATES
from stellwerk.operators.kyma.labels import SIGNATURE_LABEL
from stellwerk.operators.kyma.module.resolution import Component
from stellwerk.operators.kyma.settings import ManifestLinks, Settings
from stellwerk.operators.kyma.sources.descriptors import ModuleObjects
from stellwerk.operators.kyma.sources.links import Links
from stellwerk.operators.kyma.sources.loads import (
    DescriptorOf,
    DigestOfLink,
    InlineObjects,
    LinkedObjects,
    ObjectsOf,
    Registry,
    RegistryOf,
    Sources,
)
from stellwerk.operators.kyma.sources.registry import Repository
from stellwerk.operators.kyma.sources.signatures import PublicKey, Trust
from stellwerk.render.errors import SourceError
from stellwerk.render.sources.http import HttpClient
from stellwerk.runtime.control.loads import Loads
from stellwerk.runtime.reading.known import ABSENT, Known, NotKnown, Present, Unknown
from stellwerk.runtime.reading.loads import Load, LoadSource, PlainLoads, SecretData
from stellwerk.runtime.reading.questions import Asker, PlainSource, Wakes
from stellwerk.runtime.reading.view import PlainSources, View
from stellwerk.testing.clock import FakeClock

V = TypeVar("V")
CLIENT = HttpClient(tls=None, user_agent="test", connect_seconds=5, silence_seconds=5)
"""Of what opens no connection."""
NO_LINKS = Links(CLIENT, HERE)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
LAYER_WORDS = st.sampled_from(
    ["oci-ref", "oci-dir", "raw-inline", "raw-url", "registry.example.com/x", "../..", DIGEST]
)
NO_VIEW = View(sources=PlainSources(), now=NOW)
KEY = ObjectKey("kcp-system", "registry-login")
ABSENT_SECRET = json.dumps(
    {
        "apiVersion": "v1",
        "kind": "Status",
        "status": "Failure",
        "code": 404,
        "reason": "NotFound",
        "message": "not found",
        "details": {"kind": "secrets", "name": KEY.name},
    }
).encode()


def answer(code: str, body: bytes) -> bytes:
    return f"HTTP/1.1 {code}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def a_secret() -> bytes:
    """The login of the registry's user."""
    config = {"auths": {"registry.example.com": {"username": USER, "password": PASSWORD}}}
    data = {".dockerconfigjson": base64.b64encode(json.dumps(config).encode()).decode()}
    metadata = {"name": KEY.name, "namespace": KEY.namespace, "resourceVersion": "1"}
    return json.dumps({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}).encode()


@dataclass
class Passes:
    """What passes ask for, with the loads of a process."""

    served: Served
    registry: Registry
    loads: Loads
    secrets: list[bytes]
    """Of which the last is what the API server answers about the Secret."""

    async def load(self, load: Load[object]) -> Known[object]:
        """The answer after it was loaded once, or tried."""
        woken = asyncio.Event()
        asker = Asker(ObjectKey("kcp-system", "k"), TEMPLATES, lambda _: woken.set())
        view = View(sources=PlainSources(), now=NOW, loads=self.loads)
        found: Known[object] = view.load(load)
        asker.keep(view.asked)
        if isinstance(found, Unknown):
            async with asyncio.timeout(10):
                await woken.wait()
            found = self.loads.get(load)
        return found

    async def component(self, template: ModuleTemplate, name: str = NAME) -> Known[Component]:
        """As a pass gets it when nothing is being loaded any more."""
        await self.load(DescriptorOf(self.registry, name, VERSION))
        view = View(sources=PlainSources(), now=NOW, loads=self.loads)
        return Sources(self.registry, NO_LINKS).component(view, template, name)

    def asked_for(self, what: str) -> int:
        """How often the registry was asked for a manifest or blob of the component."""
        return [path for path, _ in self.served.seen].count(f"{FOLDER}/{what}")


@asynccontextmanager
async def passes(*, secrets: tuple[bytes, ...] = (), private: bool = False) -> AsyncIterator[Passes]:
    """`private`: the registry wants a login, which the API server has as `secrets`."""
    told = list(secrets)

    def words(number: int, request: bytes) -> bytes:
        return answer("404 Not Found" if told[-1] is ABSENT_SECRET else "200 OK", told[-1])

    async with AsyncExitStack() as stack:
        served = Served()
        served.publish(component(blob("raw-manifest", DIGEST), image("r.example.com/a/b:1@sha256:" + "0" * 64)))
        if private:
            served.challenge = 'Basic realm="modules"'
            served.accepted = f"Basic {base64.b64encode(f'{USER}:{PASSWORD}'.encode()).decode()}"
        await stack.enter_async_context(served.server)
        server, _ = await stack.enter_async_context(serving(words))
        config = ClusterConfig(server=f"http://127.0.0.1:{server.port}")
        client = await stack.enter_async_context(Client.connect(config))
        http = HttpClient(tls=trusting(served), user_agent="test", connect_seconds=5, silence_seconds=5)
        stack.push_async_callback(http.close)
        loads = Loads(client, FakeClock(), Wakes())
        running = asyncio.create_task(loads.run())
        repository = Repository.of(served.server.url, "modules")
        registry = Registry(repository, http, HERE, KEY if private else None, "1" if private else "")
        try:
            yield Passes(served, registry, loads, told)
        finally:
            loads.stop()
            await running


async def test_a_descriptor_is_read_once_for_all_who_ask() -> None:
    async with passes() as seen:
        template = a_template("template-operator", VERSION)
        found = [await seen.component(template) for _ in range(3)]
        assert isinstance(found[0], Present)
        assert found[0] == found[1] == found[2]
        made = found[0].value
        assert (made.name, made.version) == (NAME, VERSION)
        assert made.install.name == "raw-manifest"
        source = {"repo": str(seen.registry.repository), "name": NAME, "ref": DIGEST, "type": "oci-ref"}
        assert made.install.source == source
        assert len(made.images) == 1
        assert seen.asked_for(f"manifests/{VERSION}") == 1


async def test_the_objects_of_a_layer_are_one_value_for_all_who_ask() -> None:
    async with passes() as seen:
        loads = [ObjectsOf(seen.registry, NAME, DIGEST, LayerType.OciRef) for _ in range(2)]
        first, second = [await seen.load(load) for load in loads]
        assert isinstance(first, Present)
        assert isinstance(second, Present)
        assert isinstance(first.value, ModuleObjects)
        assert [document.body for document in first.value] == [OBJECT]
        assert second.value is first.value
        assert seen.asked_for(f"blobs/{DIGEST}") == 1
        assert seen.loads.size == loads[0].size(first.value) == first.value.memory_bytes > 0


@pytest.mark.req("KYMA-08")
@pytest.mark.parametrize(
    ("content", "type_", "message"),
    [
        (b"kind: A\n---\na: [", LayerType.OciRef, "manifest, document 2, line 4: is not YAML"),
        (tar_of({"objects.yaml": b"kind: A\n---\nkind: A\nkind: B\n"}), LayerType.OciDir, "objects.yaml, document 2"),
        (gzip.compress(MANIFEST, mtime=0)[:-9], LayerType.OciRef, "archive: the gzip data is cut off"),
        (b"\n---\n# none\n", LayerType.OciRef, "it has no objects"),
    ],
)
async def test_a_layer_that_is_no_manifest_is_refused_with_layer_file_and_line(
    content: bytes, type_: LayerType, message: str
) -> None:
    """What is wrong is named, and nothing of the content is quoted."""
    async with passes() as seen:
        digest = digest_of(content)
        seen.served.contents[f"{FOLDER}/blobs/{digest}"] = content
        found = await seen.load(ObjectsOf(seen.registry, NAME, digest, type_))
        assert isinstance(found, Unknown)
        assert found.is_refused
        assert found.why.startswith(f"cannot read the layer {digest} of {NAME}: ")
        assert message in found.why


async def test_a_component_that_is_not_there_is_a_problem_of_the_module_and_not_absent() -> None:
    async with passes() as seen:
        del seen.served.contents[f"{FOLDER}/manifests/{VERSION}"]
        with pytest.raises(SourceError, match="404"):
            await seen.component(a_template("template-operator", VERSION))


async def test_what_is_being_loaded_is_unknown() -> None:
    async with passes() as seen:
        view = View(sources=PlainSources(), now=NOW, loads=seen.loads)
        found = Sources(seen.registry, NO_LINKS).component(view, a_template("template-operator", VERSION), NAME)
        assert found == Unknown("it is being loaded")


@pytest.mark.req("KYMA-51")
async def test_a_login_that_is_missing_is_named_and_another_one_is_tried_at_once() -> None:
    """A Secret that appears changes its version, and so the load."""
    async with passes(secrets=(ABSENT_SECRET,), private=True) as seen:
        seen.registry = replace(seen.registry, secret_version="")
        template = a_template("template-operator", VERSION)
        with pytest.raises(SourceError, match="no private oci registry auth secret found: kcp-system/registry-login"):
            await seen.component(template)
        seen.secrets.append(a_secret())
        seen.registry = replace(seen.registry, secret_version="1")
        assert isinstance(await seen.component(template), Present)


async def test_without_a_registry_the_inline_descriptor_counts_with_its_own_repository() -> None:
    context = {"type": "OCIRegistry", "baseUrl": "registry.example.com", "subPath": "mine"}
    inline = component(blob("raw-manifest", DIGEST), repositoryContexts=[context])
    template = a_template("template-operator", VERSION, descriptor=inline)
    view = View(sources=PlainSources(), now=NOW)
    for name in ("", NAME):
        found = Sources(None, NO_LINKS).component(view, template, name)
        assert isinstance(found, Present)
        assert found.value.install.source["repo"] == "registry.example.com/mine"
    async with passes() as seen:
        found = Sources(seen.registry, NO_LINKS).component(view, template, "")
        assert isinstance(found, Present)
        assert found.value.install.source["repo"] == str(seen.registry.repository), "a transferred component is there"


def test_a_template_without_a_descriptor_has_no_component() -> None:
    view = View(sources=PlainSources(), now=NOW)
    assert Sources(None, NO_LINKS).component(view, a_template("template-operator", VERSION), NAME) == ABSENT


def test_a_component_without_objects_is_a_problem() -> None:
    template = a_template("template-operator", VERSION, descriptor=component())
    view = View(sources=PlainSources(), now=NOW)
    with pytest.raises(SourceError, match="has no layer raw-manifest"):
        Sources(None, NO_LINKS).component(view, template, "")


# ---- modules without a registry


def installing(**source: JsonValue) -> Manifest:
    """A Manifest with this source."""
    spec = ManifestSpec(install=InstallInfo(name="raw-manifest", source=source))
    return Manifest(metadata=ObjectMeta(name="a-module", namespace="kcp-system"), spec=spec)


LINK = "https://example.com/module.yaml"


def test_without_a_layer_the_linked_manifest_counts_with_its_digest() -> None:
    links = Links(CLIENT, HERE, ManifestLinks.HTTP)
    view = View(sources=PlainSources(), now=NOW, loads=PlainLoads({DigestOfLink(links, LINK): DIGEST}))
    linked = [{"name": "other", "link": "https://example.com/other"}, {"name": "rawManifest", "link": LINK}]
    for descriptor, name in (({}, "template-operator"), (component(), NAME)):
        template = a_template("template-operator", VERSION, descriptor=descriptor, resources=linked)
        found = Sources(None, links).component(view, template, "")
        assert isinstance(found, Present)
        assert (found.value.name, found.value.version) == (name, VERSION)
        assert found.value.install.source == {"type": "raw-url", "url": LINK, "ref": DIGEST}
    with_layer = component(blob("raw-manifest", DIGEST))
    template = a_template("template-operator", VERSION, descriptor=with_layer, resources=linked)
    found = Sources(None, links).component(view, template, "")
    assert isinstance(found, Present)
    assert found.value.install.source["type"] == "oci-ref", "a layer comes first"
    template = a_template("template-operator", VERSION, resources=linked)
    with pytest.raises(SourceError, match="--raw-manifest-links=http"):
        Sources(None, NO_LINKS).component(view, template, "")


async def test_a_linked_manifest_is_pinned_when_it_is_resolved_and_read_by_its_digest() -> None:
    async with passes() as seen:
        url = f"{seen.served.server.url}/module.yaml"
        seen.served.contents["/module.yaml"] = MANIFEST
        links = Links(seen.registry.client, HERE, ManifestLinks.HTTP)
        assert await seen.load(DigestOfLink(links, url)) == Present(DIGEST)
        load = Sources(None, links).objects(NO_VIEW, installing(type="raw-url", url=url, ref=DIGEST))
        found = await seen.load(load)
        assert isinstance(found, Present)
        assert isinstance(found.value, ModuleObjects)
        assert [document.body for document in found.value] == [OBJECT]
        assert load.digest == DIGEST

        seen.served.contents["/module.yaml"] = MANIFEST + b"# changed"
        changed = await seen.load(LinkedObjects(links, url, digest_of(b"other")))
        assert isinstance(changed, Unknown)
        assert changed.is_refused
        assert changed.why.startswith(f"cannot read the manifest at {url}: the content has the digest")


async def test_a_manifest_that_is_written_in_the_spec_is_read() -> None:
    async with passes() as seen:
        sources = Sources(None, NO_LINKS)
        load = sources.objects(NO_VIEW, installing(type="raw-inline", manifest=MANIFEST.decode()))
        found = await seen.load(load)
        assert isinstance(found, Present)
        assert isinstance(found.value, ModuleObjects)
        assert [document.body for document in found.value] == [OBJECT]
        assert load == sources.objects(NO_VIEW, installing(type="raw-inline", manifest=MANIFEST.decode()))
        assert load.digest == DIGEST
        assert MANIFEST.decode() not in repr(load)
        broken = await seen.load(InlineObjects("kind: A\na: ["))
        assert isinstance(broken, Unknown)
        assert broken.is_refused
        assert "spec.install.source.manifest: manifest, document 1, line" in broken.why
        assert seen.served.seen == []


@pytest.mark.parametrize("source", [{}, {"type": "helm-chart"}, {"type": ""}, {"type": 5}, {"type": ["raw-inline"]}])
def test_a_source_of_no_known_type_is_a_problem_of_the_manifest(source: dict[str, JsonValue]) -> None:
    message = r"could not determine render mode for kcp-system/a-module: render mode is invalid"
    with pytest.raises(SourceError, match=message):
        Sources(None, NO_LINKS).objects(NO_VIEW, installing(**source))


def test_links_of_a_manifest_are_followed_only_if_the_setting_says_so() -> None:
    with pytest.raises(SourceError, match="--raw-manifest-links=http"):
        Sources(None, NO_LINKS).objects(NO_VIEW, installing(type="raw-url", url=LINK, ref=DIGEST))


@pytest.mark.parametrize(
    ("repository", "is_shown"),
    [
        ("registry.example.com/modules", True),
        ("registry.example.com/other/component-descriptors", True),
        ("attacker.example.com/modules", False),
        ("registry.example.com.attacker.example.com", False),
        ("registry.example.com:8443/modules", False),
        ("registry.example.com@attacker.example.com/modules", False),
        ("", False),
    ],
)
def test_the_login_is_shown_only_to_the_registry_of_the_settings(repository: str, is_shown: bool) -> None:
    registry = Registry(Repository("registry.example.com", "modules"), CLIENT, HERE, KEY, "1")
    manifest = installing(type="oci-ref", repo=repository, name=NAME, ref=DIGEST)
    load = Sources(registry, NO_LINKS).objects(NO_VIEW, manifest)
    assert isinstance(load, ObjectsOf)
    assert (load.component, load.digest, load.type) == (NAME, DIGEST, LayerType.OciRef)
    assert (load.registry.secret == KEY) == is_shown
    alone = Sources(None, NO_LINKS).objects(
        NO_VIEW, installing(type="oci-dir", repo=f"http://{repository}", name=NAME, ref="")
    )
    assert isinstance(alone, ObjectsOf)
    assert not alone.registry.repository.is_plain, "no Manifest turns TLS off"


# ---- the registry of the settings


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (Settings(without_registry=True), None),
        (
            Settings(oci_registry_host="http://a.example.com:5000", modules_repository_subpath="b/c"),
            Registry(Repository("a.example.com:5000", "b/c", is_plain=True), CLIENT, HERE),
        ),
        (
            Settings(oci_registry_cred_secret="registry-login", modules_repository_subpath="b"),
            RegistryOf(KEY, "b", CLIENT, HERE),
        ),
    ],
)
def test_the_settings_name_the_registry_or_the_secret_with_it(
    settings: Settings, expected: Registry | RegistryOf | None
) -> None:
    settings = dataclasses.replace(settings, raw_manifest_links=ManifestLinks.HTTP, module_signatures=("a",))
    found = Sources.of(settings, CLIENT, HERE)
    assert found == Sources(expected, Links(CLIENT, HERE, ManifestLinks.HTTP), ("a",))


def view_of_login(version: str, loads: LoadSource) -> View:
    """A view of the Secret with the registry; without a version there is none."""
    metadata = ObjectMeta(name=KEY.name, namespace=KEY.namespace, resource_version=version)
    secrets = [PartialObjectMetadata(metadata=metadata)] if version else []
    return View(sources=PlainSources().add(OTHER_SECRETS, PlainSource(secrets)), now=NOW, loads=loads)


OF_SECRET = RegistryOf(KEY, "modules", CLIENT, HERE)
PRIVATE = installing(type="oci-ref", repo="registry.example.com/modules", name=NAME, ref=DIGEST)


async def test_the_registry_of_a_secret_is_its_one_entry_and_a_changed_secret_counts_at_once() -> None:
    async with passes(secrets=(a_secret(),)) as seen:
        sources, named = (
            Sources(OF_SECRET, NO_LINKS),
            Registry(Repository("registry.example.com", "modules"), CLIENT, HERE, KEY, "1"),
        )
        with pytest.raises(NotKnown, match="it is being loaded"):
            sources.objects(view_of_login("1", seen.loads), PRIVATE)
        assert await seen.load(replace(OF_SECRET, version="1")) == Present(named)
        found = sources.objects(view_of_login("1", seen.loads), PRIVATE)
        assert found == ObjectsOf(named, NAME, DIGEST, LayerType.OciRef)

        template = a_template("template-operator", VERSION)
        assert isinstance(sources.component(view_of_login("2", seen.loads), template, NAME), Unknown)
        changed = json.loads(a_secret())
        changed["metadata"]["resourceVersion"] = "2"
        changed["data"] = {}
        seen.secrets.append(json.dumps(changed).encode())
        await seen.load(replace(OF_SECRET, version="2"))
        with pytest.raises(SourceError, match=f"Secret {KEY}: .dockerconfigjson is missing"):
            sources.objects(view_of_login("2", seen.loads), PRIVATE)


@pytest.mark.req("KYMA-51")
def test_a_secret_with_the_registry_that_is_missing_is_named_by_kymas_and_manifests() -> None:
    view, sources = view_of_login("", PlainLoads()), Sources(OF_SECRET, NO_LINKS)
    message = "no private oci registry auth secret found: kcp-system/registry-login"
    with pytest.raises(SourceError, match=message):
        sources.objects(view, PRIVATE)
    with pytest.raises(SourceError, match=message):
        sources.component(view, a_template("template-operator", VERSION), NAME)


def test_if_secrets_cannot_be_listed_the_registry_is_unknown_and_not_missing() -> None:
    view = View(sources=PlainSources().add(OTHER_SECRETS, PlainSource(why="forbidden")), now=NOW)
    template = a_template("template-operator", VERSION)
    assert isinstance(Sources(OF_SECRET, NO_LINKS).component(view, template, NAME), Unknown)
    with pytest.raises(NotKnown):
        Sources(OF_SECRET, NO_LINKS).objects(view, PRIVATE)


@given(st.dictionaries(st.sampled_from(["type", "repo", "name", "ref", "url", "manifest", "x"]), JSON | LAYER_WORDS))
def test_any_source_of_a_manifest_is_loaded_or_refused_by_a_named_error(source: dict[str, Any]) -> None:
    registry = Registry(Repository("registry.example.com", "modules"), CLIENT, HERE, KEY, "1")
    with contextlib.suppress(SourceError):
        load = Sources(registry, NO_LINKS).objects(NO_VIEW, installing(**source))
        assert hash(load) == hash(load)
        assert load.about
        if isinstance(load, ObjectsOf) and load.registry.secret is not None:
            assert load.registry.repository.host == "registry.example.com"


# ---- signatures


def keys_of(*secrets: tuple[str, str, bytes | None]) -> View:
    """A view of Secrets with keys for the signature `kyma`: name, version, and content if it has been loaded."""
    listed: list[PartialObjectMetadata] = []
    loaded: dict[Load[Any], Secret] = {}
    for name, version, pem in secrets:
        metadata = ObjectMeta(
            name=name, namespace="kcp-system", resource_version=version, labels={SIGNATURE_LABEL: "kyma"}
        )
        listed.append(PartialObjectMetadata(metadata=metadata))
        if pem is not None:
            loaded[SecretData(ObjectKey("kcp-system", name), version)] = Secret(
                metadata=metadata, data={"key": base64.b64encode(pem).decode()} if pem else {}
            )
    sources = PlainSources().add(SIGNATURE_SECRETS, PlainSource(listed))
    return View(sources=sources, now=NOW, loads=Awaited(loaded))


class Awaited(PlainLoads):
    """Loaded values; others are being loaded."""

    def get(self, load: Load[V]) -> Known[V]:
        """As `LoadSource.get`."""
        found = super().get(load)
        return found if isinstance(found, Present) else Unknown("it is being loaded")


CHECKED = Sources(None, NO_LINKS, ("kyma",))
INLINE = a_template("template-operator", VERSION, descriptor=signed(a_component()))


def test_a_signed_component_is_taken_with_the_keys_of_the_secrets() -> None:
    good, other = public(key("publisher")), public(key("stranger"))
    found = CHECKED.component(keys_of(("a", "1", other), ("b", "7", good)), INLINE, "")
    assert isinstance(found, Present)
    assert found.value.install.source["ref"] == DIGEST
    assert found.value.images[0].endswith("@sha256:" + "b" * 64)


@pytest.mark.parametrize(
    ("secrets", "message"),
    [
        ((), "there is no key for the signature kyma. Create a Secret with the public key: kubectl create secret"),
        ((("a", "1", public(key("stranger"))),), "no signature with the name kyma is valid: it was made with another"),
        ((("a", "1", b""),), "Secret kcp-system/a has no public key"),
    ],
)
def test_a_component_without_a_signature_that_is_asked_for_is_a_problem_of_the_module(
    secrets: tuple[tuple[str, str, bytes]], message: str
) -> None:
    with pytest.raises(SourceError, match=message):
        CHECKED.component(keys_of(*secrets), INLINE, "")


def test_keys_that_are_being_loaded_are_unknown_and_none_is_left_out() -> None:
    view = keys_of(("a", "1", public(key("publisher"))), ("b", "2", None))
    assert CHECKED.component(view, INLINE, "") == Unknown("it is being loaded")


def test_if_secrets_cannot_be_listed_no_component_is_judged() -> None:
    sources = PlainSources().add(SIGNATURE_SECRETS, PlainSource(why="Secrets are forbidden"))
    with pytest.raises(NotKnown):
        CHECKED.component(View(sources=sources, now=NOW), INLINE, "")


def test_a_linked_manifest_has_no_signature() -> None:
    checked = Sources(None, Links(CLIENT, HERE, ManifestLinks.HTTP), ("kyma",))
    linked = [{"name": "rawManifest", "link": LINK}]
    template = a_template("template-operator", VERSION, resources=linked)
    with pytest.raises(SourceError, match="has no signature, but --module-signatures is set"):
        checked.component(keys_of(("a", "1", public(key("publisher")))), template, "")


async def test_a_registry_cannot_answer_with_another_signed_version_or_component() -> None:
    """Its owner could bring back an old version with a known hole."""
    keys = Trust((PublicKey("kyma", KEY, public(key("publisher"))),))
    async with passes() as seen:
        seen.served.publish(signed(a_component()))
        load = DescriptorOf(seen.registry, NAME, VERSION, keys)
        found = await seen.load(load)
        assert isinstance(found, Present)

        seen.served.contents[f"{FOLDER}/manifests/2.0.0"] = seen.served.contents[f"{FOLDER}/manifests/{VERSION}"]
        replayed = await seen.load(replace(load, version="2.0.0"))
        assert isinstance(replayed, Unknown)
        assert replayed.is_refused
        assert replayed.why == f"the signed component is {NAME}:{VERSION}"

        seen.served.publish(a_component())
        unsigned = await seen.load(replace(load, trust=Trust((*keys.keys, *keys.keys))))
        assert isinstance(unsigned, Unknown)
        assert unsigned.is_refused
        assert "has no signature with the name kyma" in unsigned.why
