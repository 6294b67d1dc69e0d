"""`stellwerk run OPERATOR`: one operator in the foreground, as a container runs it.

The flags are those of the Go original, in both spellings of Go's flag package, so that a Deployment of the original
starts ours with its arguments unchanged.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeAlias

import click

from stellwerk.cli.arguments import options
from stellwerk.cli.shell.errors import Failure
from stellwerk.operators.btp import flags as btp
from stellwerk.operators.component import flags as component
from stellwerk.runtime.settings import process_flags
from stellwerk.runtime.settings.settings import ProcessSettings

Main: TypeAlias = Coroutine[None, None, None]


class GoCommand(click.Command):
    """A command that also takes `-chart-path=x` and `--leader-elect=false`."""

    def __init__(self, name: str, normalised: Callable[[list[str]], list[str]], **attributes: Any) -> None:
        """`normalised` brings Go's spellings into click's."""
        super().__init__(name, **attributes)
        self._normalised = normalised

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Bring Go's spellings into click's before parsing."""
        return super().parse_args(ctx, self._normalised(args))


@click.group("run")
@options.general
def command() -> None:
    """Run an operator in the foreground."""


def _run_btp(**flags: object) -> None:
    from stellwerk.assembly import run_btp

    _run("the BTP Manager", flags, lambda process: run_btp(process, btp.from_flags(flags), os.environ))


def _run_component(**flags: object) -> None:
    from stellwerk.assembly import run_component

    _run("the Component operator", flags, lambda process: run_component(process, component.from_flags(flags)))


def _run(operator: str, flags: Mapping[str, object], start: Callable[[ProcessSettings], Main]) -> None:
    """Run an operator until it ends; an end that a person can mend is told as a failure of the command."""
    from stellwerk.runtime.process.process import configure_logs

    process = process_flags.from_flags(flags)
    configure_logs(process, tty=False)
    try:
        _loop(start(process))
    except Exception as error:
        raise _failure(operator, error) or error from None


def _failure(operator: str, error: BaseException) -> Failure | None:
    """What a person can do about the end of an operator; None for a fault of our own."""
    from stellwerk.operators.btp.operator import MissingImage
    from stellwerk.render.errors import RendererMissing
    from stellwerk.runtime.process.leader import LeadershipLost
    from stellwerk.runtime.serving.http import AddressInvalid, CannotListen

    match error:
        case BaseExceptionGroup(exceptions=[only]):
            return _failure(operator, only)
        case RendererMissing():
            return Failure(f"cannot start {operator}", cause=str(error), fix="make control-plane, or a wheel with it")
        case MissingImage():
            fix = "set it to the image that the operand's Deployment shall run"
            return Failure(f"cannot start {operator}", cause=str(error), fix=fix)
        case CannotListen() | AddressInvalid():
            return Failure(f"cannot start {operator}", cause=str(error), fix="choose another address, or 0 for none")
        case LeadershipLost():
            cause = "its lease was not renewed in time, so another process may lead by now"
            return Failure(f"{operator} has stopped", cause=cause, fix="start it again: it then waits for the lease")
        case _:
            return None


command.add_command(
    GoCommand(
        "btp",
        btp.normalised_arguments,
        params=[*process_flags.options(), *btp.options()],
        callback=_run_btp,
        help="Run the BTP Manager: the kind BtpOperator.",
    )
)

command.add_command(
    GoCommand(
        "component",
        component.normalised_arguments,
        params=[*process_flags.options(), *component.options()],
        callback=_run_component,
        help="Run the Component operator: the kinds Component and Blueprint.",
    )
)


def _loop(main: Main) -> None:
    """Run on uvloop where it is installed: about a fifth less CPU per call."""
    if sys.platform != "win32":
        try:
            import uvloop
        except ImportError:
            pass
        else:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(main)
            return
    asyncio.run(main)
