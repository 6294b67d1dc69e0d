"""kubectl's JSONPath. The expectations were compared with kubectl's own answers (see tests/cluster/cli)."""

from __future__ import annotations

import pytest

from stellwerk.cli.shell import jsonpath
from stellwerk.kube.types.model import JsonObject

DOCUMENT: JsonObject = {
    "kind": "List",
    "items": [
        {
            "metadata": {"name": "one", "labels": {"app.kubernetes.io/name": "x"}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Stalled", "status": "False"}]},
            "spec": {"replicas": 3},
        },
        {"metadata": {"name": "two"}, "status": {"conditions": [{"type": "Ready", "status": "False"}]}},
    ],
}


def shown(template: str) -> str:
    return jsonpath.render(jsonpath.parse(template), DOCUMENT)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{.kind}", "List"),
        (".kind", "List"),
        ("kind", "List"),
        ("{$.kind}", "List"),
        ("{@.kind}", "List"),
        ("{.items[*].metadata.name}", "one two"),
        ("{.items[0].metadata.name}", "one"),
        ("{.items[-1].metadata.name}", "two"),
        ("{.items[-1:].metadata.name}", "two"),
        ("{.items[0:2].metadata.name}", "one two"),
        ("{.items[0,1].metadata.name}", "one two"),
        ("{.items[0]['kind','metadata'].name}", "one"),
        ("{.items[0].metadata.labels.app\\.kubernetes\\.io/name}", "x"),
        ("{.items[0].metadata.labels['app.kubernetes.io/name']}", "x"),
        ("{..name}", "one two"),
        ("{.items[0].spec.replicas}", "3"),
        ("{.items[0].spec}", '{"replicas":3}'),
        ("{.items[?(@.metadata.name=='two')].status.conditions[0].status}", "False"),
        ('{.items[*].status.conditions[?(@.type=="Ready")].status}', "True False"),
        ("{.items[?(@.spec.replicas>2)].metadata.name}", "one"),
        ("{.items[?(@.spec)].metadata.name}", "one"),
        ("{.items[?(@.metadata.name!='two')].metadata.name}", "one"),
        ('{range .items[*]}{.metadata.name}{"\\n"}{end}', "one\ntwo\n"),
        ("{range .items[*]}[{.metadata.name}]{end}.", "[one][two]."),
        ("{.absent.field}", ""),
        ("{.items[9]}", ""),
        ("plain text {.kind}", "plain text List"),
        ("{'{'}{.kind}{'}'}", "{List}"),
    ],
)
def test_a_path_finds_what_kubectl_finds(template: str, expected: str) -> None:
    assert shown(template) == expected


@pytest.mark.parametrize(
    "template",
    ["{.kind", "{.items[0}", "{range .items[*]}x", "{end}", "{.items[abc]}", "{.items[?(@.a==b)]}", "{.a..}"],
)
def test_a_template_with_a_mistake_is_refused(template: str) -> None:
    with pytest.raises(jsonpath.PathError):
        jsonpath.parse(template)
