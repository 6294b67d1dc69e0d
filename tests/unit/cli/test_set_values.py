"""`--set` and its relatives are read as Helm reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from stellwerk.cli.releases import set_values
from stellwerk.cli.releases.set_values import GivenValues
from stellwerk.cli.shell.errors import Exit, Failure
from stellwerk.kube.types.model import JsonObject


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        (
            "a=1,b=true,c=null,d=1.5,e=007,f=0,g=-3",
            {"a": 1, "b": True, "c": None, "d": "1.5", "e": "007", "f": 0, "g": -3},
        ),
        ("a.b.c=x,a.b.d=y", {"a": {"b": {"c": "x", "d": "y"}}}),
        ("a={b,1,true}", {"a": ["b", 1, True]}),
        ("a={}", {"a": []}),
        ("a={},b=1", {"a": [], "b": 1}),
        ("a[0]=x,a[2].b=y", {"a": ["x", None, {"b": "y"}]}),
        ("a[0][1]=x", {"a": [[None, "x"]]}),
        ("a=b=c", {"a": "b=c"}),
        ("a=", {"a": ""}),
        ("a=b,", {"a": "b"}),
        (r"a=b\,c", {"a": "b,c"}),
        (r"node\.kubernetes\.io/role=x", {"node.kubernetes.io/role": "x"}),
        ("a=99999999999999999999", {"a": "99999999999999999999"}),
        ("a=1,a=2", {"a": 2}),
        ("a=1,a.b=2", {"a": {"b": 2}}),
    ],
)
def test_words_become_values(text: str, expected: JsonObject) -> None:
    found: JsonObject = {}
    set_values.read("--set", [text], set_values.typed, found)
    assert found == expected


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "a,b=1",
        "=1",
        "a[x]=1",
        "a[-1]=1",
        "a[70000]=1",
        "a[0]",
        "a[0]b=1",
        "a={b",
        "a={b}c",
        ".".join("a" * 40) + "=1",
    ],
)
def test_what_cannot_be_read_is_refused_with_its_key_and_without_its_value(text: str) -> None:
    with pytest.raises(Failure) as refused:
        set_values.read("--set", [text], set_values.typed, {})
    assert refused.value.code == Exit.USAGE
    assert refused.value.report.fix
    with pytest.raises(Failure) as refused:
        set_values.read("--set", ["password={canary"], set_values.typed, {})
    assert "canary" not in str(refused.value.report.lines())


def merged(given: GivenValues) -> JsonObject:
    (layer,) = given.layers()
    return layer.values


def test_strings_stay_strings_and_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "motd").write_text("line 1,\nline 2\n")
    assert merged(GivenValues(strings=["a=1,b=true,c={1,2}"], contents=[f"d.e={tmp_path}/motd"])) == {
        "a": "1",
        "b": "true",
        "c": ["1", "2"],
        "d": {"e": "line 1,\nline 2\n"},
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('a={"b": [1, {"c": null}]},d="x,y"', {"a": {"b": [1, {"c": None}]}, "d": "x,y"}),
        ('a[1].b={"c": 1}', {"a": [None, {"b": {"c": 1}}]}),
        (' {"a": {"b": 1}}', {"a": {"b": 1}}),
    ],
)
def test_json_is_read_as_it_is(text: str, expected: JsonObject) -> None:
    assert merged(GivenValues(json=[text])) == expected


@pytest.mark.parametrize("text", ["a={canary", "a=1 2", "[1]", '{"a": 1} x'])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(Failure) as refused:
        GivenValues(json=[text]).layers()
    assert "canary" not in str(refused.value.report.lines())


def test_each_option_is_laid_over_the_files_and_over_the_ones_before_as_in_helm(tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text("a: file\nb: file\nlist: [{v: 1, w: 2}]\nkept: {c: 1}\n")
    given = GivenValues(
        files=[tmp_path / "values.yaml"],
        json=['a="json"', '{"b": "json", "kept": {"d": 2}}'],
        words=["b=set,list[0].v=3"],
        strings=["b=string"],
    )
    (layer,) = given.layers()
    assert layer.secret
    assert layer.values == {
        "a": "json",
        "b": "string",
        "list": [{"v": 3, "w": 2}],
        "kept": {"c": 1, "d": 2},
    }


def test_without_such_options_each_file_is_a_layer(tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text("a: 1\n")
    assert [layer.source for layer in GivenValues(files=[tmp_path / "values.yaml"]).layers()] == [
        str(tmp_path / "values.yaml")
    ]
