"""What the verbs for releases have in common: options, the release that is meant, and failures in four parts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from stellwerk.cli.arguments.options import Duration
from stellwerk.cli.completion.completers import complete_release
from stellwerk.cli.shell import settings, text
from stellwerk.cli.shell.errors import Exit, Failure

if TYPE_CHECKING:
    from stellwerk.apply.objects.manifests import Document
    from stellwerk.cli.objects.cluster import ClusterSession
    from stellwerk.cli.objects.health import ObjectHealth
    from stellwerk.cli.objects.object_summary import ObjectSummary
    from stellwerk.cli.shell.progress_line import Say
    from stellwerk.kube.client.client import Client
    from stellwerk.kube.types.identifiers import ObjectKey, ObjectRef
    from stellwerk.kube.types.model import JsonObject
    from stellwerk.releases.errors import TooLate
    from stellwerk.releases.release import Release
    from stellwerk.releases.release_runner import Engine
    from stellwerk.render.request.request import ClusterApis as Facts
    from stellwerk.render.worker.renderer import Renderer

NAME = click.argument("name", metavar="NAME", shell_complete=complete_release)
SOURCES = click.argument(
    "sources", metavar="SOURCE...", nargs=-1, required=True, type=click.Path(allow_dash=True, path_type=Path)
)
VALUES = click.option(
    "-f",
    "--values",
    "files",
    multiple=True,
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    help="Values, as YAML; may be given again, and the last one wins.",
)
DELETE_HOOKS = click.option(
    "--delete-hooks",
    type=click.Choice(["refuse", "skip"]),
    default="refuse",
    show_default=True,
    help="What becomes of a chart's hooks pre-delete and post-delete, and of the hook delete policy hook-failed: with "
    "skip the chart is taken without them. (A Component can run them: spec.deleteHooks.)",
)
TIMEOUT = click.option(
    "--timeout", type=Duration(), default="0", show_default=True, help="How long to try; 0 for ever."
)


def key_of(namespace: str | None, name: str) -> ObjectKey:
    """The release that is meant. Raises Failure for what cannot be a release's name."""
    from stellwerk.kube.types.identifiers import ObjectKey

    if "/" in name or not name:
        raise Failure(f"{name!r} is no name of a release", fix="name it without a slash", code=Exit.USAGE)
    return ObjectKey(namespace or "default", name)


def engine(cluster: ClusterSession, *, creates_namespaces: bool = False, report: Say = lambda words: None) -> Engine:
    """What works on releases. `report` gets how far it is."""
    from stellwerk.releases.release_runner import Engine
    from stellwerk.runtime.clock import SystemClock

    def tell(sentence: str) -> None:
        settings.say(text.escaped(sentence))

    return Engine(
        client=cluster.client, clock=SystemClock(), tell=tell, report=report, creates_namespaces=creates_namespaces
    )


async def documents(
    place: Client | Facts, release: Release, sources: Sequence[Path], files: Sequence[Path], delete_hooks: str
) -> tuple[Document, ...]:
    """The objects of a revision, in a cluster or in an assumed one. Raises RenderError, ReleaseError, ApiError."""
    from stellwerk.releases import sources as origins

    found, layers = origins.read(sources), origins.layers(files)
    async with _renderer() as renderer:
        return await origins.rendered(
            place,
            renderer,
            release,
            found,
            layers,
            farewells="omit" if delete_hooks == "skip" else "refuse",
            warn=lambda warning: settings.say(f"Warning: {text.escaped(warning)}"),
        )


@asynccontextmanager
async def _renderer() -> AsyncIterator[Renderer]:
    from stellwerk.render.binary import renderer_path
    from stellwerk.render.worker.renderer import Renderer

    async with Renderer(renderer_path) as renderer:
        yield renderer


async def found(cluster: ClusterSession, name: str, what: str) -> Release:
    """A release of the cluster. Raises Failure; `what` is what was tried: `explain`."""
    from stellwerk.releases.errors import NoSuchRelease
    from stellwerk.releases.release_store import ReleaseStore

    key = key_of(cluster.namespace, name)
    with explained(what, key):
        release = await ReleaseStore(cluster.client).find(key)
        if release is None:
            raise NoSuchRelease(key)
    return release


def ref_of(release: Release) -> ObjectRef:
    """The release as if it were an object."""
    from stellwerk.kube.types.identifiers import ObjectRef
    from stellwerk.releases.related_objects import KIND

    return ObjectRef(KIND, release.key)


def health_of(release: Release) -> ObjectHealth:
    """How the release is doing."""
    from stellwerk.cli.objects.health import ObjectHealth
    from stellwerk.releases.release import ReleaseState

    ready: Literal["True", "False"] = "True" if release.state == ReleaseState.Ready else "False"
    return ObjectHealth(ready, release.state, since=release.updated_at)


async def judged(cluster: ClusterSession, release: Release) -> ObjectSummary:
    """The release, and what keeps it from being ready."""
    from stellwerk.cli.objects.object_summary import ObjectSummary
    from stellwerk.releases import why
    from stellwerk.runtime.insight.diagnosis import ClusterReader

    diagnosis = await why.diagnose(ClusterReader(cluster.client), release, datetime.now(UTC))
    return ObjectSummary(ref_of(release), health_of(release), diagnosis)


@contextmanager
def explained(what: str, key: ObjectKey) -> Iterator[None]:
    """Failures of a release in four parts. `what` is what was tried: `apply`."""
    from stellwerk.apply.errors import ApplyError
    from stellwerk.kube.types.errors import NotFound
    from stellwerk.releases.errors import ReleaseError, TooLate
    from stellwerk.render.errors import RenderError, SourceError

    try:
        yield
    except ReleaseError as error:
        code = Exit.TIMEOUT if isinstance(error, TooLate) else Exit.FAILED
        raise _failure(what, key, str(error), error.fix, code) from None
    except NotFound as error:
        if error.status.details.kind != "namespaces":
            raise
        fix = "create the namespace, or have it created with --create-namespace"
        raise _failure(what, key, str(error), fix, Exit.FAILED) from None
    except (ApplyError, RenderError, SourceError) as error:
        raise _failure(what, key, str(error), "correct what the cause names, and run it again", Exit.FAILED) from None


async def too_late(cluster: ClusterSession, what: str, key: ObjectKey, error: TooLate) -> Failure:
    """The end of a run whose time is over, with the root cause and the next step as `stellwerk why` finds them."""
    from stellwerk.cli.objects import wait_result
    from stellwerk.releases import why
    from stellwerk.releases.release import Release
    from stellwerk.releases.release_store import ReleaseStore

    async def look() -> ObjectSummary:
        return await judged(cluster, await ReleaseStore(cluster.client).find(key) or Release(key=key))

    end = await wait_result.of(look())
    step = error.fix if end.next_step in ("", why.GOES_ON) else end.next_step
    fix = f"{step}\ndetails: stellwerk why {key.name} -n {key.namespace}"
    known = str(error)
    cause = f"{known}; root cause: {end.cause}" if end.cause and end.cause not in known else known
    return _failure(what, key, cause, fix, Exit.TIMEOUT)


def _failure(what: str, key: ObjectKey, cause: str, fix: str, code: Exit) -> Failure:
    return Failure(f"cannot {what} release {key}", cause=cause, fix=fix, subject=f"release {key}", code=code)


# ---- looks

COLUMNS = tuple(
    text.TableColumn(title)
    for title in ("NAMESPACE", "NAME", "REVISION", "STATE", "OBJECTS", "READY", "COMPLETED", "CREATED", "UPDATED")
)


def table(found: Sequence[Release], now: datetime | None = None) -> list[str]:
    """Releases for people."""
    moment = now or datetime.now(UTC)
    return text.table(COLUMNS, [_row(one, moment) for one in found])


def _row(one: Release, now: datetime) -> list[str]:
    counts = (one.objects, one.ready_objects, one.completed_objects)
    ages = (text.age(one.created_at, now), text.age(one.updated_at, now))
    return [one.key.namespace, one.key.name, str(one.revision), one.state, *map(str, counts), *ages]


def as_json(one: Release) -> JsonObject:
    """A release for programs, in the words of clm."""
    from stellwerk.kube.types.object_meta import rfc3339

    return {
        "namespace": one.key.namespace,
        "name": one.key.name,
        "revision": one.revision,
        "state": one.state,
        "numAllObjects": one.objects,
        "numReadyObjects": one.ready_objects,
        "numCompletedObjects": one.completed_objects,
        "createdAt": rfc3339(one.created_at),
        "lastUpdatedAt": rfc3339(one.updated_at),
    }
