"""Words of Secrets that templates ask for are masked in log lines while they are asked for."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest

from stellwerk.delivery.template_lookup import secret_words_of
from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.component.targets import lookups
from stellwerk.operators.component.targets.lookups import HiddenWords
from stellwerk.runtime.telemetry.logs import Redactor
from stellwerk.testing.clock import FakeClock

pytestmark = pytest.mark.req("R-804")


class Asked:
    """A Secret, and how often its words were collected."""

    def __init__(self, word: str) -> None:
        data: JsonObject = {"word": base64.b64encode(word.encode()).decode()}
        self.body: JsonObject = {"kind": "Secret", "data": data}
        self.times = 0

    def __iter__(self) -> Iterator[JsonObject]:
        self.times += 1
        yield self.body


async def test_words_are_registered_once_for_each_version_and_forgotten_after_a_day() -> None:
    clock, redactor = FakeClock(), Redactor()
    hidden = HiddenWords(clock, redactor.hide, redactor.forget)
    old, new = Asked("the-former-word"), Asked("the-latter-word")
    await hidden.add("shop", "one", lambda: secret_words_of(old), "1")
    await hidden.add("shop", "one", lambda: secret_words_of(old), "1")
    assert old.times == 1
    assert redactor.redacted("the-former-word") == "***"
    await hidden.add("shop", "one", lambda: secret_words_of(new), "2")
    assert redactor.redacted("the-former-word the-latter-word") == "the-former-word ***"
    await clock.advance(lookups.LIFE_SECONDS + 1)
    await hidden.add("shop", "another", tuple, "1")
    assert redactor.redacted("the-latter-word") == "the-latter-word"


async def test_other_kinds_hide_nothing() -> None:
    objects: list[JsonObject] = [{"kind": "ConfigMap", "data": {"word": "an-ordinary-word"}}]
    assert list(secret_words_of(objects)) == []
