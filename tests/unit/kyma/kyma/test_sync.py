"""What a remote cluster needs next, until it rests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given as whatever
from hypothesis import strategies as st
from tests.unit.kyma.kyma.worlds import DELETED, PREFIX, a_kyma, a_meta, a_template

from stellwerk.api.core import Namespace, Secret
from stellwerk.kube.types.model import Unstructured
from stellwerk.kube.types.object_meta import FieldManager
from stellwerk.operators.kyma.api_module import ModuleReleaseMeta, ModuleTemplate
from stellwerk.operators.kyma.kyma import sync
from stellwerk.operators.kyma.kyma.catalog import Catalog
from stellwerk.operators.kyma.kyma.sync import (
    DEFINITIONS,
    Applied,
    Change,
    Created,
    DefinitionMissing,
    Deleted,
    Home,
    Marked,
    Part,
    Remote,
    Shown,
)

OURS = f"{PREFIX}/Kyma"
PULL_SECRET = msgspec.convert(
    {"metadata": {"name": "pull", "namespace": "kcp-system"}, "data": {".dockerconfigjson": "e30="}}, Secret
)
CATALOG = Catalog((a_template("keda", "1.0.0"),), (a_meta("keda", regular="1.0.0"),))
ENTRIES = {"ModuleTemplate": ModuleTemplate, "ModuleReleaseMeta": ModuleReleaseMeta}


def a_definition(name: str, version: str = "v1beta2") -> Unstructured:
    """A definition with a webhook that converts."""
    versions = [{"name": version, "served": True, "storage": True}]
    spec: Any = {"group": PREFIX, "versions": versions, "conversion": {"strategy": "Webhook"}}
    return Unstructured.of({"metadata": {"name": name}, "spec": spec})


HOME = Home(
    kyma=a_kyma(
        labels={"kyma-project.io/runtime-id": "r"},
        spec={"modules": [{"name": "keda", "managed": True}]},
        status={"state": "Ready", "modules": [{"name": "keda", "state": "Ready"}]},
    ),
    definitions={name: a_definition(name) for name in DEFINITIONS},
    pull_secret=PULL_SECRET,
    catalog=CATALOG,
)


def next_part(home: Home, remote: Remote) -> tuple[Part, tuple[Change, ...]] | None:
    """The first part that is due."""
    return next(iter(sync.due_parts(home, remote).items()), None)


def carried_out(remote: Remote, change: Change) -> Remote:
    """What the remote cluster has after a change, as its API server would keep it."""
    match change:
        case Applied(desired, manager):
            body: Any = desired.body
            match desired.resource.kind:
                case "Namespace":
                    return replace(remote, namespace=msgspec.convert(body, Namespace))
                case "Secret":
                    return replace(remote, pull_secret=msgspec.convert(body, Secret))
                case "CustomResourceDefinition":
                    made = {**remote.definitions, desired.key.name: Unstructured.of(body)}
                    return replace(remote, definitions=made)
                case kind:
                    entry = msgspec.convert(body, ENTRIES[kind])
                    managers = (FieldManager(manager=manager, operation="Apply"),)
                    metadata = msgspec.structs.replace(entry.metadata, managers=managers)
                    others = [each for each in remote.entries if (each.ref, each.key) != (entry.ref, entry.key)]
                    return replace(remote, entries=(*others, msgspec.structs.replace(entry, metadata=metadata)))
        case Created(body):
            assert remote.kyma is None
            return replace(remote, kyma=a_kyma("default", namespace="kyma-system", **_parts(body)))
        case Deleted(entry):
            return replace(remote, entries=[each for each in remote.entries if each is not entry])
        case Marked(metadata):
            assert remote.kyma is not None
            marks: Any = metadata
            labels = {**remote.kyma.metadata.labels, **marks.get("labels", {})}
            notes = {**remote.kyma.metadata.annotations, **marks.get("annotations", {})}
            changed = msgspec.structs.replace(remote.kyma.metadata, labels=labels, annotations=notes)
            return replace(remote, kyma=msgspec.structs.replace(remote.kyma, metadata=changed))
        case Shown(status):
            assert remote.kyma is not None
            return replace(remote, kyma=msgspec.structs.replace(remote.kyma, status=status))


def _parts(body: Any) -> dict[str, Any]:
    marks = {key: value for key, value in body["metadata"].items() if key in ("labels", "annotations")}
    return {"spec": body["spec"], **marks}


def course(home: Home, remote: Remote) -> tuple[list[str], Remote]:
    """The parts that change, in order, until the cluster rests."""
    found: list[str] = []
    while (due := next_part(home, remote)) is not None:
        part, changes = due
        found.append(part.name)
        assert len(found) < 20, found
        for change in changes:
            remote = carried_out(remote, change)
    return found, remote


def managers(home: Home, remote: Remote) -> dict[str, set[str]]:
    """The field managers by part."""
    found: dict[str, set[str]] = {}
    for _ in Part:
        due = next_part(home, remote)
        assert due is not None
        for change in due[1]:
            if isinstance(change, Applied | Marked):
                found.setdefault(due[0].name, set()).add(change.field_manager)
            remote = carried_out(remote, change)
    return found


def test_an_empty_cluster_gets_all_parts_in_their_order_and_rests() -> None:
    parts, remote = course(HOME, Remote())
    assert parts == ["NAMESPACE", "DEFINITIONS", "PULL_SECRET", "KYMA", "STATUS", "CATALOG"]
    assert next_part(HOME, remote) is None
    assert remote.kyma is not None
    assert remote.kyma.spec == HOME.kyma.spec
    assert remote.kyma.status == HOME.kyma.status
    assert [each.metadata.name for each in remote.entries] == ["keda-1.0.0", "keda"]
    spec: Any = remote.definitions[DEFINITIONS[0]].body["spec"]
    assert spec["conversion"] == {"strategy": "None"}


def test_each_part_is_written_under_the_name_that_owns_it() -> None:
    unmarked = a_kyma("default", namespace="kyma-system")
    assert managers(HOME, Remote(kyma=unmarked)) == {
        "NAMESPACE": {"kyma-sync-context"},
        "DEFINITIONS": {"lifecycle-manager"},
        "PULL_SECRET": {"lifecycle-manager"},
        "KYMA": {"kyma-sync-context"},
        "CATALOG": {"catalog-sync"},
    }


@whatever(st.data())
def test_whatever_a_crash_leaves_out_the_same_end_is_reached(data: st.DataObject) -> None:
    expected = course(HOME, Remote())[1]
    remote = Remote(entries=(a_template("mine", "1.0.0"), a_template("old", "1.0.0", written=True)))
    for _ in range(data.draw(st.integers(0, 7))):
        due = next_part(HOME, remote)
        if due is None:
            break
        for change in due[1][: data.draw(st.integers(0, len(due[1])))]:
            remote = carried_out(remote, change)

    remote = course(HOME, remote)[1]

    assert replace(remote, entries=()) == replace(expected, entries=(), definitions=remote.definitions)
    bodies = {name: each.body for name, each in remote.definitions.items()}
    assert bodies == {name: each.body for name, each in expected.definitions.items()}
    assert sorted(each.metadata.name for each in remote.entries) == ["keda", "keda-1.0.0", "mine-1.0.0"]


def rested() -> Remote:
    """A cluster in which nothing is due."""
    return course(HOME, Remote())[1]


def test_only_what_has_changed_is_written() -> None:
    remote = rested()
    assert remote.kyma is not None
    newer = {**HOME.definitions, DEFINITIONS[1]: a_definition(DEFINITIONS[1], "v1")}
    shown = msgspec.structs.replace(HOME.kyma, status=a_kyma(status={"state": "Error"}).status)
    secret = msgspec.structs.replace(PULL_SECRET, data={".dockerconfigjson": "e31="})
    moved = msgspec.structs.replace(
        HOME.kyma, metadata=msgspec.structs.replace(HOME.kyma.metadata, labels={"kyma-project.io/runtime-id": "s"})
    )
    for home, expected in (
        (replace(HOME, definitions=newer), ["DEFINITIONS"]),
        (replace(HOME, kyma=shown), ["STATUS"]),
        (replace(HOME, pull_secret=secret), ["PULL_SECRET"]),
        (replace(HOME, kyma=moved), ["KYMA"]),
        (replace(HOME, catalog=Catalog()), ["CATALOG"]),
        (replace(HOME, pull_secret=None), []),
    ):
        assert course(home, remote)[0] == expected
    due = next_part(replace(HOME, definitions=newer), remote)
    assert due is not None
    assert len(due[1]) == 1, "the other two definitions are as they should be"


@pytest.mark.req("KYMA-05")
def test_a_kyma_that_its_user_deletes_is_created_again_with_the_default_modules() -> None:
    remote = rested()
    assert remote.kyma is not None
    edited = msgspec.structs.replace(remote.kyma, spec=a_kyma(spec={"channel": "fast"}).spec)
    assert next_part(HOME, replace(remote, kyma=edited)) is None, "the specification is the user's"
    parts, again = course(HOME, replace(remote, kyma=None))
    assert parts == ["KYMA", "STATUS"]
    assert again.kyma is not None
    assert again.kyma.spec == HOME.kyma.spec


def test_the_status_is_shown_before_a_catalog_that_may_not_be_writable() -> None:
    home = replace(HOME, kyma=msgspec.structs.replace(HOME.kyma, status=a_kyma(status={"state": "Error"}).status))
    parts, _ = course(home, replace(rested(), entries=()))
    assert parts == ["STATUS", "CATALOG"]


def test_a_kyma_without_a_catalog_keeps_what_is_there() -> None:
    entry = a_template("old", "1.0.0", written=True)
    assert course(replace(HOME, catalog=None), replace(rested(), entries=(entry,)))[0] == []


def test_a_definition_that_the_control_plane_lacks_is_named() -> None:
    definitions = {name: each for name, each in HOME.definitions.items() if name != DEFINITIONS[2]}
    with pytest.raises(DefinitionMissing) as error:
        next_part(replace(HOME, definitions=definitions), rested())
    assert str(error.value).startswith("failed to sync CRDs to SKR: ")
    assert DEFINITIONS[2] in str(error.value)


def test_the_parts_that_have_a_condition_are_named_as_it() -> None:
    assert [Part.DEFINITIONS, Part.CATALOG, Part.PULL_SECRET] == [
        "CRDsSync",
        "ModuleCatalog",
        "SKRImagePullSecretSync",
    ]


# ---- the Kyma of the control plane


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {"finalizers": [OURS], "labels": {f"{PREFIX}/managed-by": "lifecycle-manager"}}),
        ({"labels": {f"{PREFIX}/managed-by": "other"}}, {"finalizers": [OURS]}),
        (
            {"finalizers": ["others/one"], "labels": {f"{PREFIX}/managed-by": "lifecycle-manager"}},
            {"finalizers": ["others/one", OURS]},
        ),
        ({"finalizers": [OURS], "labels": {f"{PREFIX}/managed-by": "lifecycle-manager"}}, {}),
        ({"finalizers": ["foregroundDeletion"]}, {}),
        ({"finalizers": ["others/one"], "deletionTimestamp": DELETED}, {}),
    ],
)
def test_a_kyma_gets_our_finalizer_and_the_label_by_which_it_is_found(
    fields: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert sync.lacking_hold(a_kyma(**fields)) == expected
