"""Headers of annotations: what a tenant may set on routes that all share a gateway."""

from __future__ import annotations

import json
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.cap.given import application

from stellwerk.kube.types.model import JsonObject, Unstructured
from stellwerk.operators.cap import names
from stellwerk.operators.cap.routing import headers
from stellwerk.operators.cap.routing.targets import Unroutable

pytestmark = pytest.mark.req("R-952")

ANNOTATIONS = (names.REQUEST_HEADERS_ANNOTATION, names.RESPONSE_HEADERS_ANNOTATION)
NEVER = (
    *("host", "HOST", ":authority", ":path", ":method", ":scheme", "Connection", "Keep-Alive", "TE", "Trailer"),
    *("Transfer-Encoding", "Upgrade", "Content-Length", "Proxy-Connection", "proxy-authorization"),
    *("x-stellwerk-gateway", "X-Stellwerk-Gateway"),
)
BY_SETTING = (
    *("x-forwarded-for", "X-Forwarded-Client-Cert", "x-forwarded-host", "Forwarded", "x-envoy-original-path"),
    *("X-Envoy-External-Address", "Authorization", "x-real-ip"),
)
USUAL = {
    "Strict-Transport-Security": "max-age=31536000; includeSubDomains",
    "Content-Security-Policy": "default-src 'self'; img-src https: data:; report-uri /csp",
    "X-Frame-Options": "DENY",
    "x-custom-host": "shop.example.com",
    "x-client": "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
    "x-started": "%START_TIME%",
    "x-other": "%REQ(x-request-id):32%",
    "x-share": "100%%",
    "x-empty": "",
}


def problem(name: str, value: str = "x", *allowed: str, annotation: str = ANNOTATIONS[0]) -> str:
    """The message for a header; empty where it may be set."""
    try:
        headers.of_annotations({annotation: json.dumps({name: value})}, "shop.app", allowed)
    except Unroutable as error:
        return str(error)
    return ""


@pytest.mark.parametrize("annotation", ANNOTATIONS)
def test_headers_that_applications_use_are_set(annotation: str) -> None:
    found = headers.of_annotations({annotation: json.dumps(USUAL)}, "shop.app")
    assert found is not None
    assert [each.set for each in (found.request, found.response) if each] == [USUAL]


@pytest.mark.parametrize("annotation", ANNOTATIONS)
@pytest.mark.parametrize("name", NEVER)
def test_what_leads_requests_is_set_by_no_annotation(name: str, annotation: str) -> None:
    message = problem(name, "x", name.lower(), annotation=annotation)
    assert message.startswith("error getting headers via CA annotations for shop.app: " + annotation)
    assert re.search(re.escape(repr(name) if name.startswith(":") else f"header {name}:"), message)


@pytest.mark.parametrize("annotation", ANNOTATIONS)
@pytest.mark.parametrize("name", BY_SETTING)
def test_the_word_of_the_gateway_is_set_only_where_an_administrator_allows_it(name: str, annotation: str) -> None:
    assert f"ALLOWED_ROUTE_HEADERS={name.lower()}" in problem(name, annotation=annotation)
    assert problem(name, "x", "x-forwarded-else", annotation=annotation)
    assert problem(name, "x", name.lower(), annotation=annotation) == ""


@pytest.mark.parametrize("value", ["a\r\nb: c", "a\nb", "a\0b", "\x7f", "é", " a", "a ", "\u2028", "a" * 9_000])
def test_a_value_has_visible_characters_only_and_its_message_does_not_show_it(value: str) -> None:
    message = problem("x-a", value)
    assert "has a value of header x-a with" in message
    assert value not in message.partition("with")[2] or len(value.strip()) == 1


@pytest.mark.parametrize(
    "value",
    [
        "%ENVIRONMENT(HOME)%",
        "%FILE_CONTENT(/etc/certs/key.pem)%",
        "%DYNAMIC_METADATA(a:b)%",
        "%",
        "100%",
        "%2F",
        "%REQ(a",
    ],
)
def test_a_value_reads_nothing_of_the_gateway(value: str) -> None:
    assert "percent sign" in problem("x-a", value)


@given(st.text(max_size=20), st.text(max_size=20))
def test_whatever_is_set_is_a_token_with_visible_text(name: str, value: str) -> None:
    if headers.problem_of(name, value) == "":
        assert re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name)
        assert all(" " <= each <= "~" or each == "\t" for each in value)
        assert value == value.strip(" \t")
        assert not name.lower().startswith(("x-forwarded-", "x-envoy-"))


@pytest.mark.parametrize("name", ["", "a b", "a:b", "a\n", "ä", "a" * 300, "a(b)"])
def test_a_name_is_a_token(name: str) -> None:
    assert "is no name of a header" in problem(name)


def live(*places: JsonObject, route: JsonObject | None = None) -> Unstructured:
    """A VirtualService with these headers at its destinations, and at the route itself."""
    http: JsonObject = {"route": [{"headers": each} for each in places], **({"headers": route} if route else {})}
    return Unstructured.of({"metadata": {"name": "acme"}, "spec": {"http": [http]}})


@pytest.mark.parametrize("part", ["request", "response"])
def test_a_route_that_sets_a_refused_header_is_known(part: str) -> None:
    fine: JsonObject = {part: {"set": {"x-tenant": "acme"}}}
    forging: JsonObject = {part: {"set": {"X-Forwarded-Client-Cert": "forged"}}}
    assert not headers.are_refused(live(fine, {}, route=fine))
    assert headers.are_refused(live(fine, forging))
    assert headers.are_refused(live(fine, route=forging))
    assert not headers.are_refused(live(fine, forging), ["x-forwarded-client-cert"])
    assert not headers.are_refused(Unstructured.of({"metadata": {"name": "acme"}, "spec": {"http": ["x"]}}))


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ('{"x-tenant": "acme", "host": "other"}', {"x-tenant": "acme"}),
        ("{not json", None),
        ('{"x-tenant": "%ENV%"}', None),
    ],
)
def test_what_is_left_of_an_application_sets_no_refused_header(text: str, kept: dict[str, str] | None) -> None:
    found = application()
    metadata = msgspec.structs.replace(found.metadata, annotations={ANNOTATIONS[0]: text, "other": "stays"})
    reduced = headers.reduced(msgspec.structs.replace(found, metadata=metadata))
    assert reduced.metadata.annotations["other"] == "stays"
    left = headers.of_annotations(reduced.metadata.annotations, "shop.app")
    assert (left.request.set if left and left.request else None) == kept
