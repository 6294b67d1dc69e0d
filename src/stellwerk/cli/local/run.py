"""`stellwerk run`: one program in this process, until it ends."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, TypeVar

from stellwerk.cli.shell.errors import Failure
from stellwerk.delivery.operator_spec import CannotStart, ProcessSpec
from stellwerk.lazy_imports import lazy_imports
from stellwerk.render.errors import RendererMissing
from stellwerk.runtime.process import process
from stellwerk.runtime.process.leader import LeadershipLost
from stellwerk.runtime.serving.http import AddressInvalid, CannotListen
from stellwerk.runtime.settings.table import Rejection, SettingsTable

with lazy_imports(__name__):  # it needs modules that only Unix has
    from stellwerk.local.host import processes

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

S = TypeVar("S", bound="DataclassInstance")

_log = logging.getLogger(__name__)


def run(spec: ProcessSpec, flags: dict[str, object]) -> None:
    """Run a program until it ends. Raises Failure where the user can correct the cause of its end."""
    if sys.platform == "linux":
        processes.keep_lock_from_children()
    settings, rejections = _settings(spec.process(), flags)
    process.configure_logs(settings, tty=False)
    try:
        own, own_rejections = _settings(spec.settings(), flags)
        for rejection in (*rejections, *own_rejections):
            _log.warning("environment variable %s", rejection)
        launch = spec.start(settings, own, os.environ)
        _loop(process.run(settings, launch.identity, launch.install))
    except Exception as error:
        raise _failure(f"the {spec.title}", error) or error from None


def _settings(table: SettingsTable[S], flags: dict[str, object]) -> tuple[S, Sequence[Rejection]]:
    """The settings of flags and environment, and the variables that have no effect."""
    found = table.from_environment(os.environ)
    return table.from_flags(flags, found.settings), found.rejections


def _failure(operator: str, error: BaseException) -> Failure | None:
    """What the user can do about the end of an operator; None for a bug."""
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
            cause = "its lease was not renewed in time, so another process may lead already"
            return Failure(f"{operator} has stopped", cause=cause, fix="start it again: it then waits for the lease")
        case _:
            return None


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
