"""The page of a reason."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

import click
import pytest

from stellwerk.cli import verb_tree
from stellwerk.cli.help import explain
from stellwerk.cli.main import run
from stellwerk.cli.shell.text import Style
from stellwerk.operators.btp import api
from stellwerk.operators.btp.credentials.credentials import REQUIRED_KEYS
from stellwerk.operators.btp.insight.help_topics import CATALOGUE, TOPICS
from stellwerk.operators.btp.settings import TABLE
from stellwerk.operators.cap.insight.help_topics import HELP as CAP
from stellwerk.operators.cap_manager.insight.help_topics import HELP as CAP_MANAGER
from stellwerk.operators.component.insight import help_topics as component
from stellwerk.operators.kyma.insight.help_topics import HELP as KYMA
from stellwerk.runtime.insight.reason_catalog import Meaning, command_in


def test_every_reason_has_a_page_with_its_meaning() -> None:
    pages = {(entry.kind, entry.reason): explain.page(entry, Style()) for entry in explain.catalogue()}
    catalogues: dict[str, Mapping[Any, Meaning[Any]]] = {
        "BtpOperator": CATALOGUE.meanings,
        "Component": component.CATALOGUE.meanings,
        **{kind: each.catalogue.meanings for kind, each in {**CAP, **CAP_MANAGER, **KYMA}.items()},
    }
    assert set(pages) == {(kind, str(reason)) for kind, meanings in catalogues.items() for reason in meanings}
    for kind, meanings in catalogues.items():
        for reason, meaning in meanings.items():
            assert meaning.meaning in pages[kind, str(reason)]
            assert all(f"  - {fix}" in pages[kind, str(reason)] for fix in meaning.fix)


@pytest.mark.parametrize("entry", [*explain.catalogue()], ids=lambda entry: f"{entry.kind}-{entry.reason}")
def test_every_page_says_how_to_fix_it_with_a_command(entry: explain.ReasonEntry) -> None:
    assert any(command_in(fix) for fix in entry.meaning.fix)


def test_the_commands_of_all_pages_are_commands_of_ours() -> None:
    told = (
        told for entry in explain.catalogue() for told in (*entry.meaning.check, *map(command_in, entry.meaning.fix))
    )
    named = (
        command.replace("NAMESPACE", "shop").replace("component.yaml", "/dev/null").replace("FOLDER", ".")
        for command in told
    )
    ours = {words[1:] for command in named if (words := tuple(shlex.split(command))) and words[0] == "stellwerk"}
    assert len(ours) >= 10
    for verb, *arguments in ours:
        context = click.Context(verb_tree.command)
        subcommand = verb_tree.command.get_command(context, verb)
        assert subcommand is not None, verb
        subcommand.make_context(verb, list(arguments), context)


@pytest.mark.parametrize("word", ["MissingSecret", "missingsecret", "MISSINGSECRET"])
def test_a_reason_is_found_whatever_its_case(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", word]) == 0
    assert capsys.readouterr().out.startswith("MissingSecret  (BtpOperator, state Warning)")


def test_without_a_word_all_topics_and_reasons_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain"]) == 0
    topics, reasons = capsys.readouterr().out.split("\n\n")
    assert [line.split()[1] for line in topics.splitlines()[1:]] == [subject.name for subject in explain.topics()]
    assert len(reasons.splitlines()) == 1 + len(list(explain.catalogue()))


@pytest.mark.parametrize("name", TOPICS)
def test_every_topic_has_a_page_that_fits_a_terminal_and_names_commands(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain", name.upper()]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"{name}  (BtpOperator: {TOPICS[name].about})")
    assert all(f"\n  {command}" in shown for command in TOPICS[name].commands)
    running_text = [line for line in shown.splitlines()[1:] if not line.startswith("  ")]
    assert max(map(len, running_text)) <= 100


def test_a_topic_tells_the_names_that_the_operator_uses(capsys: pytest.CaptureFixture[str]) -> None:
    run(["explain", "credentials"])
    run(["explain", "tunables"])
    run(["explain", "deletion"])
    shown = capsys.readouterr().out
    for name in (*REQUIRED_KEYS, *(row.key for row in TABLE.rows), api.FORCE_DELETE_LABEL, api.BROKER_NAME):
        assert name in shown


def test_the_reason_of_an_event_is_found_on_the_page_of_events(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "driftdetected"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("events  (Component: ")
    assert "DriftDetected" in shown


def test_an_unknown_reason_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "MisingSecret"]) == 2
    shown = capsys.readouterr().err.splitlines()
    assert shown[0] == "Error:   there is no reason and no topic 'MisingSecret'"
    assert "MissingSecret" in shown[1]


def test_a_mistyped_topic_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "credential"]) == 2
    assert "near to it: credentials" in capsys.readouterr().err


def test_a_message_that_a_user_copies_is_answered_with_the_page_of_its_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["explain", "at 10:05: Unable to remove installed resources"]) == 0
    assert capsys.readouterr().out.startswith("ResourceRemovalFailed  (BtpOperator, state Error)")
