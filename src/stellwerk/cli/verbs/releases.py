"""The verbs for releases."""

from __future__ import annotations

from pathlib import Path

import click

from stellwerk.cli.arguments import options
from stellwerk.cli.arguments.options import DRY_RUN, C, Duration
from stellwerk.cli.arguments.verb import verb
from stellwerk.cli.completion.completers import complete_release

_NAME = click.argument("name", metavar="NAME", shell_complete=complete_release)
_SOURCES = click.argument(
    "sources", metavar="SOURCE...", nargs=-1, required=True, type=click.Path(allow_dash=True, path_type=Path)
)
_VALUES = options.values_files("Values, as YAML; may be given again, and the last one wins.")
_SET_VALUES = (
    click.option("--set", "words", multiple=True, metavar="KEY=VALUE,...", help="Values, as in Helm: a.b=1,c[0]=x."),
    click.option("--set-string", "strings", multiple=True, metavar="KEY=TEXT,...", help="The same, always as texts."),
    click.option("--set-file", "contents", multiple=True, metavar="KEY=PATH,...", help="The contents of files."),
    click.option("--set-json", "json", multiple=True, metavar="KEY=JSON,...", help="Values as JSON, or one object."),
)


def _set_values(command: C) -> C:
    """The options with single values."""
    for option in reversed(_SET_VALUES):
        command = option(command)
    return command


_DELETE_HOOKS = click.option(
    "--delete-hooks",
    type=click.Choice(["refuse", "skip"]),
    default="refuse",
    show_default=True,
    help="What becomes of a chart's hooks pre-delete and post-delete, and of the hook delete policy hook-failed: with "
    "skip the chart is taken without them. (A Component can run them: spec.deleteHooks.)",
)
_TIMEOUT = click.option(
    "--timeout", type=Duration(), default="0", show_default=True, help="How long to try; 0 for ever."
)


@verb("apply", work="releases.apply:apply")
@_NAME
@_SOURCES
@_VALUES
@_set_values
@_DELETE_HOOKS
@click.option("--create-namespace", is_flag=True, help="Create namespaces that are missing.")
@_TIMEOUT
@DRY_RUN
@options.all_of
def apply() -> None:
    """Bring charts, kustomizations and manifests into the cluster as one release, and return when it is ready."""


@verb("delete", work="releases.delete:delete")
@_NAME
@_TIMEOUT
@click.option("--yes", is_flag=True, help="Do not ask.")
@DRY_RUN
@options.all_of
def delete() -> None:
    """Take a release with all its objects out of the cluster, and return when they are gone."""


@verb("list", work="releases.list:list_releases")
@options.all_of
def list() -> None:
    """List releases with their state."""


@verb("template", work="releases.template:template")
@_NAME
@_SOURCES
@_VALUES
@_set_values
@_DELETE_HOOKS
@click.option("--offline", is_flag=True, help="Ask no cluster: whatever templates look up is not there.")
@click.option("--kube-version", metavar="VERSION", default="", help="The Kubernetes that charts see; with --offline.")
@click.option(
    "--api-versions",
    multiple=True,
    metavar="LIST",
    help="What it serves besides its own, as example.com/v1 or example.com/v1/Kind; with --offline.",
)
@options.all_of
def template() -> None:
    """Print the manifests of a release as its first revision would have them."""
