"""Which addresses may be called."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.render.errors import EgressRefused
from stellwerk.render.sources.egress import IN_CLUSTER, PUBLIC, EgressRules, parsed, shown_url
from stellwerk.render.sources.http import HttpCall, OriginCredentials

NEVER = [
    *("127.0.0.1", "127.8.8.8", "0.0.0.0", "169.254.169.254", "169.254.1.1", "224.0.0.1", "255.255.255.255"),
    *("::", "::1", "fe80::1", "fe80::1%eth0", "ff02::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::7f00:1"),
    *("64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2002:a9fe:a9fe::1"),
    *("::ffff:0:7f00:1", "::ffff:0:a9fe:a9fe"),
    *("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"),
    *("", "nonsense", "127.0.0.1.example.com"),
]
PRIVATE = [
    *("10.0.0.1", "10.96.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "198.18.0.1"),
    *(
        "fc00::1",
        "fd12:3456::1",
        "::ffff:10.0.0.1",
        "64:ff9b::a00:1",
        "::ffff:0:a00:1",
        "2002:a00:1::",
        "203.0.113.1",
        "2001:db8::1",
    ),
]
PUBLIC_ADDRESSES = [
    "1.1.1.1",
    "8.8.8.8",
    "172.32.0.1",
    "100.128.0.1",
    "2606:4700::1111",
    "64:ff9b::808:808",
    "::ffff:8.8.8.8",
]


@pytest.mark.req("R-601")
@pytest.mark.parametrize("address", NEVER)
def test_some_addresses_are_never_called(address: str) -> None:
    assert not IN_CLUSTER.allows(address)
    assert not PUBLIC.allows(address)


@pytest.mark.req("R-601")
@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_are_called_where_that_is_allowed(address: str) -> None:
    assert IN_CLUSTER.allows(address)
    assert not PUBLIC.allows(address)


@pytest.mark.parametrize("address", PUBLIC_ADDRESSES)
def test_public_addresses_are_called(address: str) -> None:
    assert IN_CLUSTER.allows(address)
    assert PUBLIC.allows(address)


@pytest.mark.req("R-601")
def test_refused_networks_are_not_called_however_they_are_written() -> None:
    cluster = ip_network("2606:4700:aaaa::/48"), ip_network("203.1.0.0/16")
    rules = EgressRules(private=True, networks=(ip_network("203.1.2.0/24"),), refused=cluster)
    for address in ("2606:4700:aaaa::1", "203.1.0.1", "203.1.2.3", "::ffff:203.1.0.1", "64:ff9b::cb01:1"):
        assert not rules.allows(address)
    assert rules.allows("2606:4700:bbbb::1")


def test_named_networks_are_allowed_whatever_they_are() -> None:
    rules = EgressRules(networks=(ip_network("169.254.169.0/24"), ip_network("10.1.0.0/16")))
    assert rules.allows("169.254.169.254")
    assert rules.allows("10.1.2.3")
    assert rules.allows("::ffff:10.1.2.3")
    assert not rules.allows("10.2.0.1")


@pytest.mark.req("R-601")
@given(st.ip_addresses(v=4))
def test_an_address_gains_nothing_by_another_spelling(address: object) -> None:
    plain = str(address)
    packed = int.from_bytes(bytes(int(part) for part in plain.split(".")), "big")
    high, low = packed >> 16, packed & 0xFFFF
    for other in (f"::ffff:{plain}", f"64:ff9b::{plain}", f"2002:{high:x}:{low:x}::1", f"::{high:x}:{low:x}"):
        for rules in (IN_CLUSTER, PUBLIC):
            assert not rules.allows(other) or rules.allows(plain)


@pytest.mark.req("R-801")
@given(st.text("abc:@/?#%[].", max_size=30))
def test_no_url_is_shown_with_a_login_or_a_query(tail: str) -> None:
    shown = shown_url(f"https://user:hunter2@example.com/{tail}?token=hunter2#hunter2")
    assert "hunter2" not in shown


UNUSABLE = [
    *(
        "https://xn--/",
        "https://xn--a/x",
        "https://u:p@xn--/",
        "https://\udcff/",
        "https://[::1",
        "https://host:99999/",
    ),
    *(
        "https://:443",
        "https://a\u200bb/",
        "https://\x00/",
        "https://a b/",
        "https://a/\udcff",
        f"https://{'a' * 9_000}/",
    ),
]
"""URLs with a host or port that no server can have. yarl accepts some of them until host or port are read."""


@pytest.mark.req("R-413")
@pytest.mark.req("R-512")
@pytest.mark.parametrize("url", UNUSABLE)
def test_a_url_with_a_host_or_port_that_is_none_is_refused_by_name(url: str) -> None:
    with pytest.raises(EgressRefused, match="is not called: it is no URL"):
        IN_CLUSTER.check_url(HttpCall.of("GET", url, IN_CLUSTER).url)
    assert OriginCredentials.bearer(url, "token").origin == ""


@pytest.mark.req("R-401")
@given(
    st.text(max_size=40), st.sampled_from(["", "https://", "http://", "https://xn--", "https://[", "//", "https://a:"])
)
def test_any_text_is_a_url_that_can_be_checked_or_is_refused(tail: str, head: str) -> None:
    try:
        url = parsed(head + tail)
        IN_CLUSTER.check_url(url)
    except EgressRefused:
        return
    assert url.host
    assert shown_url(url)


def test_rules_are_named_by_what_differs_from_the_default_ones() -> None:
    networks = (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))
    assert IN_CLUSTER.differences == ""
    assert PUBLIC.differences == "http=False private=False"
    rules = EgressRules(http=True, private=True, hosts=("a.example.com",), ports=(443,), refused=networks)
    assert rules.differences == "hosts=a.example.com ports=443 refused=10.0.0.0/8,fd00::/8"
