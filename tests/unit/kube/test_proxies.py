"""The way to an API server is the one that kubectl and Go's clients take."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some
from tests.unit.promptly import promptly

from stellwerk.kube.login import proxy_settings

PROXY = "http://proxy.example:3128"
FAR = "https://api.far.example:6443"


@pytest.mark.parametrize(
    ("server", "environment", "proxy"),
    [
        (FAR, {}, ""),
        (FAR, {"HTTPS_PROXY": PROXY}, PROXY),
        (FAR, {"https_proxy": PROXY}, PROXY),
        (FAR, {"HTTPS_PROXY": "", "https_proxy": PROXY}, PROXY),
        (FAR, {"HTTP_PROXY": PROXY}, ""),
        ("http://api.far.example", {"HTTP_PROXY": PROXY}, PROXY),
        (FAR, {"HTTPS_PROXY": "proxy.example:3128"}, PROXY),
    ],
)
def test_the_scheme_of_the_server_chooses_the_variable(server: str, environment: dict[str, str], proxy: str) -> None:
    assert proxy_settings.of_environment(server, environment) == proxy


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "localhost", "[::1]", "[::ffff:127.0.0.1]"])
def test_an_address_of_this_machine_never_goes_by_a_proxy(host: str) -> None:
    assert proxy_settings.of_environment(f"https://{host}:6443", {"HTTPS_PROXY": PROXY}) == ""


@pytest.mark.parametrize(
    ("server", "spared"),
    [
        (FAR, "*"),
        (FAR, "api.far.example"),
        (FAR, "elsewhere, FAR.example"),
        (FAR, ".far.example"),
        (FAR, "*.far.example"),
        (FAR, "far.example:6443"),
        ("https://10.96.0.1:443", "10.0.0.0/8"),
        ("https://10.96.0.1", "10.96.0.1"),
        ("https://10.96.0.1", "10.96.0.1:443"),
        ("https://[fd00::1]:443", "fd00::/8"),
        ("https://[fd00::1]", "[fd00:0:0::1]"),
        ("https://[FD00::1]", "fd00:0:0::1"),
        ("https://[::ffff:10.96.0.1]", "10.96.0.0/16"),
    ],
)
def test_what_no_proxy_lists_is_reached_without_one(server: str, spared: str) -> None:
    assert proxy_settings.of_environment(server, {"HTTPS_PROXY": PROXY, "NO_PROXY": spared}) == ""
    assert proxy_settings.of_environment(server, {"HTTPS_PROXY": PROXY, "no_proxy": spared}) == ""


@pytest.mark.parametrize(
    "others", ["", ",", "ar.example", ".api.far.example", "far.example:443", "10.0.0.0/8", "[", "far.example:x"]
)
def test_what_it_does_not_list_is_not(others: str) -> None:
    assert proxy_settings.of_environment(FAR, {"HTTPS_PROXY": PROXY, "NO_PROXY": others}) == PROXY


@pytest.mark.parametrize(
    ("server", "others"),
    [
        ("https://api.far.example.", "foo:bar"),
        ("https://api.far.example.", "*:443"),
        ("https://api.far.example.", ":443"),
        ("https://api.far.example.", "["),
        ("https://[fd00::1]", "[fd00:0:0::2]"),
        ("https://[fd00::1]", "[fd00:0:0::1]:6443"),
        ("https://far.example", "*r.example"),
    ],
)
def test_an_entry_without_a_name_and_a_similar_one_spare_nothing(server: str, others: str) -> None:
    assert proxy_settings.of_environment(server, {"HTTPS_PROXY": PROXY, "NO_PROXY": others}) == PROXY


@pytest.mark.req("R-401")
@given(some.text(), some.text())
@promptly
def test_any_text_has_an_answer(server: str, listed: str) -> None:
    assert proxy_settings.of_environment(server, {"HTTPS_PROXY": PROXY, "HTTP_PROXY": PROXY, "NO_PROXY": listed}) in (
        "",
        PROXY,
    )
