"""A secret is found however it is dressed, and nothing else is."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.testing.checks.secret_leak_scan import Canary, SecretLeaked

DRESSES: dict[str, Callable[[str], str]] = {
    "plain": lambda value: f"level=info password={value}!",
    "half of it": lambda value: f"password={value[:24]}...",
    "base64": lambda value: base64.b64encode(value.encode()).decode(),
    "base64 inside, one off": lambda value: base64.b64encode(f"u:{value}@host".encode()).decode(),
    "base64 inside, two off": lambda value: base64.b64encode(f"us:{value}@host".encode()).decode(),
    "base64 inside, three off": lambda value: base64.b64encode(f"use:{value}@host".encode()).decode(),
    "base64 for URLs": lambda value: base64.urlsafe_b64encode(f"??>{value}".encode()).decode(),
    "base64 twice": lambda value: base64.b64encode(base64.b64encode(value.encode())).decode(),
    "JSON": lambda value: json.dumps({"password": value}),
    "JSON in JSON": lambda value: json.dumps({"last-applied": json.dumps({"password": value})}),
    "reversed": lambda value: value[::-1],
    "reversed JSON": lambda value: json.dumps(value)[::-1],
    "URL": lambda value: f"https://host/?password={quote(value)}",
    "form": lambda value: urlencode({"password": value}),
    "every byte escaped": lambda value: "".join(f"%{byte:02x}" for byte in value.encode()),
    "HTML": lambda value: f"<td>{html.escape(value)}</td>",
    "repr": lambda value: repr({"password": value}),
    "repr of bytes": lambda value: repr(value.encode()),
    "hex": lambda value: value.encode().hex(),
}


@pytest.mark.parametrize("dress", DRESSES.values(), ids=DRESSES.keys())
def test_a_planted_secret_is_found_in_any_dress(dress: Callable[[str], str]) -> None:
    canary = Canary()
    text = f"first line\n{dress(canary.plant('password'))}"
    found = canary.scan({"log": text})
    assert {(finding.label, finding.source) for finding in found} == {("password", "log")}
    assert all(finding.line > 1 for finding in found)


@pytest.mark.parametrize("dress", sorted(set(DRESSES) - {"half of it"}))
def test_an_existing_secret_is_found_in_any_dress(dress: str) -> None:
    canary = Canary()
    canary.mark("token", 'eyJhbGciOi/+_-.with & all <sorts> of "things"')
    text = DRESSES[dress]('eyJhbGciOi/+_-.with & all <sorts> of "things"')
    assert canary.scan({"log": text})


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_a_secret_inside_base64_is_found_at_every_offset(before: bytes, after: bytes) -> None:
    canary = Canary()
    secret = canary.plant("key", awkward=False).encode()
    assert canary.scan({"text": base64.b64encode(before + secret + after)})


def test_one_line_of_a_key_is_enough() -> None:
    canary = Canary()
    canary.mark("key", "-----BEGIN KEY-----\nMIGHAgEAMBMGByqGSM49\nAwEHBG0wawIBAQQgxyz1\n-----END KEY-----\n")
    assert canary.scan({"log": "bad line: AwEHBG0wawIBAQQgxyz1"})
    assert not canary.scan({"log": "-----BEGIN KEY-----"})


def test_what_holds_no_secret_is_clean() -> None:
    canary = Canary()
    canary.plant("password")
    canary.assert_unseen({"log": "nothing to see: canary, canary0123456789abcdef", "metrics": b"\xff\xfe\x00"})


def test_a_leak_is_told_without_the_secret() -> None:
    canary = Canary()
    secret = canary.plant("password", awkward=False)
    with pytest.raises(SecretLeaked) as leak:
        canary.assert_unseen({"event": "all well", "log": f"one\nlogin with {secret} failed"})
    assert str(leak.value) == "log:2: the secret 'password' as plain text: login with […] failed"


def test_folders_are_searched_to_the_bottom(tmp_path: Path) -> None:
    canary = Canary()
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "bundle.json").write_text(json.dumps({"x": canary.plant("password")}))
    assert [finding.source for finding in canary.scan_files([tmp_path])] == [str(deep / "bundle.json")]


def test_a_scan_that_would_prove_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no secret was planted"):
        Canary().assert_unseen({"log": ""})
    with pytest.raises(ValueError, match="too short"):
        Canary().mark("password", "abc")
