"""Which tokens are good, and for which application."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc.jwk import OctKey, RSAKey
from tests.unit.cap.subscription.issuer import DOMAIN, GOOD, HOST, JKU, NOW, document, elliptic, rsa, token, unsigned

from stellwerk.operators.cap.subscription.callers import tokens
from stellwerk.operators.cap.subscription.callers.tokens import Claims, KeysUnusable, TokenRefused, TokenRules

RULES = TokenRules(uaa_domain=DOMAIN, client_id="sb-registry!b1|shop", app_name="shop!t1")


def verified(text: str, keys: bytes | None = None, now: float = NOW) -> Claims:
    header = tokens.header_of(text, {DOMAIN})
    return tokens.claims_of(text, header, tokens.keys_of(keys or document(rsa(), elliptic())), now)


def changed(**claims: Any) -> dict[str, Any]:
    return {name: value for name, value in {**GOOD, **claims}.items() if value is not None}


@pytest.mark.req("R-703")
@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"])
def test_a_token_that_its_issuer_has_signed_is_good(algorithm: str) -> None:
    claims = verified(token(algorithm=algorithm))
    assert tokens.is_for(claims, RULES)
    assert claims.issuer == HOST


@pytest.mark.req("R-703")
@pytest.mark.parametrize(("algorithm", "curve"), [("ES256", "P-256"), ("ES384", "P-384"), ("ES512", "P-521")])
def test_elliptic_keys_are_good_for_their_own_algorithm(algorithm: str, curve: str) -> None:
    key = elliptic(curve)
    assert verified(token(key=key, algorithm=algorithm), document(key)).client_id == "sb-caller"


@pytest.mark.req("R-703")
@pytest.mark.parametrize(
    "text",
    [
        unsigned({"alg": "none", "kid": "one", "jku": JKU}, GOOD),
        unsigned({"alg": "HS256", "kid": "one", "jku": JKU}, GOOD, b"x"),
        token(key=OctKey.import_key(json.dumps(rsa().as_dict(private=False)), {"kid": "one"}), algorithm="HS256"),
        token(crit=["b64"], b64=True),
        token(jku="http://zone.authentication.example.com/token_keys"),
        token(jku="https://zone.authentication.example.com:8443/token_keys"),
        token(jku="https://user@zone.authentication.example.com/token_keys"),
        token(jku="https://evil.test/token_keys?x=authentication.example.com"),
        token(jku="https://evilauthentication.example.com/token_keys"),
        token(jku="https://zone.authentication.example.com.evil.test/token_keys"),
        token(jku="https://evil.test#.authentication.example.com/token_keys"),
        token(jku="https://evil.test\\.authentication.example.com/token_keys"),
        token(jku="https://zone.authentication.example.com/evil/token_keys"),
        token(jku="https://zone.authentication.example.com/token_keys/../evil"),
        token(jku="https://zone.authentication.example.com/token_keys#x"),
        token(jku="https://zone.authentication.example.com/token_keys\n"),
        token(jku=["https://zone.authentication.example.com/token_keys"]),
        token(jku=""),
        "a.b",
        "",
        "é.é.é",
        "a." * 9000,
    ],
)
def test_a_header_that_could_mislead_is_refused_before_a_key_is_asked_for(text: str) -> None:
    with pytest.raises(TokenRefused):
        tokens.header_of(text, {DOMAIN})


@pytest.mark.req("R-703")
def test_keys_within_the_token_are_not_looked_at() -> None:
    own = RSAKey.generate_key(2048, {"kid": "one"})
    with pytest.raises(TokenRefused, match="signature"):
        verified(token(key=own, jwk=own.as_dict(private=False)))


@pytest.mark.req("R-703")
def test_an_algorithm_of_another_type_of_key_finds_no_key() -> None:
    header = tokens.header_of(token(key=elliptic(), algorithm="ES256"), {DOMAIN})
    keys = tokens.keys_of(document(RSAKey.import_key({**rsa().as_dict(private=False), "kid": "curve"})))
    assert not tokens.fitting(header, keys)


@pytest.mark.req("R-703")
def test_a_key_that_is_for_one_algorithm_is_not_used_for_another() -> None:
    listed = json.dumps({"keys": [{**rsa().as_dict(private=False), "alg": "RS512"}]}).encode()
    with pytest.raises(TokenRefused):
        verified(token(), listed)


@pytest.mark.req("R-703")
@pytest.mark.parametrize(
    ("claims", "why"),
    [
        (changed(exp=None), "no end"),
        (changed(exp=NOW), "ended"),
        (changed(exp=NOW + 14), "ended"),
        (changed(exp="tomorrow"), "no number"),
        (changed(exp=True), "no number"),
        (changed(exp=10**400), "no number"),
        (changed(nbf=NOW + 61), "not valid yet"),
        (changed(iat=NOW + 61), "in the future"),
        (changed(scope=None), "scope"),
    ],
)
def test_a_token_without_what_is_required_is_refused(claims: dict[str, Any], why: str) -> None:
    with pytest.raises(TokenRefused, match=why):
        verified(token(claims))


@pytest.mark.req("R-703")
def test_clocks_may_differ_by_a_minute() -> None:
    assert verified(token(changed(nbf=NOW + 59, iat=NOW + 59, exp=NOW + 16))).issuer == HOST


@pytest.mark.req("R-703", "R-705")
@pytest.mark.parametrize(
    ("claims", "good"),
    [
        (changed(), True),
        (changed(scope=["shop!t1.mtcallback"]), True),
        (changed(scope="uaa.user shop!t1.Callback"), True),
        (changed(aud=["shop!t1.Callback"]), True),
        (changed(iss="http://zone.localhost:8080/uaa/oauth/token"), True),
        (changed(aud=[]), True),
        (changed(aud=None), True),
        ({**GOOD, "aud": None}, True),
        (changed(aud=None, scope=["other!t2.Callback"]), False),
        (changed(aud=["other"]), False),
        (changed(aud=["other"], client_id="sb-registry!b1|shop"), True),
        (changed(aud=["prefix|sb-registry!b1|shop"]), True),
        (changed(aud=["prefix|shop!t1"]), False),
        (changed(aud=["", "."]), False),
        (changed(scope=["other!t2.Callback"]), False),
        (changed(scope=["shop!t1.Admin"]), False),
        (changed(scope=["Callback"]), False),
        (changed(scope=[["shop!t1.Callback"]]), False),
        (changed(scope=7), False),
    ],
)
def test_audience_and_scope_decide_for_which_application_a_token_is(claims: dict[str, Any], good: bool) -> None:
    assert tokens.is_for(verified(token(claims)), RULES) is good


@pytest.mark.req("R-705")
@pytest.mark.parametrize(
    "rules",
    [
        TokenRules(uaa_domain="other.example.com", client_id="sb-registry!b1|shop", app_name="shop!t1"),
        TokenRules(uaa_domain=DOMAIN, client_id="sb-registry!b1|shop", app_name="other!t2"),
        TokenRules(uaa_domain=DOMAIN, client_id="", app_name=""),
        TokenRules(uaa_domain="", client_id="sb-registry!b1|shop", app_name="shop!t1"),
    ],
)
def test_a_good_token_of_one_application_is_refused_for_another(rules: TokenRules) -> None:
    assert not tokens.is_for(verified(token()), rules)


@pytest.mark.parametrize("text", ["", "com", "..", "a..b", "http://a.b", "a b.c", "x" * 300 + ".com", None, 7])
def test_a_uaa_domain_that_is_none_trusts_no_issuer(text: Any) -> None:
    assert tokens.domain_of(text) == ""


@pytest.mark.req("R-701")
@pytest.mark.parametrize("text", ["", "Basic abc", "Bearer", "Bearer  ", "abc"])
def test_without_a_bearer_token_the_message_says_so(text: str) -> None:
    with pytest.raises(TokenRefused, match="expected bearer token"):
        tokens.bearer(text)


@pytest.mark.req("R-401", "R-411")
@pytest.mark.parametrize(
    "entry",
    [
        {"kty": "RSA", "kid": "x", "n": "AQAB", "e": "AQAB"},
        {"kty": "RSA", "kid": "x", "n": "_" * 3000, "e": "AQAB"},
        {"kty": "RSA", "kid": "x", "n": "_" * 400, "e": "_" * 400},
        {"kty": "EC", "kid": "x", "crv": "P-256", "x": "AQAB", "y": "AQAB"},
        {"kty": "EC", "kid": "x", "crv": "secp256k1", "x": "AQAB", "y": "AQAB"},
        {"kty": "oct", "kid": "x", "k": "AQAB"},
        {"kty": "RSA", "n": "x", "e": 7},
        "text",
        None,
    ],
)
def test_a_key_that_cannot_be_used_is_skipped(entry: Any) -> None:
    assert tokens.keys_of(json.dumps({"keys": [entry]}).encode()) == ()


def numbers(bits: int, exponent: int = 65_537) -> dict[str, Any]:
    """A public key with so large numbers. Nobody has to know the private one to publish it."""
    n, e = (1 << (bits - 1)) | 1, exponent
    encoded = (value.to_bytes((value.bit_length() + 7) // 8) for value in (n, e))
    names = zip(("n", "e"), encoded, strict=True)
    return {
        "kty": "RSA",
        "kid": "x",
        **{name: base64.urlsafe_b64encode(each).rstrip(b"=").decode() for name, each in names},
    }


@pytest.mark.req("R-921")
@pytest.mark.parametrize(
    ("entry", "is_usable"),
    [
        (numbers(2047), False),
        (numbers(2048), True),
        (numbers(4096), True),
        (numbers(4097), False),
        (numbers(8192), False),
        (numbers(2048, 65_539), False),
        (numbers(2048, 2**32 - 1), False),
    ],
)
def test_a_key_is_used_only_if_its_numbers_cost_little(entry: dict[str, Any], is_usable: bool) -> None:
    assert len(tokens.keys_of(json.dumps({"keys": [entry]}).encode())) == is_usable


@pytest.mark.req("R-921")
def test_two_keys_of_one_id_are_used_and_no_more() -> None:
    many = json.dumps({"keys": [numbers(2048), rsa().as_dict(private=False)] * 16}).encode()
    found = tokens.keys_of(many)
    assert sorted(key.key_id for key in found) == ["one", "one", "x", "x"]
    assert len(tokens.fitting(tokens.header_of(token(), {DOMAIN}), found)) == tokens.MOST_KEYS_OF_AN_ID


@pytest.mark.req("R-401", "R-411")
@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"keys": 7}', b'{"keys": [' + b"{}," * 40 + b"{}]}", b"[" * 50_000, b"\xff"]
)
def test_a_document_that_is_no_set_of_keys_is_an_error(content: bytes) -> None:
    with pytest.raises(KeysUnusable):
        tokens.keys_of(content)


@pytest.mark.req("R-401", "R-410")
@given(st.text(max_size=300) | st.builds(lambda *parts: ".".join(parts), st.text(), st.text(), st.text()))
def test_any_text_is_refused_and_nothing_worse(text: str) -> None:
    with pytest.raises(TokenRefused):
        tokens.header_of(text, {DOMAIN})


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)
_CLAIMS = st.dictionaries(st.sampled_from(["exp", "nbf", "iat", "aud", "scope", "client_id", "cid"]), _JSON)


@pytest.mark.req("R-401")
@given(_CLAIMS)
def test_any_signed_content_is_judged_and_nothing_worse(content: dict[str, Any]) -> None:
    try:
        claims = verified(token(content))
    except TokenRefused:
        return
    assert not tokens.is_for(claims, RULES)


@pytest.mark.req("R-401")
@given(_JSON)
def test_any_json_in_the_place_of_a_header_is_refused(header: Any) -> None:
    with pytest.raises(TokenRefused):
        tokens.header_of(unsigned(header, GOOD), {DOMAIN})


@pytest.mark.req("R-410")
@pytest.mark.parametrize("depth", [1_000, 3_000])
def test_a_header_that_is_nested_without_end_is_refused(depth: int) -> None:
    nested = '{"alg":"RS256","kid":"one","jku":"' + JKU + '","x":' + "[" * depth + "]" * depth + "}"
    text = base64.urlsafe_b64encode(nested.encode()).rstrip(b"=").decode()
    with pytest.raises(TokenRefused):
        verified(f"{text}.e30.e30")


@pytest.mark.req("R-801")
def test_a_message_quotes_nothing_of_the_token() -> None:
    for content in (changed(exp="SECRET-VALUE"), changed(nbf=NOW + 9999, x="SECRET-VALUE")):
        with pytest.raises(TokenRefused) as error:
            verified(token(content))
        assert "SECRET-VALUE" not in str(error.value)
