"""What the credentials of registries contain."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.cap import given as given_objects

from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.pods.vcap import CredentialsUnusable
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


def services_for(application: CAPApplication | None) -> list[tuple[str, str]]:
    """Name and Secret of the services for a callback of the service `registry` with the Secret `old`."""
    found = registries.services_for_callback(application, Protocol.SAAS, "registry", "old")
    return [(each.name, each.secret) for each in found]


@pytest.mark.req("R-307")
@pytest.mark.parametrize(
    ("services", "expected"),
    [
        (["next saas-registry new", "registry saas-registry old"], ["registry old", "next new"]),
        (["next saas-registry new", "registry saas-registry moved"], ["registry moved", "next new", "registry old"]),
        (["next saas-registry new", "renamed saas-registry old"], ["renamed old", "next new"]),
        (["next saas-registry new"], ["next new", "registry old"]),
        (["registry subscription-manager sms"], ["registry old"]),
        ([], ["registry old"]),
    ],
)
def test_a_callback_prefers_the_service_of_its_request(services: list[str], expected: list[str]) -> None:
    listed: list[JsonValue] = [dict(zip(("name", "class", "secret"), each.split(), strict=True)) for each in services]
    application = given_objects.application(btp={"services": listed})
    assert [" ".join(each) for each in services_for(application)] == expected


@pytest.mark.req("R-307")
def test_a_callback_without_its_application_has_the_binding_of_its_request() -> None:
    assert services_for(None) == [("registry", "old")]


@pytest.mark.req("R-411")
def test_no_more_is_kept_of_credentials_than_a_caller_or_a_callback_needs() -> None:
    filling: JsonObject = {"appUrls": "x" * 100_000, "list": [{}] * 1_000, "saas_registry_url": 1}
    entry: JsonObject = {"credentials": {"clientid": "id", "clientsecret": "s", "uaadomain": "example.com", **filling}}
    assert registries.texts_for_callbacks(entry) == {"clientid": "id", "clientsecret": "s"}
    assert registries.texts_for_callers(entry) == {"clientid": "id", "uaadomain": "example.com"}


@pytest.mark.req("R-411")
@pytest.mark.parametrize("read", [registries.texts_for_callbacks, registries.texts_for_callers])
def test_texts_that_are_no_credentials_by_their_length_are_not_kept(
    read: Callable[[JsonObject], JsonObject],
) -> None:
    half = "x" * 40_000
    with pytest.raises(CredentialsUnusable, match=r"in (url, clientid|clientid, url)$"):
        read({"credentials": {"url": half, "clientid": half}})
