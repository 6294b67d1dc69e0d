"""The verbs that operators add, made from their declarations (`delivery.operator_verbs`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from stellwerk.assembly import OPERATORS
from stellwerk.cli.arguments import options
from stellwerk.cli.arguments.options import DRY_RUN, TIMEOUT
from stellwerk.cli.completion.completers import Completer, complete_objects, complete_offered
from stellwerk.delivery.operator_verbs import OperatorVerb, OperatorVerbs, VerbArgument, VerbOption
from stellwerk.lazy_imports import lazy_imports

with lazy_imports(__name__):
    from stellwerk.cli.act import operator_verbs

GROUPS = {verbs.name: verbs for operator in OPERATORS.values() if (verbs := operator.verbs) is not None}
"""The groups of verbs by their word."""


class OperatorCommand(click.Command):
    """A verb of an operator. Its work is imported when it is called."""

    def __init__(self, name: str | None, *, verb: OperatorVerb, path: str, **attributes: Any) -> None:
        """`path` is what precedes the arguments on the command line: `cap upgrade`."""
        super().__init__(name, **attributes)
        self.verb, self.path = verb, path

    def invoke(self, ctx: click.Context) -> object:
        """Do the work. Raises Failure, and NotReady where what was waited for has failed."""
        given = {**ctx.params}
        dry_run = given.pop("dry_run", False)
        how = operator_verbs.Manner(
            wait=given.pop("wait", False) and not dry_run,
            timeout_seconds=given.pop("timeout", 0.0),
            dry_run=dry_run,
            yes=given.pop("yes", False),
        )
        return ctx.invoke(operator_verbs.carry_out, verb=self.verb, path=self.path, given=given, how=how)


def group(name: str) -> click.Group:
    """The group of an operator's verbs."""
    declared: OperatorVerbs = GROUPS[name]

    @click.group(name, help=declared.summary)
    @options.general
    def made() -> None: ...

    for verb in declared.verbs:
        made.add_command(_command(verb, f"{name} {verb.name}"))
    return made


def _command(verb: OperatorVerb, path: str) -> click.Command:
    def body() -> None: ...

    decorators: list[Callable[[Any], Any]] = [options.all_of]
    if not verb.only_shows:
        waiting = click.option("--wait", is_flag=True, help="Return when it is done, or has failed.")
        decorators += [DRY_RUN, TIMEOUT, waiting]
    if verb.is_destructive:
        decorators.append(click.option("--yes", is_flag=True, help="Do not ask."))
    decorators += [_option(option) for option in reversed(verb.options)]
    decorators += [_argument(argument) for argument in reversed(verb.arguments)]
    for decorate in decorators:
        body = decorate(body)
    return click.command(verb.name, cls=OperatorCommand, verb=verb, path=path, help=verb.help)(body)


def _option(declared: VerbOption) -> Any:
    if declared.metavar:
        return click.option(
            declared.flag,
            declared.key,
            default="",
            metavar=declared.metavar,
            help=declared.help,
            type=click.Choice(["", *declared.values], case_sensitive=False) if declared.values else str,
            shell_complete=complete_offered(declared.offered) if declared.offered else None,
        )
    return click.option(declared.flag, declared.key, is_flag=True, help=declared.help)


def _argument(declared: VerbArgument) -> Any:
    word = f"{declared.name}..." if declared.many else declared.name
    return click.argument(
        declared.key,
        metavar=word if declared.required else f"[{word}]",
        nargs=-1 if declared.many else 1,
        required=declared.required,
        shell_complete=_completer(declared),
    )


def _completer(declared: VerbArgument) -> Completer | None:
    if declared.offered is not None:
        return complete_offered(declared.offered)
    return complete_objects(declared.kinds) if declared.kinds else None
