"""The words that name objects, as kubectl and flux take them."""

from __future__ import annotations

import click
import pytest

from stellwerk.cli.arguments import object_argument
from stellwerk.cli.arguments.object_argument import ObjectArgument, ObjectSelection
from stellwerk.kube.types.identifiers import ObjectKey


def named(kind: str, name: str, namespace: str = "") -> ObjectArgument:
    return ObjectArgument(kind, ObjectKey(namespace, name))


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["comp/web"], [named("comp", "web")]),
        (["comp/shop/web"], [named("comp", "web", "shop")]),
        (["comp", "web"], [named("comp", "web")]),
        (["comp", "web", "db"], [named("comp", "web"), named("comp", "db")]),
        (["comp/web", "btp/btpoperator"], [named("comp", "web"), named("btp", "btpoperator")]),
        ([], []),
    ],
)
def test_objects_are_named_with_a_slash_or_a_blank(words: list[str], meant: list[ObjectArgument]) -> None:
    assert object_argument.parsed(words) == tuple(meant)


@pytest.mark.parametrize(
    "words", [["comp"], ["comp/"], ["/web"], ["comp/a/b/c"], ["comp/web", "db"], ["comp//web"], ["comp", ""]]
)
def test_words_that_name_nothing_are_refused_with_both_forms(words: list[str]) -> None:
    with pytest.raises(ValueError, match="the forms are KIND/NAME and KIND NAME"):
        object_argument.parsed(words)


def test_all_and_a_selector_take_a_kind_alone() -> None:
    assert object_argument.chosen(["comp"], is_all=True, labels="") == ObjectSelection(kind="comp")
    assert object_argument.chosen(["comp"], is_all=False, labels="a=b") == ObjectSelection(kind="comp", labels="a=b")
    assert object_argument.chosen(["comp", "web"], is_all=False, labels="") == ObjectSelection((named("comp", "web"),))
    for words in (["comp/web"], ["comp", "web"]):
        with pytest.raises(click.UsageError, match="take a KIND and no names"):
            object_argument.chosen(words, is_all=True, labels="")
    with pytest.raises(click.UsageError, match="the forms are"):
        object_argument.chosen(["comp"], is_all=False, labels="")
