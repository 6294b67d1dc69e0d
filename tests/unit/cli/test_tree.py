"""The tree of verbs, from the words on the command line to the exit code."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from io import StringIO

import click
import pytest

from stellwerk.cli import verb_tree
from stellwerk.cli.arguments import options
from stellwerk.cli.arguments.verb import VerbCommand
from stellwerk.cli.main import run
from stellwerk.cli.shell import settings
from stellwerk.cli.shell.settings import CallSettings
from stellwerk.cli.shell.text import Style


def declared() -> Iterator[tuple[str, VerbCommand]]:
    """All verbs that are declared apart from their work, also those below a verb."""
    for name, verb in verb_tree.VERBS.items():
        command = verb.load(name)
        below = command.commands.items() if isinstance(command, click.Group) else ()
        for path, found in [(name, command), *((f"{name} {inner}", one) for inner, one in below)]:
            if isinstance(found, VerbCommand):
                yield path, found


DECLARED = dict(declared())


@pytest.mark.parametrize("name", verb_tree.VERBS)
def test_every_verb_in_help_exists_and_says_the_same_of_itself(name: str) -> None:
    loaded = verb_tree.VERBS[name].load(name)
    assert loaded.name == name
    assert loaded.get_short_help_str(limit=200) == verb_tree.VERBS[name].summary


@pytest.mark.parametrize("name", verb_tree.VERBS)
def test_every_verb_can_be_quiet_verbose_and_without_colour(name: str) -> None:
    options = {option for parameter in verb_tree.VERBS[name].load(name).params for option in parameter.opts}
    assert {"-q", "-v", "--no-color"} <= options


@pytest.mark.parametrize("path", DECLARED)
def test_the_work_of_a_verb_takes_exactly_the_parameters_that_the_verb_declares(path: str) -> None:
    command = DECLARED[path]
    work = inspect.signature(command.load_work())
    declared = {parameter.name for parameter in command.params if parameter.expose_value}
    assert work.parameters.keys() - {"cluster"} == declared


def test_a_mistyped_verb_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["statu"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines()[0] == "Error:   There is no verb 'statu'. Did you mean status or stats?"


@pytest.mark.parametrize(
    "arguments",
    [
        ["get", "-o", "xml"],
        ["get", "-o", "jsonpath={.a"],
        ["get", "--no-such-option"],
        ["get", "-n", "../x"],
        ["get", "-n", "Upper"],
        ["get", "btp", "a/b/c"],
        ["get", "btp/a/b/c"],
        ["tree"],
        ["trace", "no-slash"],
        ["wait", "btp/x", "--timeout", "-168h"],
        ["wait", "btp/x", "--timeout", "soon"],
        ["status", "a/b/c/d"],
        ["completion", "tcsh"],
    ],
)
def test_wrong_usage_ends_with_two_and_a_way_on(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("Error:   ")
    assert any(line.startswith("Fix:     ") for line in lines)
    assert not any("Traceback" in line for line in lines)


def test_a_short_word_is_the_verb_that_it_stands_for() -> None:
    context = click.Context(verb_tree.command)
    for short, name in verb_tree.ALIASES.items():
        assert isinstance(verb_tree.command, verb_tree.VerbGroup)
        assert verb_tree.command.get_command(context, short) is not None
        assert name in verb_tree.VERBS


def test_no_verb_at_all_prints_help(capsys: pytest.CaptureFixture[str]) -> None:
    run([])
    assert "Usage: stellwerk" in capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_calls_us_back(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    assert f"_STELLWERK_COMPLETE={shell}_complete" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (["-n", "a"], [], CallSettings(namespace="a")),
        ([], ["-n", "b"], CallSettings(namespace="b")),
        (["-n", "a"], ["-n", "b"], CallSettings(namespace="b")),
        (
            ["-A", "--as", "jane"],
            ["-q", "--no-color"],
            CallSettings(all_namespaces=True, user="jane", quiet=True, no_colour=True),
        ),
        (["--context", "c"], ["-v"], CallSettings(context="c", verbose=True)),
    ],
)
def test_shared_options_count_before_and_after_the_verb(
    before: list[str], after: list[str], expected: CallSettings
) -> None:
    seen: list[CallSettings] = []
    verb = click.command("verb")(options.all_of(lambda: seen.append(settings.current())))
    group = click.group("program")(options.all_of(lambda: None))
    group.add_command(verb)
    group.main([*before, "verb", *after], standalone_mode=False)
    assert seen == [expected]


class Terminal(StringIO):
    """A terminal of an encoding."""

    encoding = ""

    def __init__(self, encoding: str) -> None:
        super().__init__()
        self.encoding = encoding

    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_colours_and_symbols(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert settings.style_of(Terminal("utf-8")) == Style(colour=True, symbols=True)
    assert settings.style_of(Terminal("ascii")) == Style(colour=True, symbols=False)
    assert settings.style_of(Terminal("UTF-8"), no_colour=True) == Style(colour=False, symbols=True)
    assert settings.style_of(StringIO()).colour is False


def test_no_color_in_the_environment_takes_colours_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert settings.style_of(Terminal("utf-8")).colour is False
