"""What can go wrong with a release.

    ReleaseError                 the base class; `str()` is a clause of a message
    ├── NoSuchRelease            no release has this name
    ├── UnreadableRelease        the ConfigMap of the release has other content
    ├── Leaving                  the release is being deleted and cannot be applied
    ├── WorkedOn                 another client wrote the release meanwhile
    ├── InUse                    others use kinds of the release; nothing was deleted
    ├── TooManyObjects           the ConfigMap has no room for the inventory; nothing was written
    ├── ReleaseSourceUnusable    a path has no manifests
    └── TooLate                  the run did not end in time; has the objects that it waited for

What went wrong with single objects are failures of `apply`, and with files those of `render`.
"""

from __future__ import annotations

from collections.abc import Sequence

from stellwerk.apply.set.plan.stage import Unready
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.runtime.conditions import first_of


class ReleaseError(Exception):
    """Anything that went wrong with a release. `fix` is what a person can do."""

    fix = ""


class NoSuchRelease(ReleaseError):
    """There is no such release."""

    fix = "see what is there: stellwerk list -A; an object, not a release, is named KIND/NAME"

    def __init__(self, key: ObjectKey) -> None:
        where = f"namespace {key.namespace}" if key.namespace else "any namespace"
        super().__init__(f"there is no release {key.name} in {where}")


class UnreadableRelease(ReleaseError):
    """The ConfigMap of a release holds something that no release has."""

    fix = "look at the ConfigMap that it is stored in; restore it from a backup"

    def __init__(self, key: ObjectKey, why: str) -> None:
        super().__init__(f"release {key} cannot be read: {why}")


class Leaving(ReleaseError):
    """The release is being deleted."""

    fix = "wait for the deletion, or finish it: stellwerk delete NAME"

    def __init__(self, key: ObjectKey) -> None:
        super().__init__(f"release {key} is being deleted")


class WorkedOn(ReleaseError):
    """Another client wrote the release since it was read."""

    fix = "wait until the other one is done, and run it again"

    def __init__(self, key: ObjectKey) -> None:
        super().__init__(f"release {key} is being worked on by another client")


class InUse(ReleaseError):
    """Others use what the release brought."""

    fix = "delete those objects first"

    def __init__(self, key: ObjectKey, what: str) -> None:
        super().__init__(f"release {key} must not be deleted now: {what}")


class TooManyObjects(ReleaseError):
    """The inventory of the release is larger than a ConfigMap may be. Nothing was written."""

    fix = "divide it into several releases"

    def __init__(self, key: ObjectKey, objects: int, most: int) -> None:
        super().__init__(f"release {key} has {objects} objects, and its ConfigMap has room for about {most} of them")


class ReleaseSourceUnusable(ReleaseError):
    """A path holds nothing that could be rendered."""

    fix = "name a folder with a chart, a kustomization or manifests, or a file with manifests"


class TooLate(ReleaseError):
    """The work was not done in time. It may be done again, and goes on from where it is."""

    fix = "allow more time with --timeout, and run it again: it goes on from here"

    def __init__(self, key: ObjectKey, seconds: float, waits: Sequence[Unready]) -> None:
        named = f": {first_of(waits, separator='; ')}" if waits else ""
        super().__init__(f"release {key} was not done after {seconds:g} s{named}")
