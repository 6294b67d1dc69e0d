"""`stellwerk diff`: what the next reconcile of a Component or a BtpOperator would change.

Nothing is written, and neither the resource nor its operator need be in the cluster: what an operator would apply is
worked out here, and the API server is asked what would come of it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stellwerk.cli.arguments import object_argument as subjects
from stellwerk.cli.arguments import options
from stellwerk.cli.arguments.object_argument import ObjectArgument
from stellwerk.cli.shell import settings
from stellwerk.cli.shell.errors import Exit, Failure

if TYPE_CHECKING:
    from stellwerk.apply.objects.manifests import Document
    from stellwerk.cli.objects.cluster import ClusterSession
    from stellwerk.cli.releases.dry_run import Compared
    from stellwerk.operators.btp.api import BtpOperator
    from stellwerk.operators.btp.insight.preview import Preview
    from stellwerk.operators.component.api import Component


@click.command("diff")
@subjects.one(required=False)
@click.option(
    "-f",
    "--file",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    help="A Component or BtpOperator that is not there yet.",
)
@click.option(
    "--path",
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A Component's files, instead of its source. Of a BtpOperator: the module, or its chart, instead of ours.",
)
@click.option("--image", default="", help="Of a BtpOperator: the operand's image, instead of the one that runs.")
@options.all_of
def command(subject: ObjectArgument | None, file: Path | None, folder: Path | None, image: str) -> int:
    """Show what the next reconcile would change. Exits with 3 where something would.

    What others have changed is put back at the next reapply, and marked as such.
    """
    from stellwerk.cli.objects.cluster import carry_out

    if (subject is None) == (file is None):
        raise click.UsageError(
            "Name a Component or BtpOperator of the cluster (comp/NAME), or a file with -f; one of the two."
        )
    return carry_out(lambda cluster: _diff(cluster, subject, file, folder, image))


async def _diff(
    cluster: ClusterSession, subject: ObjectArgument | None, file: Path | None, folder: Path | None, image: str
) -> int:
    from stellwerk.cli.releases import dry_run
    from stellwerk.operators.btp.api import BtpOperator

    one, beside = await _asked(cluster, subject, file)
    if isinstance(one, BtpOperator):
        found, same = await _of_module(cluster, one, folder, image)
    elif image:
        raise click.UsageError("--image is for BtpOperators; the images of a Component are in its files.")
    else:
        found, same = await _of_component(cluster, one, beside, folder)
    found.warn()
    if cluster.settings.output.is_table:
        settings.show(dry_run.shown(found.lines, same, cluster.settings.style()))
    else:
        from stellwerk.cli.shell.output import print_value

        print_value(dry_run.as_json(found.lines, same), cluster.settings.output)
    return Exit.DIFFERENT if found.lines else Exit.DONE


async def _asked(
    cluster: ClusterSession, subject: ObjectArgument | None, file: Path | None
) -> tuple[Component | BtpOperator, tuple[Document, ...]]:
    """What is to be compared, and what lies beside it in the file."""
    from stellwerk.cli.objects import previews
    from stellwerk.operators.btp.api import BtpOperator
    from stellwerk.operators.component.api import Component

    if file is not None:
        return previews.one_in(file, cluster.namespace or "default", Component, BtpOperator)
    assert subject is not None
    return await previews.one_of(cluster, subject, Component, BtpOperator), ()


async def _of_component(
    cluster: ClusterSession, component: Component, beside: tuple[Document, ...], folder: Path | None
) -> tuple[Compared, int]:
    from stellwerk.apply.errors import ApplyError
    from stellwerk.apply.set.model.inventory_codec import read
    from stellwerk.cli.objects import previews
    from stellwerk.cli.releases import dry_run
    from stellwerk.operators.component.api import RECONCILER
    from stellwerk.operators.component.errors import ComponentFailed
    from stellwerk.operators.component.insight.preview import ComponentPreviewInput
    from stellwerk.render.errors import RenderError

    desk = ComponentPreviewInput(client=cluster.client, documents=beside, folder=previews.folder_of(folder))
    if component.spec.kube_config is not None:
        cause = "its objects go to the cluster of spec.kubeConfig, which is not looked at from here"
        raise Failure(f"cannot compare {component.ref}", cause=cause, fix="render it instead: stellwerk render -f FILE")
    async with previews.tools() as tools:
        try:
            offer, files = await desk.offered(component, tools.downloads)
            content, rendered = await desk.rendered(component, offer, files, tools.renderer)
            previews.warn(rendered)
            wanted = await desk.wanted(component, content, rendered)
        except (ComponentFailed, RenderError, ApplyError) as error:
            raise previews.failure(error, component) from None
    known = read(component.status.inventory)
    found = await dry_run.of_set(cluster.client, wanted, RECONCILER, known)
    return found, dry_run.unchanged(found.lines, wanted)


async def _of_module(
    cluster: ClusterSession, operator: BtpOperator, folder: Path | None, image: str
) -> tuple[Compared, int]:
    from stellwerk.cli.releases import dry_run
    from stellwerk.operators.btp.api import OPERATOR_NAME

    preview = await _module(cluster, operator, folder, image)
    found = await dry_run.compared(cluster.client, preview.desired, OPERATOR_NAME)
    told = {line.ref for line in found.lines}
    renewed = [
        dry_run.DiffLine("~", str(ref), f"will be made anew: {why}")
        for ref, why in preview.renewed.items()
        if str(ref) not in told
    ]
    leaving = [dry_run.DiffLine("-", str(ref), f"will be deleted: {why}") for ref, why in preview.leaving.items()]
    found = replace(found, lines=[*found.lines, *renewed, *leaving])
    return found, dry_run.unchanged(found.lines, preview.desired)


async def _module(cluster: ClusterSession, operator: BtpOperator, folder: Path | None, image: str) -> Preview:
    from stellwerk.apply.errors import ApplyError
    from stellwerk.cli.local.operators import played_module
    from stellwerk.cli.objects import previews
    from stellwerk.operators.btp.api import OPERATOR_NAME
    from stellwerk.operators.btp.errors import ModuleUnreadable, StepFailed
    from stellwerk.operators.btp.insight.preview import BtpPreviewInput, ImageUnknown, NothingToDo

    folder = folder or played_module(cluster.client.config.server)
    async with previews.tools() as tools:
        client = cluster.client.with_field_manager(OPERATOR_NAME)
        desk = BtpPreviewInput(client=client, renderer=tools.renderer, folder=folder, image=image)
        try:
            return await desk.preview(operator)
        except NothingToDo as error:
            fix = f"see why: stellwerk why btp/{operator.metadata.name} -n {operator.metadata.namespace}"
            raise Failure(f"nothing is applied for {operator.ref}", cause=str(error), fix=fix) from None
        except ImageUnknown as error:
            raise previews.failure(error, operator, fix="name it with --image") from None
        except ModuleUnreadable as error:
            raise previews.failure(error, operator, fix="name a folder with the module with --path") from None
        except (StepFailed, ApplyError) as error:
            raise previews.failure(error, operator) from None
