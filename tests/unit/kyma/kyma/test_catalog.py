"""Which modules a remote cluster shows its user."""

from __future__ import annotations

from itertools import product
from typing import Any

import msgspec
import pytest
from hypothesis import given as whatever
from hypothesis import strategies as st
from tests.unit.kyma.kyma.worlds import PREFIX, a_kyma, a_meta, a_template

from stellwerk.kube.types.object_meta import FieldManager
from stellwerk.operators.kyma.api import Kyma
from stellwerk.operators.kyma.api_module import ModuleReleaseMeta, ModuleTemplate
from stellwerk.operators.kyma.kyma.catalog import Catalog, Entry, catalog_of, copied, due

BETA, INTERNAL = f"{PREFIX}/beta", f"{PREFIX}/internal"
NAMESPACE = "kyma-system"


def shown(kyma: Kyma, *objects: Entry, denied: str = "") -> Catalog:
    """The catalog of a Kyma that may have each module but `denied`."""
    return catalog_of(
        kyma,
        [each for each in objects if isinstance(each, ModuleTemplate)],
        [each for each in objects if isinstance(each, ModuleReleaseMeta)],
        is_offered=lambda module, meta: module != denied,
    )


def names(catalog: Catalog) -> list[str]:
    """The names of what is in a catalog."""
    return [each.metadata.name for each in catalog.entries]


def marks(beta: bool, internal: bool) -> dict[str, str]:
    """Labels, in different upper and lower case."""
    return {**({BETA: "True"} if beta else {}), **({INTERNAL: "true"} if internal else {"x": "y"})}


@pytest.mark.req("KYMA-30")
@pytest.mark.parametrize(("beta", "internal", "in_beta", "in_internal"), [*product((False, True), repeat=4)])
def test_a_beta_and_an_internal_module_need_both_labels_on_the_kyma(
    beta: bool, internal: bool, in_beta: bool, in_internal: bool
) -> None:
    """All sixteen rows."""
    kyma = a_kyma(labels=marks(in_beta, in_internal))
    template = a_template("keda", "1.0.0", labels=marks(beta, internal))

    catalog = shown(kyma, template, a_meta("keda", regular="1.0.0"))

    is_seen = (in_beta or not beta) and (in_internal or not internal)
    assert names(catalog) == (["keda-1.0.0", "keda"] if is_seen else [])


@pytest.mark.parametrize("value", ["", "false", "yes", "1"])
def test_a_label_with_another_value_than_true_hides_nothing(value: str) -> None:
    template = a_template("keda", "1.0.0", labels={BETA: value})
    assert names(shown(a_kyma(), template, a_meta("keda", regular="1.0.0"))) == ["keda-1.0.0", "keda"]


@pytest.mark.req("KYMA-33")
def test_a_channel_whose_template_is_hidden_is_not_shown() -> None:
    objects = (
        a_template("keda", "1.0.0"),
        a_template("keda", "2.0.0", labels={BETA: "true"}),
        a_meta("keda", regular="1.0.0", fast="2.0.0"),
    )

    catalog = shown(a_kyma(), *objects)

    assert names(catalog) == ["keda-1.0.0", "keda"]
    assert [(each.channel, each.version) for each in catalog.metas[0].spec.channels] == [("regular", "1.0.0")]
    beta = shown(a_kyma(labels={BETA: "true"}), *objects)
    assert [each.channel for each in beta.metas[0].spec.channels] == ["regular", "fast"]


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param([a_meta("keda", regular="1.0.0")], [], id="no template"),
        pytest.param([a_template("keda", "1.0.0"), a_meta("keda", mandatory="1.0.0")], [], id="mandatory meta"),
        pytest.param(
            [a_template("keda", "1.0.0", mandatory=True), a_meta("keda", regular="1.0.0")], [], id="mandatory template"
        ),
        pytest.param(
            [a_template("keda", "1.0.0", labels={f"{PREFIX}/sync": "false"}), a_meta("keda", regular="1.0.0")],
            [],
            id="not synchronized",
        ),
        pytest.param([a_template("keda", "1.0.0")], [], id="no channel leads to it"),
        pytest.param(
            [a_template("keda", "1.0.0"), a_template("keda", "0.9.0"), a_meta("keda", regular="1.0.0")],
            ["keda-1.0.0", "keda"],
            id="an unused version",
        ),
        pytest.param([a_template("keda", "1.0.0", channel="fast")], ["keda-1.0.0"], id="older form"),
        pytest.param([a_template("keda", "1.0.0", channel="None")], [], id="older form of no channel"),
        pytest.param(
            [a_template("", "1.0.0", channel="fast", labels={f"{PREFIX}/module-name": "keda"})],
            ["-1.0.0"],
            id="older form named by a label",
        ),
        pytest.param(
            [a_template("keda", "0.9.0", channel="fast"), a_template("keda", "1.0.0"), a_meta("keda", regular="1.0.0")],
            ["keda-1.0.0", "keda"],
            id="older form next to a meta",
        ),
        pytest.param([a_template("closed", "1.0.0"), a_meta("closed", regular="1.0.0")], [], id="not offered"),
        pytest.param([a_template("closed", "1.0.0", channel="fast")], [], id="older form, not offered"),
    ],
)
def test_the_catalog_has_what_a_channel_leads_to(objects: list[Entry], expected: list[str]) -> None:
    assert names(shown(a_kyma(), *objects, denied="closed")) == expected


def test_what_the_runtime_cluster_gets_is_a_copy_without_what_kubectl_noted() -> None:
    template = a_template("keda", "1.0.0", labels={"team": "a"}, data={"kind": "Keda"})
    noted = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "note": "n"}
    template = msgspec.structs.replace(template, metadata=msgspec.structs.replace(template.metadata, annotations=noted))

    desired = copied(template, NAMESPACE)

    assert desired.body["metadata"] == {
        "name": "keda-1.0.0",
        "namespace": NAMESPACE,
        "labels": {"team": "a", f"{PREFIX}/managed-by": "kyma"},
        "annotations": {"note": "n"},
    }
    expected = {"descriptor": {}, "moduleName": "keda", "version": "1.0.0", "data": {"kind": "Keda"}}
    assert desired.body["spec"] == expected, "an empty descriptor is required, too"


# ---- what is due


def as_written(catalog: Catalog, *, manager: str = "catalog-sync") -> list[Entry]:
    """What the remote cluster has after all was written."""
    found: list[Entry] = []
    for desired in (copied(each, NAMESPACE) for each in catalog.entries):
        body: Any = desired.body
        kind: Any = ModuleTemplate if body["kind"] == "ModuleTemplate" else ModuleReleaseMeta
        obj = msgspec.convert(body, kind)
        managers = (FieldManager(manager=manager, operation="Apply"),)
        found.append(msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, managers=managers)))
    return found


CATALOG = Catalog(
    (a_template("keda", "1.0.0"), a_template("keda", "2.0.0")), (a_meta("keda", regular="1.0.0", fast="2.0.0"),)
)


def test_a_catalog_that_is_as_it_should_be_needs_no_write() -> None:
    assert due(CATALOG, NAMESPACE, as_written(CATALOG)) == ((), ())


@pytest.mark.req("KYMA-32")
def test_an_entry_that_was_edited_or_deleted_is_restored() -> None:
    edited, deleted, meta = as_written(CATALOG)
    assert isinstance(edited, ModuleTemplate)
    assert deleted.metadata.name == "keda-2.0.0"
    spec = msgspec.structs.replace(edited.spec, version="9.9.9")

    written, gone = due(CATALOG, NAMESPACE, [msgspec.structs.replace(edited, spec=spec), meta])

    assert [each.key.name for each in written] == ["keda-1.0.0", "keda-2.0.0"]
    assert gone == ()


@pytest.mark.req("KYMA-32", "R-505")
def test_an_entry_that_is_not_wanted_any_more_is_deleted_and_one_of_the_user_stays() -> None:
    own = a_template("mine", "1.0.0")
    stale = a_template("old", "1.0.0", written=True)

    written, gone = due(CATALOG, NAMESPACE, [*as_written(CATALOG), own, stale])

    assert (written, gone) == ((), (stale,))


def test_an_entry_in_another_namespace_that_this_operator_wrote_is_deleted() -> None:
    """The setting of the namespace may have changed."""
    moved = [each for each in as_written(CATALOG) if each.metadata.name == "keda-1.0.0"]
    elsewhere = [
        msgspec.structs.replace(each, metadata=msgspec.structs.replace(each.metadata, namespace="former"))
        for each in moved
    ]

    _, gone = due(CATALOG, NAMESPACE, [*as_written(CATALOG), *elsewhere])

    assert [str(each.key) for each in gone] == ["former/keda-1.0.0"]


def test_an_equal_entry_that_the_user_made_is_taken_over() -> None:
    assert len(due(CATALOG, NAMESPACE, as_written(CATALOG, manager="kubectl"))[0]) == 3


def test_a_channel_that_the_user_added_to_an_entry_is_no_reason_to_write_again_and_again() -> None:
    """An apply does not remove what another manager has added to a list with keys."""
    template, other, meta = as_written(CATALOG)
    assert isinstance(meta, ModuleReleaseMeta)
    (first, *_) = meta.spec.channels
    more = msgspec.structs.replace(first, channel="added")
    meta = msgspec.structs.replace(meta, spec=msgspec.structs.replace(meta.spec, channels=(more, *meta.spec.channels)))
    user = FieldManager(manager="kubectl-edit", operation="Update")
    touched = msgspec.structs.replace(meta.metadata, managers=(*meta.metadata.managers, user))

    assert due(CATALOG, NAMESPACE, [template, other, msgspec.structs.replace(meta, metadata=touched)]) == ((), ())
    written, _ = due(CATALOG, NAMESPACE, [template, other, meta])
    assert [each.key.name for each in written] == ["keda"], "a channel that is offered no more is our own"


@whatever(st.data())
def test_after_what_is_due_was_done_nothing_is_due(data: st.DataObject) -> None:
    modules, versions = ("a-module", "b-module"), ("1.0.0", "2.0.0")
    label = st.sampled_from([{}, {BETA: "true"}, {INTERNAL: "true"}])
    objects: list[Entry] = [
        a_template(module, version, labels=data.draw(label), channel=data.draw(st.sampled_from(["", "fast", "none"])))
        for module in modules
        for version in versions
        if data.draw(st.booleans())
    ]
    objects += [
        a_meta(module, **data.draw(st.dictionaries(st.sampled_from(["regular", "fast"]), st.sampled_from(versions))))
        for module in modules
        if data.draw(st.booleans())
    ]
    kyma = a_kyma(labels=data.draw(label))
    former = as_written(shown(a_kyma(labels=data.draw(label)), *objects))
    users = [a_template("users", "1.0.0")]

    catalog = shown(kyma, *objects)
    _, gone = due(catalog, NAMESPACE, [*former, *users])
    after = [*as_written(catalog), *users]

    assert due(catalog, NAMESPACE, after) == ((), ())
    left = {each.key for each in (*former, *users)} - {each.key for each in gone}
    assert left <= {each.key for each in after}
    assert users[0].key in left
    seen = {(each.spec.module_name, each.spec.version) for each in catalog.templates}
    assert all(
        (each.spec.module_name, channel.version) in seen for each in catalog.metas for channel in each.spec.channels
    )
