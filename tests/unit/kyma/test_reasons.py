"""Every word and message by which a Kyma, a Manifest or a Watcher explains itself has a page."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from stellwerk.operators.kyma.insight.help_topics import HELP
from stellwerk.runtime.insight.reason_catalog import command_in

SOURCE = Path(__file__).parents[3] / "src" / "stellwerk"
KYMA = SOURCE / "operators" / "kyma"
REASONS = [(kind, word, meaning) for kind, help in HELP.items() for word, meaning in help.catalogue.meanings.items()]
HANDED_ON = {"str(error)", "{}", ""}
"""Messages that are wholly those of others."""


def text_of(node: ast.AST) -> str:
    """A text with `{}` in the place of each value."""
    match node:
        case ast.Constant(value=str(value)):
            return value
        case ast.JoinedStr(values=values):
            return "".join(text_of(each) if isinstance(each, ast.Constant) else "{}" for each in values)
        case _:
            return ""


def trees(*names: str) -> Iterator[ast.Module]:
    files = [KYMA / name for name in names] if names else [*KYMA.rglob("*.py"), SOURCE / "runtime/reading/view.py"]
    yield from (ast.parse(file.read_text()) for file in files if file.name != "reasons.py")


def messages_of(exceptions: set[str], *names: str) -> set[str]:
    """The messages with which some exceptions are made in these files."""
    calls = [node for tree in trees(*names) for node in ast.walk(tree) if isinstance(node, ast.Call)]
    made = [call for call in calls if call.args and ast.unparse(call.func) in exceptions]
    return {text_of(call.args[0]) for call in made} - HANDED_ON


def texts() -> set[str]:
    return {text_of(node) for tree in trees() for node in ast.walk(tree)}


@pytest.mark.parametrize(
    ("kind", "messages"),
    [
        (
            "Kyma",
            messages_of({"Problem", "_NoMeta", "_NotOffered", "_NotAllowed", "_Downgrade"}, "module/resolution.py")
            | messages_of({"_WaitsForWindow", "_WindowNotKnown"}, "module/resolution.py")
            | messages_of({"super().__init__"}, "access.py", "kyma/skr.py", "kyma/sync.py", "kyma/decide.py"),
        ),
        (
            "Manifest",
            {
                each.replace("{}; {}", "orphaned manifest detected")
                for each in messages_of({"Problem"}, "manifest/decide.py")
            },
        ),
    ],
)
def test_every_message_about_a_cause_has_a_word(kind: str, messages: set[str]) -> None:
    assert len(messages) >= 3
    assert [each for each in sorted(messages) if HELP[kind].catalogue.word_of(each) is None] == []


def test_the_message_of_every_word_is_one_that_the_operator_writes() -> None:
    known = texts()
    lost = [word for _, word, meaning in REASONS if not any(meaning.message in text for text in known)]
    assert lost == []


def test_every_reason_has_a_next_step_with_a_command() -> None:
    assert [word for _, word, meaning in REASONS if not any(map(command_in, meaning.fix))] == []


@pytest.mark.parametrize(
    ("message", "word"),
    [
        ("no versions found for channel: fast in module keda", "NoVersionForChannel"),
        ("waiting for module crs deletion: 4 Sample: shop/a, shop/b, shop/c and 1 more", "CustomResourcesExist"),
        ("failed to sync CRDs to SKR: kymas is forbidden", "DefinitionMissing"),
    ],
)
def test_a_message_that_a_user_copies_is_explained(message: str, word: str) -> None:
    assert word in {str(help.catalogue.word_of(message)) for help in HELP.values()}


def test_a_message_that_no_reason_has_is_not_explained() -> None:
    assert {help.catalogue.word_of("connection reset by peer") for help in HELP.values()} == {None}


def test_every_event_has_a_page() -> None:
    words = {str(word) for _, word, _ in REASONS}
    assert [text for text in sorted(_reasons_of_events()) if text not in words] == []


def _reasons_of_events() -> set[str]:
    """The literal reasons of Events in the code."""
    calls = [node for tree in trees() for node in ast.walk(tree) if isinstance(node, ast.Call)]
    events = [call.args[0] for call in calls if ast.unparse(call.func) == "Notice"]
    keywords = [word.value for call in calls for word in call.keywords if word.arg == "event_reason"]
    return {text for node in (*events, *keywords) if (text := text_of(node))}
