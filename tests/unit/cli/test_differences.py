"""Two states of one object, field by field."""

from __future__ import annotations

import json
from textwrap import dedent

import pytest

from stellwerk.cli.releases import dry_run
from stellwerk.cli.releases.dry_run import DiffLine
from stellwerk.cli.shell.field_diff import Change, changes
from stellwerk.cli.shell.text import Style
from stellwerk.kube.types.model import JsonObject

OURS = "component-operator.cs.sap.com"


def a_deployment(replicas: int, **images: str) -> JsonObject:
    containers: list[JsonObject] = [{"name": name, "image": image} for name, image in images.items()]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "ingress"},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [*containers]}}},
    }


def managed(body: JsonObject, manager: str, fields: JsonObject) -> JsonObject:
    entry: JsonObject = {"manager": manager, "operation": "Update", "fieldsV1": fields}
    return {**body, "metadata": {"name": "ingress", "managedFields": [entry]}}


def told(before: JsonObject, after: JsonObject, *, secret: bool = False, hidden: tuple[str, ...] = ()) -> list[str]:
    return [str(change) for change in changes(before, after, secret=secret, ours=OURS, hidden=hidden)]


def owners(before: JsonObject, after: JsonObject) -> list[str]:
    return [change.owner for change in changes(before, after, secret=False, ours=OURS)]


def test_items_of_a_list_are_told_apart_by_name_and_not_by_position() -> None:
    before = a_deployment(1, proxy="proxy:1.4", metrics="m:1")
    after = a_deployment(1, metrics="m:1", proxy="proxy:1.5")
    assert told(before, after) == ["spec.template.spec.containers[name=proxy].image: proxy:1.4 -> proxy:1.5"]


def test_an_item_more_is_told_whole() -> None:
    assert told(a_deployment(1, proxy="p"), a_deployment(1, proxy="p", side="s")) == [
        'spec.template.spec.containers[name=side]: (none) -> {"name": "side", "image": "s"}'
    ]


def test_items_without_names_are_told_by_position() -> None:
    assert told({"spec": {"hosts": ["a", "b"]}}, {"spec": {"hosts": ["a", "c", "d"]}}) == [
        "spec.hosts[1]: b -> c",
        "spec.hosts[2]: (none) -> d",
    ]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (["get", "list"], ["list", "get"], ['spec.verbs: ["get", "list"] -> ["list", "get"]']),
        (["get", "list"], ["create", "get", "list"], ['spec.verbs: ["get", "list"] -> ["create", "get", "list"]']),
        (["a", "b", "c"], ["x", "y", "z"], ['spec.verbs: ["a", "b", "c"] -> ["x", "y", "z"]']),
        (["--a=1", "--b=1"], ["--a=2", "--b=2"], ["spec.verbs[0]: --a=1 -> --a=2", "spec.verbs[1]: --b=1 -> --b=2"]),
    ],
)
def test_a_list_of_words_that_moved_is_told_whole(before: list[str], after: list[str], expected: list[str]) -> None:
    assert told({"spec": {"verbs": [*before]}}, {"spec": {"verbs": [*after]}}) == expected


def test_items_with_one_name_twice_are_told_by_position() -> None:
    ports: list[JsonObject] = [{"name": "dns", "protocol": "TCP"}, {"name": "dns", "protocol": "UDP"}]
    swapped: list[JsonObject] = [{"name": "dns", "protocol": "TCP"}, {"name": "dns", "protocol": "SCTP"}]
    assert told({"spec": {"ports": [*ports]}}, {"spec": {"ports": [*swapped]}}) == [
        "spec.ports[1].protocol: UDP -> SCTP"
    ]


def test_keys_that_are_no_words_are_quoted() -> None:
    before: JsonObject = {"metadata": {"annotations": {"a.example.com/b": "1"}}}
    after: JsonObject = {"metadata": {"annotations": {"a.example.com/b": "2"}}}
    assert told(before, after) == ['metadata.annotations["a.example.com/b"]: "1" -> "2"']


def test_an_empty_value_is_as_good_as_none() -> None:
    assert told({"spec": {"a": {}, "b": [], "c": None}}, {"spec": {}}) == []
    assert told({"spec": {"a": ""}}, {"spec": {"a": 0}}) == ['spec.a: "" -> 0']


def test_a_text_that_looks_like_something_else_is_quoted() -> None:
    assert told({"data": {"a": "1"}}, {"data": {"a": 1}}) == ['data.a: "1" -> 1']
    assert told({"data": {"a": "true"}}, {"data": {"a": "x\ny"}}) == ['data.a: "true" -> "x\\ny"']


def test_what_the_server_keeps_for_itself_and_what_is_hidden_is_left_out() -> None:
    before: JsonObject = {
        "metadata": {"resourceVersion": "1", "generation": 1, "annotations": {"d": "1"}},
        "status": {},
    }
    after: JsonObject = {
        "metadata": {"resourceVersion": "2", "generation": 2, "annotations": {"d": "2"}},
        "status": {"phase": "x"},
    }
    assert told(before, after, hidden=("d",)) == []


@pytest.mark.req("R-801")
def test_values_of_secrets_are_masked_whole_and_in_parts() -> None:
    before: JsonObject = {"data": {"password": "Y2FuYXJ5"}, "type": "Opaque"}
    assert told(before, {"data": {"password": "bmV3", "user": "bQ=="}, "type": "x"}, secret=True) == [
        "data.password: *** -> ***",
        "data.user: (none) -> ***",
        "type: Opaque -> x",
    ]
    assert told({"type": "Opaque"}, before, secret=True) == ["data: (none) -> ***"]


@pytest.mark.req("R-801")
def test_annotations_of_a_secret_that_repeat_its_values_are_masked() -> None:
    note = "kubectl.kubernetes.io/last-applied-configuration"
    before: JsonObject = {"metadata": {"annotations": {note: json.dumps({"data": {"password": "Y2FuYXJ5"}})}}}
    assert "Y2FuYXJ5" not in "".join(told(before, {"metadata": {}}, secret=True))


def test_who_set_a_live_value_is_told() -> None:
    before = managed(a_deployment(2), "kubectl-edit", {"f:spec": {"f:replicas": {}}})
    assert owners(before, a_deployment(3)) == ["kubectl-edit"]


def test_our_own_values_have_no_note() -> None:
    assert owners(managed(a_deployment(2), OURS, {"f:spec": {"f:replicas": {}}}), a_deployment(3)) == [""]


def test_who_set_a_value_in_a_list_is_found_by_the_items_key() -> None:
    fields: JsonObject = {
        "f:spec": {
            "f:template": {"f:spec": {"f:containers": {'k:{"name":"proxy"}': {"f:image": {}}, 'k:{"name":"x"}': {}}}}
        }
    }
    before = managed(a_deployment(1, proxy="a"), "helm", fields)
    assert owners(before, a_deployment(1, proxy="b")) == ["helm"]


@pytest.mark.parametrize(
    "fields", [{}, {"f:spec": {"f:template": 3}}, {"f:spec": {"f:replicas": {}}}, {"k:not json": {}}]
)
def test_fields_that_nobody_claims_have_no_owner(fields: JsonObject) -> None:
    before = managed(a_deployment(1, proxy="a"), "helm", fields)
    assert owners(before, a_deployment(1, proxy="b")) == [""]


# ---- the page


def look(golden: str) -> list[str]:
    return dedent(golden).strip("\n").splitlines()


LINES = [
    DiffLine(
        "~",
        "Deployment infra/ingress",
        changes=(
            Change("spec.replicas", "2", "3", "kubectl-edit"),
            Change("spec.template.spec.containers[name=proxy].image", "proxy:1.4", "proxy:1.5"),
        ),
    ),
    DiffLine("+", "ConfigMap infra/ingress-extra"),
    DiffLine("-", "Service infra/ingress-old", "will be deleted: delete policy Delete"),
]


def test_the_page_of_differences() -> None:
    assert dry_run.shown(LINES, 11, Style()) == look(
        """
        ~ Deployment infra/ingress
            spec.replicas: 2 -> 3                                (live value set by kubectl-edit)
            spec.template.spec.containers[name=proxy].image: proxy:1.4 -> proxy:1.5
        + ConfigMap infra/ingress-extra
        - Service infra/ingress-old                              (will be deleted: delete policy Delete)
        3 objects differ, 11 unchanged                           exit code 3
        """
    )


def test_what_describes_the_fields_of_a_kind_is_only_counted() -> None:
    schema = "spec.versions[name=v1].schema.openAPIV3Schema"
    texts = [Change(f"{schema}.properties.{name}.description", "old", "new") for name in "abc"]
    named = Change(f"{schema}.properties.description.type", "string", "integer")
    kind = "CustomResourceDefinition a.b"
    page = dry_run.shown([DiffLine("~", kind, changes=(*texts, named))], 0, Style())
    assert page[:2] == [f"{f'~ {kind}':<57}(3 descriptions in its schema differ)", f"    {named}"]
    few = dry_run.shown([DiffLine("~", kind, changes=(*texts[:2], named))], 0, Style())
    assert few[:4] == [f"~ {kind}", f"    {texts[0]}", f"    {texts[1]}", f"    {named}"]


def test_a_page_without_differences_says_so() -> None:
    assert dry_run.shown([], 4, Style()) == ["nothing differs, 4 unchanged"]
    assert (
        dry_run.shown([DiffLine("+", "ConfigMap a/b")], 0, Style())[-1]
        == f"{'1 object differs, 0 unchanged':<57}exit code 3"
    )


def test_marks_are_coloured_and_texts_escaped() -> None:
    assert dry_run.shown([DiffLine("+", "ConfigMap a/\x1b[2J")], 0, Style(colour=True))[0] == (
        "\x1b[32m+\x1b[0m ConfigMap a/\\x1b[2J"
    )


def test_differences_for_programs() -> None:
    told = dry_run.as_json(LINES, 11)
    assert told["unchanged"] == 11
    assert told["objects"] == [
        {
            "object": "Deployment infra/ingress",
            "action": "change",
            "note": "",
            "when": "reconcile",
            "changes": [
                {"path": "spec.replicas", "before": "2", "after": "3", "owner": "kubectl-edit"},
                {
                    "path": "spec.template.spec.containers[name=proxy].image",
                    "before": "proxy:1.4",
                    "after": "proxy:1.5",
                    "owner": "",
                },
            ],
        },
        {"object": "ConfigMap infra/ingress-extra", "action": "create", "note": "", "when": "reconcile", "changes": []},
        {
            "object": "Service infra/ingress-old",
            "action": "remove",
            "note": "will be deleted: delete policy Delete",
            "when": "reconcile",
            "changes": [],
        },
    ]


def test_what_an_apply_comes_to_is_worked_out_for_users_who_may_not_try_it() -> None:
    live = a_deployment(1, proxy="proxy:1.4", side="s:1")
    live["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = "Always"  # type: ignore[index,call-overload]
    wanted = a_deployment(2, proxy="proxy:1.5")

    assert told(live, dry_run.overlaid(wanted, live)) == [
        "spec.replicas: 1 -> 2",
        "spec.template.spec.containers[name=proxy].image: proxy:1.4 -> proxy:1.5",
    ]
    assert dry_run.overlaid(a_deployment(1, proxy="proxy:1.4"), live) is live, (
        "only defaults and what others have added"
    )
    limits: JsonObject = {"spec": {"limits": {"cpu": "1000m"}, "args": ["a", "b"]}}
    assert dry_run.overlaid({"spec": {"limits": {"cpu": 1}}}, limits) is limits
    assert dry_run.overlaid({"spec": {"args": ["b"]}}, limits)["spec"] == {"limits": {"cpu": "1000m"}, "args": ["b"]}


@pytest.mark.parametrize(
    ("marks", "code", "last"),
    [
        ("", 0, "nothing differs, 4 unchanged"),
        ("~", 3, "1 object differs, 4 unchanged"),
        ("~?", 3, "1 object differs, 4 unchanged, 1 not compared"),
        ("?", 5, "nothing differs, 4 unchanged, 1 not compared"),
        ("!+", 3, "2 objects differ, 4 unchanged"),
    ],
)
def test_the_exit_code_is_about_differences_and_about_rights_only_if_nothing_differs(
    marks: str, code: int, last: str
) -> None:
    lines = [DiffLine(mark, f"ConfigMap a/{mark}") for mark in marks]
    assert dry_run.exit_code(lines) == code
    assert dry_run.shown(lines, 4, Style())[-1].startswith(last)
    assert len(dry_run.as_json(lines, 4)["objects"]) == len(marks)  # type: ignore[arg-type]
