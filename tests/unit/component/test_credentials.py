"""A Secret in flux's keys becomes what one server is shown; anything else is refused without a word of it."""

from __future__ import annotations

import base64

import pytest
from yarl import URL

from stellwerk.local import certs
from stellwerk.operators.component.errors import InvalidCredentials
from stellwerk.operators.component.references.references import LoginSecret
from stellwerk.operators.component.sources import credentials
from stellwerk.render.sources.http import OriginCredentials

URL_ = "https://charts.example.com/app.tar.gz"
SECRET = "hunter2-hunter2"


def shown(**data: bytes) -> OriginCredentials:
    return credentials.of(URL_, LoginSecret("secret shop/login", {key.replace("_", "."): data[key] for key in data}))


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes, bytes]:
    """An authority, and a certificate with its key."""
    authority = certs.load_or_create_authority(tmp_path_factory.mktemp("authority"))
    credential = authority.server(["127.0.0.1"])
    return authority.pem, credential.certificate, credential.key


def test_a_user_and_a_token_become_a_header() -> None:
    basic = shown(username=b"anna", password=SECRET.encode())
    assert basic.header == f"Basic {base64.b64encode(f'anna:{SECRET}'.encode()).decode()}"
    assert shown(bearerToken=b"abc.def\n").header == "Bearer abc.def"


@pytest.mark.req("R-603")
def test_what_is_shown_belongs_to_the_server_of_the_url_alone() -> None:
    found = shown(bearerToken=SECRET.encode())
    assert found.fits(URL("https://charts.example.com/other"))
    for other in ("http://charts.example.com/", "https://charts.example.com:444/", "https://example.com/"):
        assert not found.fits(URL(other))
    assert not credentials.of("http://[", LoginSecret("secret shop/login", {"bearerToken": b"abc"})).fits(
        URL("http://a/")
    )


def test_an_authority_and_a_certificate_need_no_header(pair: tuple[bytes, bytes, bytes]) -> None:
    authority, certificate, key = pair
    trusting = shown(ca_crt=authority)
    assert (trusting.header, trusting.tls is not None) == ("", True)
    known = shown(ca_crt=authority, tls_crt=certificate, tls_key=key, username=b"anna", password=b"")
    assert known.tls is not None
    assert known.tls.context() is known.tls.context()


@pytest.mark.req("R-801")
@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"user": SECRET}, "none of the keys username, password, bearerToken"),
        ({"username": SECRET}, "no password"),
        ({"password": SECRET}, "no username"),
        ({"tls_crt": SECRET}, "no tls.key"),
        ({"username": SECRET, "password": SECRET, "bearerToken": SECRET}, "both username and bearerToken"),
        ({"username": f"{SECRET}:", "password": SECRET}, "username is empty, or holds a colon"),
        ({"bearerToken": f"{SECRET} {SECRET}"}, "no token"),
        ({"bearerToken": f"{SECRET}\r\nHost: evil"}, "no token"),
        ({"bearerToken": "\n"}, "no token"),
        ({"ca_crt": SECRET}, "no PEM"),
        ({"ca_crt": f"-----BEGIN CERTIFICATE-----\n{SECRET}\n-----END CERTIFICATE-----\n"}, "cannot be read"),
        ({"ca_crt": f"-----BEGIN CERTIFICATE-----\n{SECRET * 10_000}"}, "ca.crt is larger than 64 KiB"),
        ({"tls_crt": SECRET, "tls_key": SECRET}, "no PEM"),
    ],
)
def test_what_cannot_be_shown_is_named_by_its_key_and_not_quoted(data: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidCredentials) as caught:
        shown(**{key: value.encode() for key, value in data.items()})
    assert words in str(caught.value)
    assert "secret shop/login" in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.req("R-413")
@pytest.mark.parametrize(
    "noise", [b"\xff\xfe\x00", b"-----BEGIN CERTIFICATE-----\n\xff\n-----END CERTIFICATE-----\n", b""]
)
def test_noise_as_a_certificate_is_refused_by_the_name_of_the_secret(noise: bytes) -> None:
    for data in ({"ca_crt": noise or b"\x00"}, {"tls_crt": noise, "tls_key": noise or b"\x00"}):
        with pytest.raises(InvalidCredentials, match="credentials in secret shop/login cannot be used"):
            shown(**data)


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(InvalidCredentials, match="username is not text"):
        shown(username=b"\xff", password=b"x")


def test_no_text_form_shows_a_value(pair: tuple[bytes, bytes, bytes]) -> None:
    authority, certificate, key = pair
    login = LoginSecret("secret shop/login", {"bearerToken": SECRET.encode()})
    known = shown(ca_crt=authority, tls_crt=certificate, tls_key=key, bearerToken=SECRET.encode())
    for thing in (login, known, known.tls):
        assert "hunter2" not in f"{thing!r}{thing}"
        assert "BEGIN" not in f"{thing!r}{thing}"


@pytest.mark.req("R-804")
@pytest.mark.parametrize(
    ("text", "is_repeated"),
    [
        (SECRET, True),
        (f"v1-{SECRET}-x", True),
        (SECRET.replace("-", "%2D"), True),
        (base64.b64encode(f"user:{SECRET}".encode()).decode(), True),
        ("main@sha1:4b14dbc37", False),
        ("hunter2", False),
        ("user", False),
        ("", False),
    ],
)
def test_an_answer_with_the_password_repeats_the_login(text: str, is_repeated: bool) -> None:
    basic = shown(username=b"user", password=SECRET.encode())
    assert basic.is_repeated_in("fine", text) is is_repeated
    if SECRET in text:
        assert shown(bearerToken=SECRET.encode()).is_repeated_in(text)
    assert not shown(username=b"user", password=b"main").is_repeated_in("main")
