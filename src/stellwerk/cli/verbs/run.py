"""`stellwerk run OPERATOR`: one operator in the foreground, as a container runs it.

The flags are those of the Go original, in both spellings of Go's flag package, so that a Deployment of the original
starts ours with its arguments unchanged.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import click

from stellwerk.assembly import OPERATORS
from stellwerk.cli.arguments import options
from stellwerk.cli.shell.errors import Failure
from stellwerk.runtime.settings.process_settings import PROCESS
from stellwerk.runtime.settings.table import from_go

if TYPE_CHECKING:
    from stellwerk.delivery.operator_spec import OperatorSpec


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


def _run(operator: OperatorSpec, flags: dict[str, object]) -> None:
    """Run an operator until it ends. Raises Failure where the user can correct the cause of its end."""
    from stellwerk.runtime.process import process

    settings = PROCESS.from_flags(flags)
    process.configure_logs(settings, tty=False)
    try:
        launch = operator.start(settings, operator.settings().from_flags(flags), os.environ)
        _loop(process.run(settings, launch.identity, launch.install))
    except Exception as error:
        raise _failure(f"the {operator.title}", error) or error from None


def _failure(operator: str, error: BaseException) -> Failure | None:
    """What the user can do about the end of an operator; None for a bug."""
    from stellwerk.delivery.operator_spec import CannotStart
    from stellwerk.render.errors import RendererMissing
    from stellwerk.runtime.process.leader import LeadershipLost
    from stellwerk.runtime.serving.http import AddressInvalid, CannotListen

    match error:
        case BaseExceptionGroup(exceptions=[only]):
            return _failure(operator, only)
        case RendererMissing():
            return Failure(f"cannot start {operator}", cause=str(error), fix="make control-plane, or a wheel with it")
        case CannotStart(fix=fix):
            return Failure(f"cannot start {operator}", cause=str(error), fix=fix)
        case CannotListen() | AddressInvalid():
            return Failure(f"cannot start {operator}", cause=str(error), fix="choose another address, or 0 for none")
        case LeadershipLost():
            cause = "its lease was not renewed in time, so another process may lead by now"
            return Failure(f"{operator} has stopped", cause=cause, fix="start it again: it then waits for the lease")
        case _:
            return None


def _command(operator: OperatorSpec) -> GoCommand:
    table = operator.settings()
    kinds = " and ".join(kind.resource.kind for kind in operator.kinds)
    return GoCommand(
        operator.name,
        lambda arguments: from_go(arguments, (PROCESS, table)),
        params=[*PROCESS.options(), *table.options()],
        callback=lambda **flags: _run(operator, flags),
        help=f"Run the {operator.title}: {kinds}.",
    )


for _operator in OPERATORS.values():
    command.add_command(_command(_operator))


def _loop(main: Coroutine[None, None, None]) -> None:
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
