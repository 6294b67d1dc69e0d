"""The verbs for the local system, and for the installation of operators."""

from __future__ import annotations

import click

from stellwerk.cli.arguments import options
from stellwerk.cli.arguments.options import DRY_RUN, OPERATOR_NAMES
from stellwerk.cli.arguments.verb import verb


@verb("up", work="local.up:up")
@options.local_name("Which local system; several live side by side.")
@click.option(
    "--port",
    type=click.IntRange(1024, 65535),
    help="The API server's port; without it a free one is chosen and kept.",
)
@click.option("--samples", is_flag=True, help="Apply the samples too, and wait until all of them are Ready.")
@click.option("--bare", is_flag=True, help="The control plane alone, without our operators.")
@options.general
def up() -> None:
    """Start the local system, or find it running."""


@verb("down", work="local.down:down")
@options.local_name("Which local system.")
@click.option("--keep-data", is_flag=True, help="Stop it only; the next `up` goes on where it ended.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask whether the data may go.")
@options.general
def down() -> None:
    """Stop the local system and remove its data.

    It asks before data goes, unless --yes is given; without a terminal and without --yes it does nothing.
    """


@verb("install", work="local.install:install")
@OPERATOR_NAMES
@click.option("--image", default="", metavar="IMAGE", help="Start the operators with this image. Without: rights only.")
@options.values_files("Values of the chart, as YAML; may be given again, and the last one wins.")
@click.option("--print", "only_print", is_flag=True, help="Print the manifests; no cluster is asked.")
@DRY_RUN
@options.all_of
def install() -> None:
    """Install operators in a cluster: what the Helm chart renders, without Helm.

    Namespaces, CustomResourceDefinitions, service accounts and roles, of all operators if none is named; with --image
    also the Deployments and what belongs to them. Each operator gets its usual namespace; -n puts all of them in one.
    No account is cluster-admin unless the values ask for it. Returns when the API server serves the kinds.

    With --image, it also deletes what an earlier call has applied and the values of this one leave out. An operator
    that runs in another namespace, or that Helm has installed, is refused.
    """


@verb("uninstall", work="local.uninstall:uninstall")
@OPERATOR_NAMES
@click.option("--yes", "-y", is_flag=True, help="Do not ask whether the objects may go.")
@DRY_RUN
@options.all_of
def uninstall() -> None:
    """Delete what stellwerk install has applied for operators, of all operators if none is named.

    Webhooks, Deployments, accounts and roles go; the kinds, the objects of users and the namespaces stay. An object of
    the operators that is to go, too, must be deleted before: it has a finalizer that only the operator removes.
    """
