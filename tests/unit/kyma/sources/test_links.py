"""Which links to raw manifests are followed, and what is refused of their content."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from tests.unit.kyma.sources.components import MANIFEST, digest_of
from tests.unit.kyma.sources.test_registry import HERE, PASSWORD, PlainServer, Served, trusting

from stellwerk.operators.kyma.settings import ManifestLinks
from stellwerk.operators.kyma.sources.links import Links
from stellwerk.render.errors import EgressRefused, SourceError, Unavailable, WrongDigest
from stellwerk.render.sources.http import HttpClient
from stellwerk.testing.servers.tls_server import TlsServer

DIGEST = digest_of(MANIFEST)


@pytest.fixture
async def server() -> AsyncIterator[Served]:
    served = Served({"/module.yaml": MANIFEST})
    async with served.server:
        yield served


@pytest.fixture
async def links(server: Served) -> AsyncIterator[Links]:
    client = HttpClient(tls=trusting(server), user_agent="test", connect_seconds=5, silence_seconds=5)
    yield Links(client, HERE, ManifestLinks.HTTP)
    await client.close()


@pytest.mark.parametrize("digest", ["", DIGEST])
async def test_a_link_is_read_and_shown_no_login(server: Served, links: Links, digest: str) -> None:
    assert await links.read(f"{server.server.url}/module.yaml#part", digest) == MANIFEST
    assert server.seen == [("/module.yaml", "")]


@pytest.mark.parametrize(
    ("followed", "link", "message"),
    [
        (ManifestLinks.NONE, "https://example.com/a.yaml", "Start the operator with --raw-manifest-links=http"),
        (ManifestLinks.NONE, "file:///etc/passwd", "Start the operator with --raw-manifest-links=file"),
        (ManifestLinks.HTTP, "file:///etc/passwd", "Start the operator with --raw-manifest-links=file"),
        (ManifestLinks.HTTP, f"https://a:{PASSWORD}@example.com/a.yaml", "there is a login in it"),
        (ManifestLinks.HTTP, "https://169.254.169.254/latest", "none of its addresses may be called"),
        (ManifestLinks.HTTP, "https://10.0.0.1/a.yaml", "none of its addresses may be called"),
        (ManifestLinks.HTTP, "ftp://example.com/a.yaml", "no https URL"),
        (ManifestLinks.HTTP, "gopher://127.0.0.1/x", "no https URL"),
        (ManifestLinks.HTTP, "a.yaml", "no https URL"),
        (ManifestLinks.HTTP, "", "no https URL"),
        (ManifestLinks.HTTP, "https://xn--/", "it is no URL"),
    ],
)
async def test_a_link_that_may_not_be_followed_is_refused(
    links: Links, followed: ManifestLinks, link: str, message: str
) -> None:
    with pytest.raises(EgressRefused, match=message) as caught:
        await Links(links.client, links.rules, followed).read(link)
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize("target", ["http://127.0.0.1:1/x", "https://169.254.169.254/x", "file:///etc/passwd"])
async def test_a_redirect_of_a_link_obeys_the_rules(server: Served, links: Links, target: str) -> None:
    """A link with TLS leads to no server without, and none leads to a file."""
    server.answers["/module.yaml"] = lambda _: web.Response(status=302, headers={"Location": target})
    with pytest.raises(EgressRefused):
        await Links(links.client, links.rules, ManifestLinks.FILE).read(f"{server.server.url}/module.yaml")


async def test_a_link_without_tls_is_called(links: Links) -> None:
    async with PlainServer("Basic realm=x") as plain:
        with pytest.raises(Unavailable, match="401"):
            await links.read(f"{plain.url}/module.yaml")


@pytest.mark.parametrize("digest", [DIGEST[:-1] + "0", "sha256:12", "1.0.0", "sha1:" + "a" * 40])
async def test_content_of_a_link_that_was_not_promised_is_refused(server: Served, links: Links, digest: str) -> None:
    server.contents["/module.yaml"] = MANIFEST + b"# changed\n"
    with pytest.raises(WrongDigest):
        await links.read(f"{server.server.url}/module.yaml", digest)


async def test_a_link_whose_content_has_no_end_is_given_up(server: Served, links: Links) -> None:
    server.contents["/module.yaml"] = bytes(16 * 2**20 + 1)
    with pytest.raises(Unavailable, match="more than 16384 KiB"):
        await links.read(f"{server.server.url}/module.yaml")


async def test_a_link_that_is_answered_too_slowly_is_given_up() -> None:
    async def begin(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"# a beginning")
        await asyncio.get_running_loop().create_future()
        raise AssertionError("no caller resolves this future")

    async with TlsServer(begin) as server:
        tls = ssl.create_default_context(cadata=server.authority)
        client = HttpClient(tls=tls, user_agent="test", connect_seconds=5, silence_seconds=5)
        with pytest.raises(Unavailable, match=r"not complete within 0\.3 s"):
            await Links(client, HERE, ManifestLinks.HTTP, total_seconds=0.3).read(server.url)
        await client.close()


async def test_a_file_is_read_if_the_setting_allows_it(links: Links, tmp_path: Path) -> None:
    (tmp_path / "module.yaml").write_bytes(MANIFEST)
    (tmp_path / "with blank.yaml").write_bytes(MANIFEST)
    local = Links(links.client, links.rules, ManifestLinks.FILE)
    assert await local.read(f"file://{tmp_path}/module.yaml", DIGEST) == MANIFEST
    assert await local.read(f"file://{tmp_path}/with%20blank.yaml") == MANIFEST
    with pytest.raises(WrongDigest):
        await local.read(f"file://{tmp_path}/module.yaml", digest_of(b""))


async def test_a_file_that_is_none_or_too_large_is_refused_at_once(links: Links, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(64 * 2**20)
    local = Links(links.client, links.rules, ManifestLinks.FILE)
    for link, message in (
        (f"{tmp_path}/pipe", "no regular file"),
        ("/dev/zero", "no regular file"),
        (f"{tmp_path}", "Is a directory"),
        (f"{tmp_path}/missing", "No such file"),
        (f"{tmp_path}/large", "more than 16 MiB"),
        ("/a%00b", "it is no path"),
        ("example.com/etc/passwd", "another machine"),
    ):
        with pytest.raises(SourceError, match=message):
            await local.read(f"file://{link}")
