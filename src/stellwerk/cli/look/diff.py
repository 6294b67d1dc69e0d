"""`stellwerk diff`: what the next reconcile of an object would change.

Nothing is written, and neither the object nor its operator need to be in the cluster: its operator's code computes here
what it would apply, and dry runs of the API server show the result.
"""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from stellwerk.apply.errors import Obstacle
from stellwerk.apply.failures import failure_of
from stellwerk.apply.objects import json_edit
from stellwerk.apply.objects.desired import Address
from stellwerk.apply.objects.manifests import Document
from stellwerk.cli import kinds
from stellwerk.cli.arguments.object_argument import ObjectArgument
from stellwerk.cli.objects import object_actions, previews
from stellwerk.cli.objects.cluster import ClusterSession, with_cluster
from stellwerk.cli.releases import dry_run
from stellwerk.cli.shell import settings
from stellwerk.cli.shell.errors import Exit, Failure
from stellwerk.cli.shell.output import print_result
from stellwerk.delivery.insight import Preview, Previewer, PreviewFailed, PreviewRequest
from stellwerk.kube.types.errors import ApiError
from stellwerk.kube.types.model import JsonObject, Kind, Unstructured, to_json_object, unstructured


def diff(subject: ObjectArgument | None, file: Path | None, folder: Path | None, image: str) -> int:
    """Print the difference. Returns the exit code; raises Failure where it cannot be computed."""
    if (subject is None) == (file is None):
        raise click.UsageError("Name an object of the cluster (comp/NAME), or a file with -f; one of the two.")
    return _diff(subject, file, folder, image)


@with_cluster
async def _diff(
    cluster: ClusterSession, subject: ObjectArgument | None, file: Path | None, folder: Path | None, image: str
) -> int:
    previewer, obj, documents = await _asked(cluster, subject, file)
    if image and not previewer.accepts_image:
        kind = obj.resource.kind
        raise click.UsageError(f"--image is not for a {kind}: the images of a {kind} are in its files.")
    async with previews.requested(cluster, documents=documents, folder=folder, image=image) as request:
        preview = await _preview(previewer, obj, request)
        previews.warn(preview.warnings)
        compared, unchanged = await dry_run.of_preview(cluster.client, preview)
    compared.warn()
    lines = compared.lines
    print_result(lambda style: dry_run.shown(lines, unchanged, style), lambda: dry_run.as_json(lines, unchanged))
    if file is None and any(line.waits for line in lines):
        settings.say(object_actions.put_back_now(Unstructured.of(to_json_object(obj))))
    return dry_run.exit_code(lines)


async def _asked(
    cluster: ClusterSession, subject: ObjectArgument | None, file: Path | None
) -> tuple[Previewer, Kind, tuple[Document, ...]]:
    """The object to compare, its previewer, and the other objects of its file. Raises Failure."""
    if file is not None:
        document, others = previews.the_only(file, [row.resource.kind for row in kinds.OWN])
        previewer = object_actions.action(Unstructured.of(document.body), lambda of: of.previewer, "compared")()
        obj = previews.converted(document, previewer.kind, file, cluster.namespace or "default")
        _check_namespace(obj, cluster.settings.namespace)
        await _check_accepted(cluster, obj, document)
        return previewer, obj, others
    assert subject is not None
    live = await cluster.object(subject)
    previewer = object_actions.action(live, lambda of: of.previewer, "compared")()
    return previewer, msgspec.convert(live.body, previewer.kind), ()


def _check_namespace(obj: Kind, namespace: str | None) -> None:
    """Raises Failure where the file names another namespace than the call, as kubectl does."""
    own = obj.metadata.namespace
    if obj.resource.namespaced and namespace and own != namespace:
        raise Failure(
            f"{obj.ref} is not of namespace {namespace}",
            cause=f"the file has the namespace {own}, and the call another one",
            fix=f"leave out -n, or use -n {own}",
            subject=str(obj.ref),
            code=Exit.USAGE,
        )


async def _check_accepted(cluster: ClusterSession, obj: Kind, document: Document) -> None:
    """Have the API server check the object of a file by a dry run. Raises Failure where it refuses the object.

    Nothing is applied for an object that is refused. What the cluster lacks so far, and what the user may not do, does
    not keep the rest from being compared.
    """
    address = Address(obj.resource, obj.key)
    placed: JsonObject = {"namespace": obj.metadata.namespace} if obj.resource.namespaced else {}
    body = json_edit.merged(document.body, placed, "metadata")
    try:
        await cluster.client.apply(unstructured(obj.resource), body, dry_run=True)
    except ApiError as error:
        failure = failure_of(address, "apply", error)
        if failure.obstacle in (Obstacle.INVALID, Obstacle.WEBHOOK_REFUSED, Obstacle.REFUSED):
            cause, fix = failure.cause, failure.fix or "correct what the cause names"
            raise Failure(f"the API server refuses {obj.ref}", cause=cause, fix=fix, subject=str(obj.ref)) from None
        if failure.obstacle is Obstacle.FORBIDDEN:
            previews.warn([f"whether the API server accepts {obj.ref} is not known: {failure.cause}"])


async def _preview(previewer: Previewer, obj: Kind, request: PreviewRequest) -> Preview:
    try:
        return await previewer.preview(obj, request)
    except PreviewFailed as error:
        head = f"nothing is applied for {obj.ref}" if error.nothing_to_do else f"cannot work out {obj.ref}"
        raise Failure(head, cause=str(error), fix=error.fix, subject=str(obj.ref)) from None
