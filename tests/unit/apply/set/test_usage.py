"""An API service that does not answer delays a deletion only for as long as it may come back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from stellwerk.api.apiregistration import APIService, APIServiceStatus
from stellwerk.apply.set.checks.crd_usage import will_not_answer
from stellwerk.kube.types.object_meta import Condition

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def _service(status: str, reason: str, minutes: float | None) -> APIService:
    since = None if minutes is None else NOW - timedelta(minutes=minutes)
    condition = Condition(type="Available", status=status, reason=reason, last_transition_time=since)
    return APIService(status=APIServiceStatus(conditions=(condition,)))


@pytest.mark.req("R-112")
@pytest.mark.parametrize("reason", ["ServiceNotFound", "MissingEndpoints", "EndpointsNotFound", "ServicePortError"])
def test_an_api_service_without_a_server_is_in_use_by_no_client(reason: str) -> None:
    assert will_not_answer(_service("False", reason, minutes=0), NOW)


@pytest.mark.req("R-112")
@pytest.mark.parametrize(("minutes", "answer"), [(0, False), (9.9, False), (10, True), (600, True), (None, False)])
def test_a_server_that_fails_may_come_back_for_ten_minutes(minutes: float | None, answer: bool) -> None:
    assert will_not_answer(_service("False", "FailedDiscoveryCheck", minutes), NOW) is answer


@pytest.mark.parametrize("status", ["True", "Unknown"])
def test_an_available_api_service_may_be_in_use(status: str) -> None:
    assert not will_not_answer(_service(status, "MissingEndpoints", minutes=600), NOW)


def test_an_api_service_that_was_never_looked_at_may_be_in_use() -> None:
    assert not will_not_answer(APIService(), NOW)
