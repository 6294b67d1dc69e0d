"""`stellwerk completion`, and what a shell is told when TAB is pressed.

Names come from the cluster, which may be slow or away: a completion that takes longer than a fifth of a second is worse
than none, so it is given that long and is silent about any failure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stellwerk.cli import kinds, settings

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from stellwerk.kube.names import Resource

BUDGET_SECONDS = 0.2
SHELLS = ("bash", "zsh", "fish", "powershell")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@settings.general
def command(shell: str) -> None:
    """Print the completion script for a shell.

    Load it in the shell's start file, for example: eval "$(stellwerk completion bash)"; in PowerShell's $PROFILE:
    stellwerk completion powershell | Out-String | Invoke-Expression
    """
    from click.shell_completion import get_completion_class

    from stellwerk.cli import powershell

    powershell.register()
    script = get_completion_class(shell)
    assert script is not None
    # Not `source()`: for bash that starts the bash of this machine, to warn about old versions.
    settled = script(click.Command("stellwerk"), {}, "stellwerk", "_STELLWERK_COMPLETE")
    settings.show_exactly(settled.source_template % settled.source_vars())


def complete_kind(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Short words of our kinds."""
    from click.shell_completion import CompletionItem

    words = [CompletionItem(row.short, help=row.resource.kind) for row in kinds.OWN]
    return [word for word in words if word.value.startswith(incomplete)]


def complete_name(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of objects of the kind that the line names already."""
    return _names(context, str(context.params.get("kind") or ""), "", incomplete)


def complete_subject(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """KIND/ first, then KIND/NAME."""
    from click.shell_completion import CompletionItem

    kind, slash, name = incomplete.partition("/")
    if slash:
        return _names(context, kind, f"{kind}/", name)
    return [CompletionItem(f"{row.short}/") for row in kinds.OWN if row.short.startswith(kind)]


def complete_release(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of releases, which are kept in ConfigMaps."""
    from stellwerk.kube.names import Resource

    prefix = "com.sap.cs.clm.release."
    kept = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True)
    found = _found(kept, settings.of(context), labels="release.clm.cs.sap.com")
    return _items("", [name.removeprefix(prefix) for name in found if name.startswith(prefix)], incomplete)


def complete_subject_or_release(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """KIND/ or a release, then KIND/NAME."""
    found = complete_subject(context, parameter, incomplete)
    return found if "/" in incomplete else [*found, *complete_release(context, parameter, incomplete)]


def _names(context: click.Context, kind: str, prefix: str, incomplete: str) -> list[CompletionItem]:
    resource = kinds.by_word(kind)
    return _items(prefix, _found(resource, settings.of(context)) if resource else [], incomplete)


def _found(resource: Resource, chosen: settings.Settings, labels: str = "") -> list[str]:
    try:
        from stellwerk.cli.lookup import names

        return names(resource, chosen, BUDGET_SECONDS, labels=labels)
    except Exception:  # whatever it is, a shell's prompt is no place to say it
        return []


def _items(prefix: str, names: list[str], incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(prefix + name) for name in names if name.startswith(incomplete)]
