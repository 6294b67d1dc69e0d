"""Retries of a BtpOperator become rarer, for as long as it fails."""

from __future__ import annotations

import pytest

from stellwerk.operators.btp.btpoperator.reconcile import retry_seconds


def test_the_delay_doubles_up_to_the_interval_of_the_settings() -> None:
    assert [retry_seconds(failures, 300.0) for failures in range(1, 7)] == [30, 60, 120, 240, 300, 300]


@pytest.mark.parametrize("failures", [1_024, 1_025, 1_000_000])
def test_a_cr_that_fails_for_days_is_still_retried(failures: int) -> None:
    assert retry_seconds(failures, 300.0) == 300.0
