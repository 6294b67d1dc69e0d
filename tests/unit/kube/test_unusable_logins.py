"""A kubeconfig from a foreign hand that nobody can use is refused when it is read, in words, whatever it holds."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import time
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, rsa
from hypothesis import given, settings
from hypothesis import strategies as some
from tests.unit.promptly import promptly

from stellwerk.api.core import Namespace
from stellwerk.kube.client.client import Client
from stellwerk.kube.http.transport import Transport
from stellwerk.kube.login.auth import Material, tls_context
from stellwerk.kube.login.config import ClusterConfig, is_host
from stellwerk.kube.types.errors import LoginFailed
from stellwerk.kube.types.model import JsonObject, JsonValue

pytestmark = pytest.mark.heavy


def kubeconfig(cluster: JsonObject | None = None, user: JsonObject | None = None) -> str:
    content: JsonObject = {
        "clusters": [{"name": "c", "cluster": {"server": "https://remote.example:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    return json.dumps(content)


def load(cluster: JsonObject | None = None, user: JsonObject | None = None) -> ClusterConfig:
    return ClusterConfig.from_kubeconfig_text(kubeconfig(cluster, user))


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.req("R-413")
@pytest.mark.parametrize(
    ("server", "why"),
    [
        ("https://x:99999", "port"),
        ("https://x:0", "port"),
        ("https://x:-1", "port"),
        ("https://x:", "port"),
        ("https://x:4\u0663", "port"),
        ("https://x:" + "9" * 1_900, "port"),
        ("https://a:b:c", "port"),
        ("https://a:b:1", "host"),
        ("https://:443", "host"),
        ("https:///path", "host"),
        ("https://xn--/", "host"),
        ("https://xn--.example", "host"),
        ("https://xn--bcher-kva.example", ""),
        ("https://a..b", "host"),
        ("https://" + "a" * 64, "host"),
        ("https://" + "a." * 130 + "b", "host"),
        ("https://*.example", "host"),
        ("https://%41", "host"),
        ("https://[::1", "host"),
        ("https://[::g]", "host"),
        ("https://[fe80::1%25eth0]:443", "host"),
        ("https://[fe80::1%eth0]:443", "host"),
        ("https://\u2100.example", "host"),
        ("https://me:secret@x", "user"),
        ("https://@x", "user"),
        ("https://x y", "blank"),
        ("https://x\n", "control character"),
        ("https://x\r\nHost: y", "control character"),
        ("https://x\x00", "control character"),
        ("https://x\\y", "backslash"),
        ("https://x?query", "query"),
        ("https://x#fragment", "fragment"),
        ("https://x/" + "a" * 3_000, "longer than"),
        ("https://[2001:db8::1]:6443/prefix", ""),
        ("https://10.0.0.1", ""),
        ("https://b\u00fccher.example", ""),
        ("https://name.example.:6443/a/b", ""),
    ],
)
def test_a_server_url_that_nobody_can_use_is_refused_with_the_reason(server: str, why: str) -> None:
    if not why:
        assert load({"server": server}).server == server
        return
    with pytest.raises(LoginFailed, match="server URL that cannot be used") as refused:
        load({"server": server})
    assert why in str(refused.value)
    assert "secret" not in str(refused.value)
    assert len(str(refused.value)) < 300


@pytest.mark.req("R-413")
@pytest.mark.parametrize(
    ("cluster", "user", "why"),
    [
        ({"tls-server-name": "xn--\u0663"}, {}, "tls-server-name"),
        ({"tls-server-name": "a" * 64}, {}, "tls-server-name"),
        ({"tls-server-name": "a\x00b"}, {}, "tls-server-name"),
        ({"certificate-authority-data": "%%%"}, {}, "not base64"),
        ({"certificate-authority-data": "\u20ac"}, {}, "not base64"),
        ({"certificate-authority-data": encoded(b"noise")}, {}, "no PEM certificate"),
        (
            {
                "certificate-authority-data": encoded(
                    b"-----BEGIN CERTIFICATE-----\n\xff\xfe\n-----END CERTIFICATE-----"
                )
            },
            {},
            "cannot be read as PEM certificates",
        ),
        (
            {"certificate-authority-data": encoded(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----")},
            {},
            "cannot be read as PEM certificates",
        ),
        ({"certificate-authority-data": encoded(b"-----BEGIN CERTIFICATE-----")}, {}, "cannot be read"),
        ({"certificate-authority-data": encoded(b"-----BEGIN CERTIFICATE" * 20_000)}, {}, "larger than 64 KiB"),
        ({}, {"client-certificate-data": encoded(b"noise"), "client-key-data": encoded(b"noise")}, "do not fit"),
        ({}, {"client-certificate-data": encoded(b"\x00" * 70_000)}, "larger than 64 KiB"),
        ({}, {"token": "two\nlines"}, "not a token"),
        ({}, {"token": "  "}, "not a token"),
        ({}, {"token": "t\u00f6ken"}, "not a token"),
        ({}, {"token": "t" * 100_000}, "not a token"),
        ({}, {"token": 5}, "token must be text"),
        ({}, {"as": "me\r\nX: y"}, "line breaks"),
        ({}, {"as": "me", "as-groups": ["a\nb"]}, "line breaks"),
    ],
)
def test_a_login_that_nobody_can_use_is_refused_with_the_reason(
    cluster: JsonObject, user: JsonObject, why: str
) -> None:
    with pytest.raises(LoginFailed) as refused:
        load(cluster, user)
    assert why in str(refused.value)
    assert len(str(refused.value)) < 300


@pytest.mark.req("R-413")
def test_names_of_any_length_make_no_long_message() -> None:
    many: list[JsonValue] = [{"name": f"{number}{'n' * 200}", "context": {}} for number in range(500)]
    for text in (
        json.dumps({"contexts": many, "current-context": "x" * 100_000}),
        kubeconfig().replace('"cluster": "c"', '"cluster": "' + "c" * 100_000 + '"'),
        kubeconfig({"server": "ftp://x"}).replace('"c"', '"' + "c" * 100_000 + '"'),
    ):
        with pytest.raises(LoginFailed) as refused:
            ClusterConfig.from_kubeconfig_text(text)
        assert len(str(refused.value)) < 5_000


def pair_of(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, encryption: str = "") -> JsonObject:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "me")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1))
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    return {"client-certificate-data": encoded(certificate), "client-key-data": encoded(pem(key, encryption))}


def pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | dsa.DSAPrivateKey, encryption: str = "") -> bytes:
    sealing: serialization.KeySerializationEncryption = (
        serialization.BestAvailableEncryption(encryption.encode()) if encryption else serialization.NoEncryption()
    )
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, sealing)


def heavy_key() -> rsa.RSAPrivateKey:
    """A key of 32,768 bits that is none: finding one would take minutes."""
    half = (1 << 16_384) - 1
    public = rsa.RSAPublicNumbers(65_537, half * half)
    numbers = rsa.RSAPrivateNumbers(half, half, half * half - 2, half, half, half, public)
    return numbers.private_key(unsafe_skip_rsa_key_validation=True)


@pytest.mark.req("R-413")
def test_usual_client_certificates_are_accepted() -> None:
    for key in (ec.generate_private_key(ec.SECP256R1()), rsa.generate_private_key(65_537, 2_048)):
        assert load(user=pair_of(key)).ssl_context() is not None


@pytest.mark.req("R-412")
@promptly
def test_a_key_that_would_occupy_the_event_loop_in_each_handshake_is_refused() -> None:
    heavy = pem(heavy_key())
    small = pair_of(ec.generate_private_key(ec.SECP256R1()))
    certificate = base64.b64decode(str(small["client-certificate-data"]))
    for user in (
        {**small, "client-key-data": encoded(heavy)},
        # OpenSSL takes the first key it finds, in whichever of the two it is.
        {**small, "client-certificate-data": encoded(heavy + certificate)},
        {**small, "client-certificate-data": encoded(certificate + heavy)},
    ):
        with pytest.raises(LoginFailed, match="larger than 4096 bits"):
            load(user=user)


@pytest.mark.req("R-413")
def test_keys_of_other_kinds_and_encrypted_keys_are_refused() -> None:
    small = pair_of(ec.generate_private_key(ec.SECP256R1()))
    for key, why in (
        (pem(dsa.generate_private_key(1_024)), "neither RSA, nor ECDSA"),
        (pem(ec.generate_private_key(ec.SECP256R1()), "secret"), "is encrypted"),
        (b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "cannot be read"),
    ):
        with pytest.raises(LoginFailed, match=why):
            load(user={**small, "client-key-data": encoded(key)})


def test_the_password_of_an_encrypted_key_is_not_asked_for() -> None:
    pair = pair_of(ec.generate_private_key(ec.SECP256R1()), "secret")
    certificate, key = (Material(base64.b64decode(str(value))) for value in pair.values())
    with pytest.raises(LoginFailed, match="do not fit or are no PEM"):
        tls_context(Material(), certificate, key, verify=True)


@pytest.mark.req("R-412")
def test_no_cipher_lets_a_server_choose_the_size_of_its_numbers() -> None:
    ciphers = tls_context(Material(), Material(), Material(), verify=True).get_ciphers()
    assert not [cipher["name"] for cipher in ciphers if "DHE" in cipher["name"].replace("ECDHE", "")]
    assert {cipher["protocol"] for cipher in ciphers} == {"TLSv1.2", "TLSv1.3"}


@pytest.mark.req("R-410")
@pytest.mark.parametrize("text", ["[" * 100_000, "- " * 30_000, "a:\n" + "- " * 30_000, "{a: " * 30_000, "? " * 30_000])
@promptly
def test_deep_text_is_no_kubeconfig(text: str) -> None:
    with pytest.raises(LoginFailed, match="the kubeconfig is not valid YAML at line"):
        ClusterConfig.from_kubeconfig_text(text)


@pytest.mark.req("R-412")
def test_the_longest_kubeconfig_is_read_within_a_tenth_of_a_second() -> None:
    padding = "# " + "x" * 900_000 + "\n"
    users = json.dumps({"users": [{"name": str(number)} for number in range(3_000)]})
    for text in (padding + kubeconfig(), padding + users, "[" + "0," * 400_000 + "]"):
        began = time.process_time()
        with contextlib.suppress(LoginFailed):
            ClusterConfig.from_kubeconfig_text(text)
        assert time.process_time() - began < 0.1


PEMS = some.tuples(
    some.sampled_from([b"CERTIFICATE", b"PRIVATE KEY", b"EC PRIVATE KEY", b"RSA PRIVATE KEY", b"X509 CRL"]),
    some.binary(max_size=60).map(base64.encodebytes) | some.binary(max_size=60),
).map(lambda parts: b"-----BEGIN " + parts[0] + b"-----\n" + parts[1] + b"\n-----END " + parts[0] + b"-----\n")
MATERIAL = (some.binary(max_size=60) | PEMS | some.lists(PEMS, max_size=3).map(b"".join)).map(encoded) | some.text(
    max_size=9
)
HOSTS = some.text(max_size=20) | some.from_regex(r"\[?[0-9a-z:.%-]{0,20}\]?(:[0-9]{0,6})?", fullmatch=True)


@pytest.mark.req("R-401")
@pytest.mark.req("R-413")
@settings(max_examples=300)
@given(
    some.fixed_dictionaries(
        {},
        optional={
            "server": HOSTS.map("https://{}".format),
            "tls-server-name": some.text(max_size=10),
            "certificate-authority-data": MATERIAL,
        },
    ),
    some.fixed_dictionaries(
        {},
        optional={
            "client-certificate-data": MATERIAL,
            "client-key-data": MATERIAL,
            "token": some.text(max_size=9),
            "username": some.text(some.characters(codec="utf-8"), max_size=9),
            "password": some.text(some.characters(codec="utf-8"), max_size=9),
            "as": some.text(max_size=9),
        },
    ),
)
@promptly
def test_any_values_make_a_config_that_can_be_used_or_a_failed_login(cluster: JsonObject, user: JsonObject) -> None:
    with contextlib.suppress(LoginFailed):  # any other exception fails the test
        config = load(cluster, user)
        Transport(config, user_agent="test")
        config.ssl_context()


@pytest.mark.req("R-413")
def test_hosts_are_names_and_addresses() -> None:
    assert all(is_host(host) for host in ("a", "a.b", "a.b.", "1.2.3.4", "::1", "fd00::1", "a_b-c", "xn--9ca"))
    assert not any(is_host(host) for host in ("", ".", "a..b", "::1%1", ":", "a:b", "a/b", "a b", "\u00e4", "a" * 64))


async def test_a_port_without_tls_is_told_from_a_server_that_does_not_prove_its_identity() -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(plain, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        config = load({"server": f"https://127.0.0.1:{port}"}, {"token": "x"})
        async with Client.connect(config, field_manager="test") as client:
            with pytest.raises(LoginFailed, match="does not speak TLS: its port may be one for plain HTTP"):
                await client.get(Namespace, "default")
