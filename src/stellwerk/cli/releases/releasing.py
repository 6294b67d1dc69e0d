"""What verbs about releases share: the release that the user names, its failures, and how it is printed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Literal

from stellwerk.apply.errors import ApplyError, Obstacle, WriteFailed
from stellwerk.apply.objects.name_validation import is_subdomain
from stellwerk.cli import kinds
from stellwerk.cli.objects import wait_result
from stellwerk.cli.objects.cluster import ClusterSession, ambiguous
from stellwerk.cli.objects.health import ObjectHealth
from stellwerk.cli.objects.object_summary import ObjectSummary
from stellwerk.cli.shell import settings, text
from stellwerk.cli.shell.errors import Exit, Failure
from stellwerk.kube.types.errors import NotFound
from stellwerk.kube.types.identifiers import ObjectKey, ObjectRef
from stellwerk.kube.types.model import JsonObject
from stellwerk.kube.types.object_meta import rfc3339
from stellwerk.releases import why
from stellwerk.releases.errors import NoSuchRelease, ReleaseError, TooLate
from stellwerk.releases.related_objects import KIND
from stellwerk.releases.release import Release, ReleaseState
from stellwerk.releases.release_store import ReleaseStore
from stellwerk.render.errors import RenderError, SourceError
from stellwerk.runtime.insight.diagnosis import ClusterReader


def key_of(namespace: str | None, name: str) -> ObjectKey:
    """The release that is meant. Raises Failure for what cannot be a release's name, and for all namespaces."""
    _check_name(name)
    if namespace == "":
        raise Failure(
            f"release {name} is in one namespace, not in all of them",
            fix="name the namespace instead of -A: -n NAMESPACE",
            code=Exit.USAGE,
        )
    return ObjectKey(namespace or "default", name)


def _check_name(name: str) -> None:
    if len(name) > _LONGEST_NAME or not is_subdomain(name):
        raise Failure(
            f"{name!r} is no name of a release",
            cause=f"it must be at most {_LONGEST_NAME} lower case letters, digits, hyphens and dots, and begin and end "
            "with a letter or digit",
            fix="use another name; an object, not a release, is named KIND/NAME",
            code=Exit.USAGE,
        )


_LONGEST_NAME = 63
"""Of a label's value, which the name of a release is on its ConfigMap."""


async def found(cluster: ClusterSession, name: str, what: str) -> Release:
    """A release of the cluster, with `-A` of any namespace. Raises Failure; `what` is what was tried: `explain`."""
    _check_name(name)
    key = ObjectKey(cluster.namespace, name)
    with explained(what, key):
        releases = await _named(cluster, key)
    if not releases and kinds.by_word(name) is not None:
        raise Failure(
            f"{name} is a kind, and no object is named",
            cause=f"a word without a slash is the name of a release, and there is no release {name}",
            fix=f"name an object: {name}/NAME; see what is there: stellwerk get {name} -A",
            code=Exit.USAGE,
        )
    with explained(what, key):
        return only(key, releases)


async def _named(cluster: ClusterSession, key: ObjectKey) -> Sequence[Release]:
    store = ReleaseStore(cluster.client)
    if key.namespace:
        release = await store.find(key)
        return [release] if release is not None else []
    listing = await store.all()
    for problem in listing.problems:
        settings.say(text.escaped(problem))
    return [release for release in listing.releases if release.key.name == key.name]


def only(key: ObjectKey, releases: Sequence[Release]) -> Release:
    """The one release of this name. Raises NoSuchRelease, and Failure where namespaces have several. Pure."""
    match releases:
        case [release]:
            return release
        case []:
            raise NoSuchRelease(key)
    raise ambiguous(f"releases named {key.name}", [release.key for release in releases])


def ref_of(release: Release) -> ObjectRef:
    """The release as if it were an object."""
    return ObjectRef(KIND, release.key)


def health_of(release: Release) -> ObjectHealth:
    """How the release is doing."""
    ready: Literal["True", "False"] = "True" if release.state == ReleaseState.Ready else "False"
    return ObjectHealth(ready, release.state, since=release.updated_at)


async def judged(cluster: ClusterSession, release: Release) -> ObjectSummary:
    """The release, and what keeps it from being ready."""
    diagnosis = await why.diagnose(ClusterReader(cluster.client), release, datetime.now(UTC))
    return ObjectSummary(ref_of(release), health_of(release), diagnosis)


_CORRECT = "correct what the cause names, and run it again"


@contextmanager
def explained(what: str, key: ObjectKey) -> Iterator[None]:
    """Failures of a release in four parts. `what` is what was tried: `apply`."""
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
    except WriteFailed as error:
        is_forbidden = all(failure.obstacle is Obstacle.FORBIDDEN for failure in error.failures)
        code = Exit.FORBIDDEN if is_forbidden else Exit.FAILED
        raise _failure(what, key, str(error), _CORRECT, code) from None
    except (ApplyError, RenderError, SourceError) as error:
        raise _failure(what, key, str(error), _CORRECT, Exit.FAILED) from None


@contextmanager
def interruptible(key: ObjectKey) -> Iterator[None]:
    """Report what becomes of the release where the user ends the verb (Ctrl-C)."""
    try:
        yield
    except asyncio.CancelledError:
        look = f"stellwerk status {key.name} -n {key.namespace}"
        settings.say(f"Interrupted. Release {key} goes on when the command is run again; its state: {look}")
        raise


async def too_late(cluster: ClusterSession, what: str, key: ObjectKey, error: TooLate) -> Failure:
    """The end of a run whose time is over, with the root cause and the next step as `stellwerk why` finds them."""

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


def sheet(release: Release) -> list[str]:
    """One release for people, with the cause of a failure."""
    cause = f"Cause: {text.escaped(release.error)}"
    step = f"Next:  stellwerk why {release.key.name} -n {release.key.namespace}"
    return [*table([release]), *([cause, step] if release.error else [])]


def _row(release: Release, now: datetime) -> list[str]:
    counts = (release.objects, release.ready_objects, release.completed_objects)
    ages = (text.age(release.created_at, now), text.age(release.updated_at, now))
    return [release.key.namespace, release.key.name, str(release.revision), release.state, *map(str, counts), *ages]


def as_json(release: Release) -> JsonObject:
    """A release for programs, in the words of clm."""
    return {
        "namespace": release.key.namespace,
        "name": release.key.name,
        "revision": release.revision,
        "state": release.state,
        "numAllObjects": release.objects,
        "numReadyObjects": release.ready_objects,
        "numCompletedObjects": release.completed_objects,
        "createdAt": rfc3339(release.created_at),
        "lastUpdatedAt": rfc3339(release.updated_at),
        **({"error": release.error} if release.error else {}),
    }
