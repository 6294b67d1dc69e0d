"""The tree of verbs. The module that declares a verb is imported when the verb is used.

Help prints from this table and imports no declaration, because `--help` has to be quick; a test compares the table
with the declarations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module

import click
from click.shell_completion import CompletionItem

from stellwerk.assembly import OPERATORS
from stellwerk.cli.arguments import options
from stellwerk.cli.shell.own_version import own_version
from stellwerk.lazy_imports import lazy_imports

with lazy_imports(__name__):
    from stellwerk.cli.verbs import operators

_MODULES = {"Local system": "local", "Look": "look", "Act": "act", "Releases": "releases", "Help": "help"}
"""The modules below `verbs` that declare the verbs of a group of the help page."""


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb before it is loaded: its line in help, and the module that declares it."""

    summary: str
    group: str
    module: str = ""
    """Set where it is not the one of the group; its attribute is then `command`."""

    def load(self, name: str) -> click.Command:
        """The declaration of the verb. Its work is imported when it is called."""
        if self.group == _OF_OPERATORS:
            return operators.group(name)
        module = import_module(f"stellwerk.cli.verbs.{self.module or _MODULES[self.group]}")
        command = getattr(module, "command" if self.module else name)
        assert isinstance(command, click.Command)
        return command


_OF_OPERATORS = "Operators"

VERBS: Mapping[str, Verb] = {
    "up": Verb("Start the local system, or find it running.", "Local system"),
    "down": Verb("Stop the local system and remove its data.", "Local system"),
    "run": Verb("Run an operator, or one of its servers, in the foreground.", "Local system", "run"),
    "install": Verb("Install operators in a cluster: what the Helm chart renders, without Helm.", "Local system"),
    "uninstall": Verb(
        "Delete what stellwerk install has applied for operators, of all operators if none is named.", "Local system"
    ),
    "check": Verb("Check whether a cluster has what operators need, and whether they do their work.", "Look"),
    "get": Verb("List objects with their health.", "Look"),
    "status": Verb("Show how one object or release is doing, all Kymas in figures, or the local system.", "Look"),
    "why": Verb("Show why an object is not ready, down to the root cause.", "Look"),
    "tree": Verb("Show the owned and managed objects of an object with their health.", "Look"),
    "trace": Verb("Follow any object back to its custom resource, source and last apply.", "Look"),
    "diff": Verb("Show what the next reconcile would change.", "Look"),
    "render": Verb("Print the manifests of a Component, without a cluster.", "Look"),
    "values": Verb("Show the merged values of a Component and their origin, Secrets masked.", "Look"),
    "events": Verb("List Events, newest last.", "Look"),
    "logs": Verb("Print what the operators logged.", "Look"),
    "stats": Verb("Count objects by state, and show what the operators have done and have yet to do.", "Look"),
    "bundle": Verb(
        "Write an archive for support: states, Events, logs, metrics, versions and check, without secrets.", "Look"
    ),
    "export": Verb("Print custom resources without what belongs to this cluster, ready to be applied again.", "Look"),
    "instance": Verb("Look at service instances and bindings.", "Look"),
    "reconcile": Verb("Reconcile an object now.", "Act"),
    "suspend": Verb("Suspend the reconciliation of an object until it is resumed.", "Act"),
    "resume": Verb("Resume the reconciliation of a suspended object.", "Act"),
    "wait": Verb("Return when objects are ready, gone, or show a condition or a value.", "Act"),
    "adopt": Verb(
        "Take over what the original of an operator looks after: show what would change, and stop the original.", "Act"
    ),
    "unstick": Verb("Explain what blocks the deletion of an object, and force it if that is wanted.", "Act"),
    "apply": Verb(
        "Bring charts, kustomizations and manifests into the cluster as one release, and return when it is ready.",
        "Releases",
    ),
    "delete": Verb(
        "Take a release with all its objects out of the cluster, and return when they are gone.", "Releases"
    ),
    "list": Verb("List releases with their state.", "Releases"),
    "template": Verb("Print the manifests of a release as its first revision would have them.", "Releases"),
    **{
        operator.verbs.name: Verb(operator.verbs.summary, _OF_OPERATORS)
        for operator in OPERATORS.values()
        if operator.verbs is not None
    },
    "explain": Verb("Explain a topic, or a reason: meaning, causes, how to check and fix.", "Help"),
    "version": Verb("Print the versions of stellwerk and of the cluster.", "Help"),
    "completion": Verb("Print the completion script for a shell.", "Help"),
}


ALIASES: Mapping[str, str] = {"ls": "list"}
"""Words of `clm` that are short for verbs."""


class VerbGroup(click.Group):
    """Loads verbs when they are asked for, and guesses what a mistyped one was meant to be."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All verbs, in the order of help."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A verb by name."""
        name = ALIASES.get(cmd_name, cmd_name)
        return VERBS[name].load(name) if name in VERBS else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The verb that the arguments begin with. Raises UsageError with the nearest verbs."""
        if args and args[0] not in {*VERBS, *ALIASES} and not args[0].startswith("-"):
            raise click.UsageError(f"There is no verb {args[0]!r}.{_guess(args[0])}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The verbs by group, from the table alone."""
        for group in dict.fromkeys(verb.group for verb in VERBS.values()):
            with formatter.section(group):
                rows = [(name, verb.summary) for name, verb in VERBS.items() if verb.group == group]
                formatter.write_dl(rows, col_max=14)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Verbs that begin so, without loading them."""
        verbs = [CompletionItem(name, help=verb.summary) for name, verb in VERBS.items() if name.startswith(incomplete)]
        return verbs or click.Command.shell_complete(self, ctx, incomplete)


def _guess(word: str) -> str:
    near = get_close_matches(word, VERBS, n=2, cutoff=0.6)
    return f" Did you mean {' or '.join(near)}?" if near else ""


def _short_words() -> str:
    return ", ".join(kind.short for operator in OPERATORS.values() for kind in operator.kinds if kind.short)


def _print_version(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        click.echo(f"stellwerk {own_version()}")
        context.exit()


@click.command(
    "stellwerk",
    cls=VerbGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog=f"Kinds have short words: {_short_words()}. The exit code is 0 when done, 1 when it failed or is not ready, "
    "2 for wrong usage, 3 when diff or check found something, 4 for a timeout, 5 when not permitted, 130 when "
    "interrupted.",
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Print the version."
)
@options.all_of
def command() -> None:
    """Look at and run the operators of the SAP BTP and Kyma world."""
