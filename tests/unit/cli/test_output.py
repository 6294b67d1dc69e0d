"""Results for programs."""

from __future__ import annotations

import json
from io import BytesIO, TextIOWrapper

import pytest
import yaml

from stellwerk.cli.objects import installations
from stellwerk.cli.releases import delete
from stellwerk.cli.shell import output
from stellwerk.cli.shell.errors import Failure
from stellwerk.cli.shell.settings import Output
from stellwerk.kube.schema import crd
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, ObjectRef
from stellwerk.kube.types.model import JsonObject, Unstructured
from stellwerk.kube.yaml import read_value
from stellwerk.releases.removal import Departure

STEERS = ("\x1b", "\x9b", "\u202e", "\xad", "\u180e", "\ufff9", "\U000e0041", "\ue000")
EVIL: JsonObject = {"message": f"{''.join(STEERS)}gone", "größe": 3}


class Stream(TextIOWrapper):
    """Standard output that may be a terminal."""

    def __init__(self, *, terminal: bool) -> None:
        super().__init__(BytesIO(), encoding="utf-8")
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    @property
    def text(self) -> str:
        written = self.buffer
        assert isinstance(written, BytesIO)
        return written.getvalue().decode()


def printed(form: Output, monkeypatch: pytest.MonkeyPatch, *, terminal: bool) -> str:
    stream = Stream(terminal=terminal)
    monkeypatch.setattr("sys.stdout", stream)
    output.print_value(EVIL, form)
    return stream.text


@pytest.mark.parametrize("form", ["json", "yaml"])
@pytest.mark.parametrize("terminal", [True, False])
def test_what_is_printed_is_the_same_value_on_a_terminal_and_in_a_file(
    form: str, terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = json.loads if form == "json" else yaml.safe_load
    assert read(printed(Output(form), monkeypatch, terminal=terminal)) == EVIL


@pytest.mark.parametrize("form", ["json", "yaml", "jsonpath"])
def test_on_a_terminal_nothing_can_steer_it(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from stellwerk.cli.shell import jsonpath

    shown = printed(Output(form, jsonpath.parse(".message")), monkeypatch, terminal=True)
    assert not {*STEERS} & set(shown)


def test_a_program_gets_a_jsonpath_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    from stellwerk.cli.shell import jsonpath

    chosen = Output("jsonpath", jsonpath.parse(".message"))
    assert printed(chosen, monkeypatch, terminal=False) == EVIL["message"]


def test_a_name_is_what_kubectl_takes() -> None:
    deployment = Unstructured.of({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}})
    pod = Unstructured.of({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "y"}})
    assert output.qualified_name(deployment) == "deployment.apps/x"
    assert output.qualified_name(pod) == "pod/y"


def test_a_value_that_is_no_object_has_no_name() -> None:
    with pytest.raises(Failure):
        output.print_value(EVIL, Output("name"))


def test_a_text_of_several_lines_can_be_read_in_yaml_and_is_the_same() -> None:
    value: JsonObject = {"script": "one\n  two\n", "odd": "trailing \nblank", "evil": "\x1b[2J\n", "plain": "x"}
    text = output.as_yaml(value)
    assert "script: |\n  one\n    two\n" in text
    assert "\x1b" not in text
    assert yaml.safe_load(text) == value


@pytest.mark.parametrize(
    "word",
    ["1e3", "12e45", "089", "0o17", "y", "N", "yes", "on", "~", "null", ".inf", "1_000", "1.0", "0b1", "2026-05-01"],
)
def test_a_text_that_a_reader_could_take_for_another_value_is_in_quotes(word: str) -> None:
    value: JsonObject = {word: word, "list": [word]}
    for text in (output.as_yaml(value), crd.to_yaml(value)):
        assert text == f"'{word}': '{word}'\nlist:\n- '{word}'\n"
        assert read_value(text) == yaml.safe_load(text) == value


def test_other_texts_have_no_quotes() -> None:
    value: JsonObject = {"name": "web-1", "image": "shop:1.2", "path": "/a", "port": 80, "on": True, "ratio": 0.5}
    assert output.as_yaml(value) == "name: web-1\nimage: shop:1.2\npath: /a\nport: 80\n'on': true\nratio: 0.5\n"


@pytest.mark.parametrize("letter", STEERS)
def test_the_names_of_removed_objects_cannot_steer_a_terminal(letter: str) -> None:
    role: JsonObject = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": f"a{letter}"},
    }
    assert letter not in installations.removal_line(Unstructured.of(role), dry_run=True)
    ref = ObjectRef(GroupVersionKind("", "v1", "ConfigMap"), ObjectKey("shop", f"a{letter}"))
    (line,) = delete.removal_lines([Departure(ref)])
    assert line.startswith("- ConfigMap shop/a")
    assert letter not in line
