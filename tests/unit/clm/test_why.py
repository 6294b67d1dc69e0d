"""Why a release is not ready: each object that it waits for, in the words of what is known about it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from stellwerk.delivery.sets.unsettled_objects import UnsettledObject
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, ObjectRef
from stellwerk.releases import why
from stellwerk.releases.release import Release

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
ONE = ObjectRef(GroupVersionKind("", "v1", "Secret"), ObjectKey("shop", "one"))
ODD = "data.key: expected str, got int"


def findings(one: UnsettledObject, *, deleting: bool = False) -> list[str]:
    release = Release(key=ObjectKey("shop", "web"), is_deleting=deleting)
    [top] = why.explain(release, [one], (), NOW).findings
    return [finding.text for finding in top.because]


@pytest.mark.parametrize("deleting", [False, True])
def test_an_object_that_cannot_be_decoded_is_not_absent(deleting: bool) -> None:
    assert findings(UnsettledObject(ONE, None, odd=ODD), deleting=deleting) == [f"{ONE} cannot be read: {ODD}"]


def test_an_object_that_is_absent_or_hidden_is_named_as_that() -> None:
    assert findings(UnsettledObject(ONE, None)) == [f"{ONE} does not exist"]
    assert findings(UnsettledObject(ONE, None, is_hidden=True)) == [f"{ONE}: you may not read it"]


def test_the_cause_of_a_failure_is_a_cause_unless_an_object_shows_it_better() -> None:
    release = Release(key=ObjectKey("shop", "web"), error="owner conflict; Secret shop/one belongs to another.")
    [top] = why.explain(release, [], (), NOW).findings
    assert [(each.text, each.is_root_cause) for each in top.because] == [(release.error[:-1], True)]
    [top] = why.explain(release, [UnsettledObject(ONE, None)], (), NOW).findings
    assert [each.is_root_cause for each in top.because] == [False, False]
