"""The objects that a user names on the command line: KIND/NAME, KIND/NAMESPACE/NAME, or KIND NAME as with kubectl.

Verbs that act on many objects at once also take a KIND with `--all` or with a selector, as flux does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import click

from stellwerk.cli.arguments.options import C
from stellwerk.cli.completion.completers import complete_subject, complete_subject_or_release
from stellwerk.kube.types.identifiers import ObjectKey

_EXAMPLE = "for example btp/btpoperator or btp btpoperator"


@dataclass(frozen=True, slots=True)
class ObjectArgument:
    """`btp/btpoperator`, or with its namespace `btp/kyma-system/btpoperator`. `kind` is the user's own word."""

    kind: str
    key: ObjectKey


@dataclass(frozen=True, slots=True)
class ObjectSelection:
    """The objects of a verb that takes several: named ones, or those of a kind that a selector matches."""

    subjects: tuple[ObjectArgument, ...] = ()
    kind: str = ""
    """Set where no object is named: all of this kind, as far as `labels` select them."""
    labels: str = ""


def parsed(words: Sequence[str]) -> tuple[ObjectArgument, ...]:
    """The objects that the words name. Raises ValueError with a sentence for the user."""
    if not words or "/" in words[0]:
        return tuple(_with_slash(word) for word in words)
    kind, *names = words
    if not names:
        raise ValueError(f"{kind!r} does not name an object; the forms are KIND/NAME and KIND NAME, {_EXAMPLE}.")
    return tuple(_with_slash(f"{kind}/{name}") for name in names)


def _with_slash(word: str) -> ObjectArgument:
    kind, *key = word.split("/")
    if len(key) not in (1, 2) or not kind or not all(key):
        raise ValueError(f"{word!r} does not name an object; the forms are KIND/NAME and KIND NAME, {_EXAMPLE}.")
    return ObjectArgument(kind, ObjectKey.parse("/".join(key)))


class SubjectType(click.ParamType[ObjectArgument]):
    """Reads KIND/NAME or KIND/NAMESPACE/NAME."""

    name = "subject"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> ObjectArgument:
        """The value as a Subject."""
        if isinstance(value, ObjectArgument):
            return value
        try:
            return _with_slash(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _read(words: Sequence[str], parameter: click.Parameter, context: click.Context) -> tuple[ObjectArgument, ...]:
    try:
        return parsed(words)
    except ValueError as error:
        raise click.BadParameter(str(error), context, parameter) from None


def read_one(
    context: click.Context, parameter: click.Parameter, words: tuple[str, ...]
) -> ObjectArgument | tuple[str, ...] | None:
    """The one object that the words of an argument name; the words themselves while a shell completes the line."""
    if context.resilient_parsing:
        return words
    subjects = _read(words, parameter, context)
    if len(subjects) > 1:
        named = f"{len(subjects)} objects are named"
        raise click.BadParameter(f"{named}, and this verb is about one.", context, parameter)
    return subjects[0] if subjects else None


def for_object(help: str) -> Callable[[C], C]:
    """The option `--for` with an object."""
    return click.option(
        "--for", "subject", metavar="KIND/NAME", type=SubjectType(), shell_complete=complete_subject, help=help
    )


def one(metavar: str = "KIND/NAME", *, required: bool = True) -> Callable[[C], C]:
    """The argument of a verb about one object: a Subject, or None where it may be absent."""
    return click.argument(
        "subject",
        metavar=metavar if required else f"[{metavar}]",
        nargs=-1,
        required=required,
        callback=read_one,
        shell_complete=complete_subject,
    )


def _one_or_release(
    context: click.Context, parameter: click.Parameter, words: tuple[str, ...]
) -> ObjectArgument | str | tuple[str, ...] | None:
    if len(words) == 1 and "/" not in words[0] and not context.resilient_parsing:
        return words[0]
    return read_one(context, parameter, words)


def one_or_release(*, required: bool = True) -> Callable[[C], C]:
    """The argument of a verb about one object or one release: one word without a slash is the name of a release."""
    metavar = "KIND/NAME|RELEASE"
    return click.argument(
        "subject",
        metavar=metavar if required else f"[{metavar}]",
        nargs=-1,
        required=required,
        callback=_one_or_release,
        shell_complete=complete_subject_or_release,
    )


def _several(context: click.Context, parameter: click.Parameter, words: tuple[str, ...]) -> object:
    if context.resilient_parsing:
        return words
    takes_all = any(param.name == "is_all" for param in context.command.params)
    return words if takes_all else ObjectSelection(_read(words, parameter, context))


def several(command: C) -> C:
    """The argument of a verb about one or more named objects: a Choice."""
    return click.argument(
        "choice",
        metavar="KIND/NAME...",
        nargs=-1,
        required=True,
        callback=_several,
        shell_complete=complete_subject,
    )(command)


def many(command: C) -> C:
    """The same with `--all` and selectors: the words, to be read by `chosen`."""
    command = click.option("-l", "--selector", "labels", default="", metavar="LABELS", help="Those with these labels.")(
        command
    )
    command = click.option("--all", "is_all", is_flag=True, help="All of the KIND in the namespace (-A: everywhere).")(
        command
    )
    return several(command)


def chosen(words: Sequence[str], *, is_all: bool, labels: str) -> ObjectSelection:
    """What the words mean together with `--all` and a selector. Raises UsageError."""
    if is_all or labels:
        if len(words) != 1 or "/" in words[0]:
            raise click.UsageError("--all and -l take a KIND and no names, for example: comp --all.")
        return ObjectSelection(kind=words[0], labels=labels)
    try:
        return ObjectSelection(parsed(words))
    except ValueError as error:
        raise click.UsageError(str(error)) from None
