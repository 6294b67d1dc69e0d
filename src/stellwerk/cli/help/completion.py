"""`stellwerk completion`: the completion script for a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from stellwerk.cli.completion import powershell
from stellwerk.cli.shell import settings


def completion(shell: str) -> None:
    """Print the script. `shell` is a name that click or `powershell` knows."""
    powershell.register()
    script = get_completion_class(shell)
    assert script is not None
    # Not `source()`: for bash that starts the bash of this machine, to warn about old versions.
    completer = script(click.Command("stellwerk"), {}, "stellwerk", "_STELLWERK_COMPLETE")
    settings.show_exactly(completer.source_template % completer.source_vars())
