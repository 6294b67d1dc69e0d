"""What the credentials of registries contain."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.operators.cap.subscription import registries
from stellwerk.operators.cap.subscription.registries import DEFAULT_TIMEOUT, LONGEST_TIMEOUT, Protocol


@pytest.mark.parametrize(
    ("milliseconds", "expected"),
    [
        (300_000, timedelta(minutes=5)),
        (1_800_000, timedelta(minutes=30)),
        (1.8e6, timedelta(minutes=30)),
        ("1.8e+06", timedelta(minutes=30)),
        ("300000", timedelta(minutes=5)),
        (10**300, LONGEST_TIMEOUT),
        (10**400, DEFAULT_TIMEOUT),
        (0, DEFAULT_TIMEOUT),
        (-5, DEFAULT_TIMEOUT),
        (True, DEFAULT_TIMEOUT),
        ("soon", DEFAULT_TIMEOUT),
        ("nan", DEFAULT_TIMEOUT),
        ("inf", DEFAULT_TIMEOUT),
        (None, DEFAULT_TIMEOUT),
    ],
)
def test_the_time_that_a_registry_waits_is_read_as_a_number(milliseconds: Any, expected: timedelta) -> None:
    saas: dict[str, Any] = {"appUrls": json.dumps({"callbackTimeoutMillis": milliseconds})}
    sms: dict[str, Any] = {"app_urls": {"subscriptionCallbacks": {"async": {"timeoutInMillis": milliseconds}}}}
    assert registries.callback_timeout(Protocol.SAAS, saas) == expected
    if not isinstance(milliseconds, int) or milliseconds < 10**350:
        assert registries.callback_timeout(Protocol.SMS, sms) == expected


@given(st.none() | st.integers() | st.text() | st.dictionaries(st.text(), st.text()))
def test_any_value_in_its_place_is_the_default(value: Any) -> None:
    assert registries.callback_timeout(Protocol.SAAS, {"appUrls": value}) == DEFAULT_TIMEOUT
