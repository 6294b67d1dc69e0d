"""The verbs that show the state of a cluster and change nothing."""

from __future__ import annotations

from pathlib import Path

import click

from stellwerk.cli.arguments import object_argument, options
from stellwerk.cli.arguments.options import OPERATOR_NAMES, JsonPath
from stellwerk.cli.arguments.verb import VerbCommand, verb
from stellwerk.cli.completion.completers import complete_kind, complete_kind_or_name


@verb("check", work="look.check:check")
@OPERATOR_NAMES
@click.option("--pre", is_flag=True, help="Only what must be there before an operator starts: kinds and rights.")
@click.option("--no-objects", is_flag=True, help="Leave out the objects of users: only what was installed.")
@click.option(
    "--no-rights", is_flag=True, help="Leave out accounts and roles, where you grant rights by roles of your own."
)
@options.all_of
def check() -> None:
    """Check whether a cluster has what operators need, and whether they do their work.

    It checks Deployments, kinds, rights, leaders and objects: if no operator is named, of those that the cluster has,
    or of all where it has none. It recognizes installations by the Helm chart, by stellwerk install and by the
    originals. Exits with 3 where something needs attention, and with 1 where an operator cannot work.
    """


@verb("get", work="look.get:get")
@click.argument("words", metavar="[KIND[,KIND...] [NAME...]]", nargs=-1, shell_complete=complete_kind_or_name)
@click.option("--not-ready", is_flag=True, help="Only objects that are not ready, or not yet.")
@click.option("-l", "--selector", "labels", default="", metavar="LABELS", help="Only objects with these labels.")
@click.option("--field-selector", "fields", default="", metavar="FIELDS", help="Only objects with these fields.")
@click.option("--sort-by", type=JsonPath(), default=(), metavar="JSONPATH", help="Sort by this field.")
@click.option("--show-labels", is_flag=True, help="Show the labels in a column of their own.")
@click.option("-w", "--watch", is_flag=True, help="Go on and print every change.")
@options.all_of
def get() -> None:
    """List objects with their health.

    KIND is a short word (btp), or any kind of the cluster (deployments); several are separated by commas. Without
    KIND, every kind of ours is listed. NAME picks objects; KIND/NAME does too.
    """


@verb("status", work="look.status:status")
@object_argument.one_or_release(required=False)
@options.local_name("Which local system, when no object is named.")
@options.all_of
def status() -> None:
    """Show how one object or release is doing, all Kymas in figures, or the local system.

    A word without a slash is a release; `kyma` counts Kymas, modules and rollouts, unless a release has that name.
    Exits with 1 when it is not ready.
    """


@verb("why", work="look.why:why")
@object_argument.one_or_release(required=False)
@options.all_of
def why() -> None:
    """Show why an object is not ready, down to the root cause.

    A word without a slash is a release. Without an object, all objects of ours that need attention are explained,
    but those that another one names as its cause. Exits with 0 whatever it explains; `status` exits with 1 where an
    object is not ready.
    """


@verb("tree", work="look.tree:tree")
@object_argument.one_or_release()
@click.option("--compact", is_flag=True, help="Show ready objects as counts.")
@click.option("--depth", type=click.IntRange(min=0), metavar="N", help="Show so many levels below the object.")
@options.all_of
def tree() -> None:
    """Show the owned and managed objects of an object with their health.

    A word without a slash is a release.
    """


@verb("trace", work="look.trace:trace")
@object_argument.one()
@options.all_of
def trace() -> None:
    """Follow any object back to its custom resource, source and last apply.

    Exits with 1 when it leads to none of ours.
    """


@verb("diff", work="look.diff:diff")
@object_argument.one(required=False)
@click.option(
    "-f",
    "--file",
    type=options.FILE,
    help="A file with an object that is not in the cluster yet.",
)
@click.option(
    "--path",
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A Component's files, instead of its source. Of a BtpOperator: the module, or its chart, instead of ours.",
)
@click.option("--image", default="", help="Of a BtpOperator: the operand's image, instead of the one that runs.")
@options.all_of
def diff() -> None:
    """Show what the next reconcile would change. Exits with 3 where something would.

    What others have changed is put back at the next reapply, and marked as such. `stellwerk reconcile --force`
    puts it back now.
    """


@verb("render", work="look.render:render")
@click.option(
    "-f",
    "--file",
    required=True,
    type=options.FILE,
    help="The Component, with the Secrets and ConfigMaps that it refers to.",
)
@click.option(
    "--path",
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The files of its source; else they are downloaded, which only httpRepository allows without a cluster.",
)
@options.all_of
def render() -> None:
    """Print the manifests of a Component, without a cluster."""


@verb("values", work="look.values:values")
@object_argument.one("comp/NAME")
@options.all_of
def values() -> None:
    """Show the merged values of a Component and their origin, Secrets masked.

    The defaults of a chart and its subcharts are among them. -o yaml prints the values as a values file of Helm.
    """


@verb("events", work="look.events:events")
@object_argument.for_object("Only of this object.")
@click.option("-w", "--watch", is_flag=True, help="Go on and print new ones as they come.")
@options.all_of
def events() -> None:
    """List Events, newest last."""


@verb("logs", work="look.logs:logs")
@object_argument.for_object("Only lines about this object.")
@click.option(
    "--level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="Only from this level on.",
)
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="The last N lines of each operator.")
@click.option("-f", "--follow", is_flag=True, help="Go on and print new lines as they come.")
@options.all_of
def logs() -> None:
    """Print what the operators logged.

    The lines of all processes are in the order of their times, each with the name of its process or pod.
    """


@verb("stats", work="look.stats:stats")
@options.all_of
def stats() -> None:
    """Count objects by state, and show what the operators have done and have yet to do.

    Passes and errors are those since the process began; MEAN is the time of a pass, QUEUED the objects that wait.
    """


@verb("bundle", work="look.bundle:bundle")
@click.option(
    "--file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write it; by default stellwerk-bundle-DATE-TIME.tar.gz in the current folder.",
)
@click.option(
    "--tail", type=click.IntRange(min=0), default=5000, show_default=True, help="How many lines of each log, the last."
)
@options.all_of
def bundle() -> None:
    """Write an archive for support: states, Events, logs, metrics, versions and check, without secrets.

    Values, variables, patches and what has the form of a credential are masked, and no Secret is read. What you may
    not read is left out, and summary.txt names it. With -n only objects and Events of this namespace are in it.
    """


@verb("export", work="look.export:export")
@click.argument("kind", default="", shell_complete=complete_kind)
@options.all_of
def export() -> None:
    """Print custom resources without what belongs to this cluster, ready to be applied again.

    Without KIND, those of every kind of ours that users write. What an operator makes is not among them, such as
    operations on tenants; neither are the Secrets that the resources refer to.
    """


@click.group("instance")
@options.general
def instance() -> None:
    """Look at service instances and bindings."""


@instance.command("list", cls=VerbCommand, work="look.instance:list_instances")
@click.option("--not-ready", is_flag=True, help="Only those that are not ready, or not yet.")
@options.all_of
def list_instances() -> None:
    """List service instances and service bindings with their health."""
