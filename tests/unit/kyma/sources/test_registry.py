"""What is asked of a registry, what it is shown, and what is refused of its answers."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.unit.kyma.sources.components import (
    MANIFEST,
    NAME,
    VERSION,
    blob,
    component,
    config_of,
    digest_of,
    image_manifest,
    layer_of,
)

from stellwerk.api.core import Secret
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.kyma.api_manifest import LayerType
from stellwerk.operators.kyma.sources.registry import Login, LoginUnusable, Pull, Repository
from stellwerk.render.errors import EgressRefused, SourceError, Unavailable, WrongDigest
from stellwerk.render.sources.artifact_disk_cache import Shelf
from stellwerk.render.sources.egress import EgressRules
from stellwerk.render.sources.http import HttpClient
from stellwerk.testing.servers.tls_server import TlsServer

HERE = EgressRules(networks=(ip_network("127.0.0.0/8"),))
USER, PASSWORD, TOKEN = "reader", "pass-word-1", "token-1"
BASIC = f"Basic {base64.b64encode(f'{USER}:{PASSWORD}'.encode()).decode()}"
DIGEST = digest_of(MANIFEST)
KEY = ObjectKey("kcp-system", "registry-login")
FOLDER = f"/v2/modules/component-descriptors/{NAME}"


@dataclass
class Served:
    """One server of a registry, a store of blobs, or a server of tokens, as a test needs it."""

    contents: dict[str, bytes] = field(default_factory=dict)
    answers: dict[str, Callable[[web.Request], web.StreamResponse]] = field(default_factory=dict)
    """Paths with answers of their own."""
    challenge: str = ""
    accepted: str = "nothing"
    """The header that a challenge asks for."""
    seen: list[tuple[str, str]] = field(default_factory=list)
    """Paths with queries, and what was shown."""
    server: TlsServer = field(init=False)

    def __post_init__(self) -> None:
        self.server = TlsServer(self._answer)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        shown = request.headers.get("Authorization", "")
        self.seen.append((request.path_qs, shown))
        if request.path in self.answers:
            return self.answers[request.path](request)
        if self.challenge and shown != self.accepted:
            return web.Response(status=401, headers={"WWW-Authenticate": self.challenge})
        if request.path not in self.contents:
            return web.Response(status=404)
        return web.Response(body=self.contents[request.path])

    def publish(self, descriptor: dict[str, Any]) -> None:
        """A component with one layer of objects."""
        layer = layer_of(descriptor)
        config = config_of(layer)
        for content in (layer, config, MANIFEST):
            self.contents[f"{FOLDER}/blobs/{digest_of(content)}"] = content
        self.contents[f"{FOLDER}/manifests/{VERSION}"] = image_manifest(config, layer, MANIFEST)


class PlainServer:
    """A registry without TLS that asks for a token."""

    def __init__(self, challenge: str) -> None:
        self._challenge = challenge
        self.url = ""

    async def __aenter__(self) -> PlainServer:
        self._runner = web.ServerRunner(web.Server(self._answer))
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _answer(self, _: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=401, headers={"WWW-Authenticate": self._challenge})


@pytest.fixture
async def registry() -> AsyncIterator[Served]:
    served = Served()
    served.publish(component(blob("raw-manifest", DIGEST)))
    async with served.server:
        yield served


@pytest.fixture
async def other() -> AsyncIterator[Served]:
    served = Served()
    async with served.server:
        yield served


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    found = HttpClient(tls=None, user_agent="test", connect_seconds=5, silence_seconds=5)
    yield found
    await found.close()


def login(*servers: Served) -> Login:
    """What a Secret has, and the authorities of the servers."""
    authority = "".join(each.server.authority for each in servers).encode()
    return Login(servers[0].server.url, USER, PASSWORD, authority)


def trusting(served: Served) -> ssl.SSLContext:
    """What trusts a server as if its authority were one of the system's."""
    return ssl.create_default_context(cadata=served.server.authority)


def pull(client: HttpClient, registry: Served, login: Login | None, **options: Any) -> Pull:
    return Pull(client, HERE, Repository.of(registry.server.url, "modules"), NAME, login, **options)


# ---- what is read


async def test_a_component_is_read_from_a_registry(registry: Served, client: HttpClient) -> None:
    reads = pull(client, registry, login(registry))
    found = await reads.descriptor(VERSION)

    assert (found.name, found.version, found.manifest) == (NAME, VERSION, (DIGEST, LayerType.OciRef))
    assert await reads.layer(DIGEST) == MANIFEST
    assert {shown for _, shown in registry.seen} == {""}, "a registry that does not ask is shown no login"


async def test_content_that_was_not_promised_is_refused(registry: Served, client: HttpClient) -> None:
    registry.contents[f"{FOLDER}/blobs/{DIGEST}"] = MANIFEST + b"x"
    with pytest.raises(WrongDigest):
        await pull(client, registry, login(registry)).layer(DIGEST)


async def test_an_image_manifest_that_differs_from_its_own_digest_is_refused(
    registry: Served, client: HttpClient
) -> None:
    path = f"{FOLDER}/manifests/{VERSION}"
    registry.answers[path] = lambda _: web.Response(body=b"{}", headers={"Docker-Content-Digest": DIGEST})
    with pytest.raises(WrongDigest):
        await pull(client, registry, login(registry)).descriptor(VERSION)


@pytest.mark.parametrize("reference", ["", "1.0.0", "sha256:12", f"{DIGEST}/../x", "sha1:" + "a" * 40])
async def test_a_reference_that_is_no_digest_is_refused_before_a_call(
    registry: Served, client: HttpClient, reference: str
) -> None:
    with pytest.raises(SourceError, match="no digest"):
        await pull(client, registry, login(registry)).layer(reference)
    assert registry.seen == []


@pytest.mark.parametrize("name", ["", "../../x", "a//b", "A", "a/../b", "a?b", "a%2f", "a" * 300])
async def test_a_name_that_no_registry_has_is_refused_before_a_call(
    registry: Served, client: HttpClient, name: str
) -> None:
    reads = Pull(client, HERE, Repository.of(registry.server.url, "modules"), name, login(registry))
    with pytest.raises(SourceError, match="no name of a repository"):
        await reads.descriptor(VERSION)
    with pytest.raises(SourceError, match="no name of a repository"):
        await reads.layer(DIGEST)
    assert registry.seen == []


@pytest.mark.parametrize("version", ["", "../x", "1/2", "a b", "x" * 200])
async def test_a_version_that_is_no_tag_is_refused_before_a_call(
    registry: Served, client: HttpClient, version: str
) -> None:
    with pytest.raises(SourceError, match="no version that a registry has"):
        await pull(client, registry, login(registry)).descriptor(version)
    assert registry.seen == []


async def test_an_answer_is_not_read_beyond_its_bound(registry: Served, client: HttpClient) -> None:
    registry.contents[f"{FOLDER}/manifests/{VERSION}"] = b" " * (2**20 + 1)
    with pytest.raises(Unavailable, match="more than 1024 KiB"):
        await pull(client, registry, login(registry)).descriptor(VERSION)


async def test_a_blob_that_is_announced_as_too_large_is_not_asked_for(registry: Served, client: HttpClient) -> None:
    config = json.dumps({"componentDescriptorLayer": {"digest": DIGEST, "size": 2**20 + 1}}).encode()
    registry.contents[f"{FOLDER}/blobs/{digest_of(config)}"] = config
    registry.contents[f"{FOLDER}/manifests/{VERSION}"] = image_manifest(config)
    with pytest.raises(SourceError, match="more than 1024 KiB"):
        await pull(client, registry, login(registry)).descriptor(VERSION)
    assert len(registry.seen) == 2


async def test_a_registry_that_hangs_is_given_up(client: HttpClient) -> None:
    async def hang(_: web.Request) -> web.StreamResponse:
        await asyncio.get_running_loop().create_future()
        raise AssertionError("no caller resolves this future")

    async with TlsServer(hang) as server:
        known = Login(server.url, authority=server.authority.encode())
        reads = Pull(client, HERE, Repository.of(server.url), NAME, known, total_seconds=0.2)
        with pytest.raises(Unavailable, match=r"not complete within 0\.2 s") as caught:
            await reads.layer(DIGEST)
    assert caught.value.transient


async def test_a_registry_with_an_unknown_authority_is_not_trusted(registry: Served, client: HttpClient) -> None:
    with pytest.raises(Unavailable, match="certificate is not trusted"):
        await pull(client, registry, None).descriptor(VERSION)
    assert registry.seen == []


@pytest.mark.parametrize(("status", "is_transient"), [(404, False), (503, True), (429, True)])
async def test_outages_pass_and_refusals_stay(
    registry: Served, client: HttpClient, status: int, is_transient: bool
) -> None:
    registry.answers[f"{FOLDER}/manifests/{VERSION}"] = lambda _: web.Response(status=status)
    with pytest.raises(Unavailable) as caught:
        await pull(client, registry, login(registry)).descriptor(VERSION)
    assert caught.value.transient == is_transient


# ---- layers on disk


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path, most_bytes=2**20)


@pytest.fixture
async def anonymous(registry: Served) -> AsyncIterator[HttpClient]:
    found = HttpClient(tls=trusting(registry), user_agent="test", connect_seconds=5, silence_seconds=5)
    yield found
    await found.close()


async def test_a_layer_on_disk_is_not_read_from_the_registry_again(
    registry: Served, anonymous: HttpClient, shelf: Shelf
) -> None:
    for _ in range(2):  # each as after a restart
        assert await pull(anonymous, registry, None, shelf=shelf).layer(DIGEST) == MANIFEST
    assert len(registry.seen) == 1
    registry.contents.clear()
    assert await pull(anonymous, registry, None, shelf=shelf).layer(DIGEST) == MANIFEST
    other = Pull(anonymous, HERE, Repository.of(registry.server.url, "modules"), "other", shelf=shelf)
    with pytest.raises(Unavailable, match="404"):
        await other.layer(DIGEST)


async def test_a_layer_that_was_changed_on_disk_is_read_again(
    registry: Served, anonymous: HttpClient, shelf: Shelf, tmp_path: Path
) -> None:
    await pull(anonymous, registry, None, shelf=shelf).layer(DIGEST)
    [file] = (tmp_path / "artifacts").iterdir()
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    assert await pull(anonymous, registry, None, shelf=shelf).layer(DIGEST) == MANIFEST
    assert len(registry.seen) == 2


async def test_a_layer_that_needs_a_login_is_not_kept_on_disk(
    registry: Served, client: HttpClient, shelf: Shelf, tmp_path: Path
) -> None:
    assert await pull(client, registry, login(registry), shelf=shelf).layer(DIGEST) == MANIFEST
    assert not (tmp_path / "artifacts").exists()


async def test_a_layer_on_disk_obeys_the_rules(registry: Served, anonymous: HttpClient, shelf: Shelf) -> None:
    await pull(anonymous, registry, None, shelf=shelf).layer(DIGEST)
    rules = EgressRules(networks=HERE.networks, hosts=("registry.example.com",))
    refused = Pull(anonymous, rules, Repository.of(registry.server.url, "modules"), NAME, shelf=shelf)
    with pytest.raises(EgressRefused, match="not among the allowed ones"):
        await refused.layer(DIGEST)


# ---- login


async def test_a_registry_that_asks_for_a_password_gets_it(registry: Served, client: HttpClient) -> None:
    registry.challenge, registry.accepted = 'Basic realm="registry"', BASIC
    assert (await pull(client, registry, login(registry)).descriptor(VERSION)).name == NAME
    assert [shown for _, shown in registry.seen] == ["", BASIC, BASIC, BASIC], "it is asked once"


async def test_a_registry_that_asks_for_a_token_gets_the_one_of_its_server(
    registry: Served, other: Served, client: HttpClient
) -> None:
    other.answers["/token"] = lambda _: web.json_response({"token": TOKEN})
    scope = f"repository:modules/component-descriptors/{NAME}:pull"
    registry.accepted = f"Bearer {TOKEN}"
    registry.challenge = f'Bearer realm="{other.server.url}/token",service="registry",scope="{scope}"'

    assert (await pull(client, registry, login(registry, other)).descriptor(VERSION)).name == NAME

    [(path, shown)] = other.seen
    assert shown == BASIC
    assert "service=registry" in path
    assert f"scope={scope}" in path
    assert BASIC not in {shown for _, shown in registry.seen}


async def test_a_token_is_had_without_a_login_as_well(registry: Served, client: HttpClient) -> None:
    registry.answers["/token"] = lambda _: web.json_response({"access_token": TOKEN})
    registry.accepted, registry.challenge = f"Bearer {TOKEN}", f'Bearer realm="{registry.server.url}/token"'
    anonymous = HttpClient(tls=trusting(registry), user_agent="test", connect_seconds=5, silence_seconds=5)
    try:
        assert (await pull(anonymous, registry, None).descriptor(VERSION)).name == NAME
    finally:
        await anonymous.close()
    assert ("/token", "") in registry.seen


@pytest.mark.parametrize(
    ("challenge", "error"),
    [
        ("", Unavailable),
        ("Digest realm=x", Unavailable),
        ("Bearer", Unavailable),
        ("Bearer realm=unquoted", EgressRefused),
        ('Bearer service="x"', EgressRefused),
        ('Bearer realm="http://127.0.0.1:1/token"', EgressRefused),
        ('Bearer realm="https://169.254.169.254/token"', EgressRefused),
        ('Bearer realm="https://a:b@127.0.0.1/token"', EgressRefused),
        ('Bearer realm="file:///etc/passwd"', EgressRefused),
    ],
)
async def test_a_challenge_that_cannot_be_answered_is_refused(
    registry: Served, client: HttpClient, challenge: str, error: type[SourceError]
) -> None:
    registry.challenge = challenge
    registry.answers[f"{FOLDER}/manifests/{VERSION}"] = lambda _: web.Response(
        status=401, headers={"WWW-Authenticate": challenge} if challenge else {}
    )
    with pytest.raises(error) as caught:
        await pull(client, registry, login(registry)).descriptor(VERSION)
    assert PASSWORD not in str(caught.value)
    assert {shown for _, shown in registry.seen} == {""}


@pytest.mark.parametrize("answer", [b"", b"{}", b"[]", b'{"token": 5}', b'{"token": "a b"}', b'{"token": "\\u00e4"}'])
async def test_an_answer_without_a_token_is_refused(registry: Served, client: HttpClient, answer: bytes) -> None:
    registry.answers["/token"] = lambda _: web.Response(body=answer)
    registry.challenge = f'Bearer realm="{registry.server.url}/token"'
    with pytest.raises(SourceError):
        await pull(client, registry, login(registry)).descriptor(VERSION)


async def test_a_refused_login_is_not_tried_again(registry: Served, client: HttpClient) -> None:
    registry.challenge, registry.accepted = 'Basic realm="registry"', "Basic other"
    with pytest.raises(Unavailable, match="401") as caught:
        await pull(client, registry, login(registry)).descriptor(VERSION)
    assert PASSWORD not in str(caught.value)
    assert len(registry.seen) == 2


async def test_a_registry_without_tls_leads_no_login_elsewhere(registry: Served, client: HttpClient) -> None:
    """Who can change its answers would get the password."""
    async with PlainServer(f'Bearer realm="{registry.server.url}/token"') as plain:
        repository = Repository.of(plain.url, "modules")
        with pytest.raises(EgressRefused, match="gets no login"):
            await Pull(client, HERE, repository, NAME, login(registry)).descriptor(VERSION)
    assert registry.seen == []


# ---- redirects


async def test_a_store_of_blobs_is_shown_no_login(registry: Served, other: Served, client: HttpClient) -> None:
    registry.challenge, registry.accepted = 'Basic realm="registry"', BASIC
    path = f"{FOLDER}/blobs/{DIGEST}"
    other.contents["/store"] = MANIFEST
    reads = pull(client, registry, login(registry))
    await reads.descriptor(VERSION)
    registry.answers[path] = lambda _: web.Response(status=307, headers={"Location": f"{other.server.url}/store?k=s"})

    outside = HttpClient(tls=trusting(other), user_agent="test", connect_seconds=5, silence_seconds=5)
    try:
        reads = pull(outside, registry, login(registry))
        await reads.descriptor(VERSION)
        assert await reads.layer(DIGEST) == MANIFEST
    finally:
        await outside.close()
    assert registry.seen[-1] == (path, BASIC)
    assert other.seen == [("/store?k=s", "")]


@pytest.mark.parametrize("target", ["http://127.0.0.1:1/x", "https://169.254.169.254/x", "ftp://127.0.0.1/x"])
async def test_a_redirect_obeys_the_rules(registry: Served, client: HttpClient, target: str) -> None:
    registry.answers[f"{FOLDER}/blobs/{DIGEST}"] = lambda _: web.Response(status=307, headers={"Location": target})
    with pytest.raises(EgressRefused):
        await pull(client, registry, login(registry)).layer(DIGEST)


async def test_redirects_end(registry: Served, client: HttpClient) -> None:
    path = f"{FOLDER}/blobs/{DIGEST}"
    registry.answers[path] = lambda _: web.Response(status=307, headers={"Location": path})
    with pytest.raises(Unavailable, match="redirects more than 3 times"):
        await pull(client, registry, login(registry)).layer(DIGEST)
    assert len(registry.seen) == 4


# ---- repositories and Secrets


@pytest.mark.parametrize(
    ("address", "path", "text", "origin"),
    [
        ("registry.example.com", "", "registry.example.com", "https://registry.example.com"),
        ("https://a.example.com:5000/", "/b/c/", "a.example.com:5000/b/c", "https://a.example.com:5000"),
        ("http://localhost:5000", "", "localhost:5000", "http://localhost:5000"),
        ("a.example.com/mirror", "kyma", "a.example.com/mirror/kyma", "https://a.example.com"),
    ],
)
def test_a_repository_is_a_host_and_a_path(address: str, path: str, text: str, origin: str) -> None:
    found = Repository.of(address, path)
    assert (str(found), found.origin) == (text, origin)


def test_a_manifest_leads_to_a_server_without_tls_only_if_the_settings_do() -> None:
    plain = Repository.of("http://localhost:5000")
    assert plain.named("localhost:5000/a").origin == "http://localhost:5000"
    assert plain.named("other:5000/a").origin == "https://other:5000"
    assert plain.named("http://other:5000/a").origin == "https://other:5000"
    assert Repository.of("localhost:5000").named("localhost:5000").origin == "https://localhost:5000"


def test_the_folder_of_components_is_not_doubled() -> None:
    home = Repository.of("a.example.com")
    former, current = home.named("a.example.com/b/component-descriptors"), home.named("a.example.com/b")
    assert former == current
    assert current.url(NAME, "blobs", DIGEST).path == f"/v2/b/component-descriptors/{NAME}/blobs/{DIGEST}"


def secret(config: object, **others: bytes) -> Secret:
    """A Secret of the type kubernetes.io/dockerconfigjson."""
    texts = {".dockerconfigjson": json.dumps(config).encode(), **others}
    data = {key.replace("_", "."): base64.b64encode(value).decode() for key, value in texts.items()}
    return Secret(metadata=ObjectMeta(name=KEY.name, namespace=KEY.namespace), data=data)


WORD = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()


@pytest.mark.parametrize("entry", [{"username": USER, "password": PASSWORD}, {"auth": WORD}])
def test_a_login_is_the_one_entry_of_a_secret(entry: dict[str, str]) -> None:
    found = Login.of(KEY, secret({"auths": {"a.example.com/b": entry}}))
    assert (found.address, found.user, found.password) == ("a.example.com/b", USER, PASSWORD)
    assert str(Repository.of(found.address, "modules")) == "a.example.com/b/modules"
    assert PASSWORD not in repr(found)


@pytest.mark.req("KYMA-51")
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "no private oci registry auth secret found: kcp-system/registry-login"),
        (secret({"auths": {}}), "has 0 registries"),
        (secret({"auths": {"a": {"auth": WORD}, "b": {"auth": WORD}}}), "has 2 registries"),
        (secret({}), "has 0 registries"),
        (secret([]), "no configuration of Docker"),
        (secret({"auths": {"a": {"auth": "%%"}}}), "no configuration of Docker"),
        (secret({"auths": {"a": {"auth": "YQ=="}}}), "no configuration of Docker"),
        (secret({"auths": {"a": {}}}), "no configuration of Docker"),
        (Secret(), "missing"),
        (Secret(data={".dockerconfigjson": "%"}), "no configuration of Docker"),
        (secret({"auths": {"a": {"auth": WORD}}}, ca_crt=b"x"), "ca.crt"),
    ],
)
def test_a_secret_that_is_no_login_is_refused_by_name(given: Secret | None, message: str) -> None:
    with pytest.raises(LoginUnusable, match=message) as caught:
        Login.of(KEY, given)
    assert PASSWORD not in str(caught.value)
    assert "kcp-system/registry-login" in str(caught.value)
