"""The verbs about stellwerk itself."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from stellwerk.cli.arguments import options
from stellwerk.cli.arguments.verb import verb
from stellwerk.lazy_imports import lazy_imports

with lazy_imports(__name__):
    from stellwerk.cli.help import explain as texts


def _complete_word(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Topics and reasons that begin so, whatever the case."""
    words = texts.words()
    return [CompletionItem(word, help=kind) for word, kind in words if word.lower().startswith(incomplete.lower())]


@verb("explain", work="help.explain:explain")
@click.argument("word", metavar="[TOPIC|REASON]", required=False, default="", shell_complete=_complete_word)
@options.general
def explain() -> None:
    """Explain a topic, or a reason: meaning, causes, how to check and fix.

    A reason is the word that a condition or an Event shows, such as MissingSecret; a topic is a subject such as
    credentials. Case does not matter. A message of a status, in quotes, is answered with its reason. Without a word,
    all of them are listed.
    """


@verb("version", work="help.version:print_versions")
@click.option("--client", is_flag=True, help="Do not ask the cluster.")
@options.all_of
def version() -> None:
    """Print the versions of stellwerk and of the cluster."""


@verb("completion", work="help.completion:completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish", "powershell"]))
@options.general
def completion() -> None:
    """Print the completion script for a shell.

    Load it in the shell's start file, for example: eval "$(stellwerk completion bash)"; in PowerShell's $PROFILE:
    stellwerk completion powershell | Out-String | Invoke-Expression
    """
