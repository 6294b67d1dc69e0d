"""What an older version left behind is found, and nothing else."""

from __future__ import annotations

import pytest

from stellwerk.apply.errors import UnreadableManifest
from stellwerk.apply.objects.desired import Address
from stellwerk.apply.set.model.confirmation import Live
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, Resource
from stellwerk.kube.types.model import PartialObjectMetadata
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.btp.module.version_record import format_gvks, parse_gvks, stale

KINDS = (GroupVersionKind("", "v1", "ConfigMap"), GroupVersionKind("apps", "v1", "Deployment"))


def test_kinds_are_written_as_the_original_writes_them_and_read_back() -> None:
    text = format_gvks([*KINDS, KINDS[0]])
    assert text == "- group: ''\n  version: v1\n  kind: ConfigMap\n- group: apps\n  version: v1\n  kind: Deployment\n"
    assert parse_gvks(text) == KINDS


@pytest.mark.parametrize("text", ["", "[]", "null", "# nothing", "[]\n"])
def test_an_empty_record_holds_no_kinds(text: str) -> None:
    assert parse_gvks(text) == ()
    assert parse_gvks(format_gvks(())) == ()


def test_the_core_group_may_be_left_out() -> None:
    assert parse_gvks("- {version: v1, kind: Secret}") == (GroupVersionKind("", "v1", "Secret"),)


@pytest.mark.parametrize(
    "text",
    [
        "a: b",
        "5",
        "- 5",
        "- {}",
        "- {kind: A}",
        "- {version: 1, kind: A}",
        "- {version: v1, kind: ''}",
        "[",
        "a\n---\nb",
    ],
)
@pytest.mark.req("R-401")
def test_a_record_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UnreadableManifest):
        parse_gvks(text)


def live_with(labels: dict[str, str], name: str = "x") -> dict[Address, Live]:
    address = Address(Resource("", "v1", "ConfigMap", "configmaps", True), ObjectKey("n", name))
    return {address: PartialObjectMetadata(metadata=ObjectMeta(name=name, namespace="n", labels=labels))}


@pytest.mark.parametrize(
    ("labels", "is_stale"),
    [
        ({"app.kubernetes.io/managed-by": "btp-manager", "chart-version": "1"}, True),
        ({"app.kubernetes.io/managed-by": "btp-manager", "app.kubernetes.io/chart-version": "1"}, True),
        ({"app.kubernetes.io/managed-by": "btp-manager", "chart-version": "2"}, False),
        (
            {
                "app.kubernetes.io/managed-by": "btp-manager",
                "chart-version": "1",
                "app.kubernetes.io/chart-version": "2",
            },
            False,
        ),
        ({"app.kubernetes.io/managed-by": "btp-manager"}, False),
        ({"app.kubernetes.io/managed-by": "them", "chart-version": "1"}, False),
        ({"chart-version": "1"}, False),
        ({}, False),
    ],
)
def test_only_what_is_ours_and_of_another_version_is_stale(labels: dict[str, str], is_stale: bool) -> None:
    assert bool(stale(live_with(labels), (), "2")) is is_stale


OLD = {"app.kubernetes.io/managed-by": "btp-manager", "chart-version": "1"}


def test_what_is_wanted_stays_even_under_another_version_of_its_kind() -> None:
    wanted = Address(Resource("", "v2", "ConfigMap", "configmaps", True), ObjectKey("n", "x"))
    assert stale(live_with(OLD), [wanted], "2") == {}


def test_what_is_spared_stays() -> None:
    live = live_with(OLD)
    (address,) = live
    assert stale(live, (), "2", spared={address.ref}) == {}
