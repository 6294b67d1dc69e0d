"""`stellwerk completion`: the completion script for a shell."""

from __future__ import annotations

import click

from stellwerk.cli.arguments import options
from stellwerk.cli.shell import settings

SHELLS = ("bash", "zsh", "fish", "powershell")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@options.general
def command(shell: str) -> None:
    """Print the completion script for a shell.

    Load it in the shell's start file, for example: eval "$(stellwerk completion bash)"; in PowerShell's $PROFILE:
    stellwerk completion powershell | Out-String | Invoke-Expression
    """
    from click.shell_completion import get_completion_class

    from stellwerk.cli.completion import powershell

    powershell.register()
    script = get_completion_class(shell)
    assert script is not None
    # Not `source()`: for bash that starts the bash of this machine, to warn about old versions.
    settled = script(click.Command("stellwerk"), {}, "stellwerk", "_STELLWERK_COMPLETE")
    settings.show_exactly(settled.source_template % settled.source_vars())
