"""Which version and kinds of the module were applied, and what an older version left behind (pure).

A release lists what its predecessor had and it has not; whoever skips a release skips its list. So the kinds of the
last two versions are recorded in the ConfigMap `btp-manager-versions`, in the form that releases of 2023 wrote, and
objects of these kinds that carry our label and another version are deleted after a new version is ready.

Two kinds of object are never deleted this way while users have instances: the CustomResourceDefinitions of service
instances and bindings, because their end is the end of every service in the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from stellwerk.apply.errors import UnreadableManifest
from stellwerk.apply.leftovers import Marks, format_gvks, parse_gvks
from stellwerk.kube.model import JsonObject
from stellwerk.kube.names import GroupVersionKind, ObjectKey, ObjectRef
from stellwerk.operators.btp import api
from stellwerk.operators.btp.errors import StepFailed
from stellwerk.operators.btp.reasons import Reason

CURRENT_VERSION, CURRENT_KINDS = "currentChartVersion", "currentGvks"
OLD_VERSION, OLD_KINDS = "oldChartVersion", "oldGvks"

_DEFINITION = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
USERS_DEFINITIONS = (
    ObjectRef(_DEFINITION, ObjectKey("", f"serviceinstances.{api.SERVICES_GROUP}")),
    ObjectRef(_DEFINITION, ObjectKey("", f"servicebindings.{api.SERVICES_GROUP}")),
)
"""What must outlive every version change while users have instances or bindings."""


class DamagedRecord(StepFailed):
    """The record lacks a key or holds what we never wrote."""

    reason = Reason.StoringChartDetailsFailed

    def __init__(self, cause: str) -> None:
        super().__init__(f"Failure of storing chart details: ConfigMap {api.VERSIONS_NAME}: {cause}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The version that is applied and the one before it; the same twice after the first installation."""

    current_version: str
    current_kinds: tuple[GroupVersionKind, ...]
    old_version: str
    old_kinds: tuple[GroupVersionKind, ...]

    @property
    def kinds(self) -> tuple[GroupVersionKind, ...]:
        """Where leftovers may be."""
        return tuple(dict.fromkeys((*self.current_kinds, *self.old_kinds)))

    def data(self) -> dict[str, str]:
        """The ConfigMap's data."""
        return {
            CURRENT_VERSION: self.current_version,
            CURRENT_KINDS: format_gvks(self.current_kinds),
            OLD_VERSION: self.old_version,
            OLD_KINDS: format_gvks(self.old_kinds),
        }


def parse(data: Mapping[str, str]) -> Record:
    """The record in a ConfigMap's data. Raises `DamagedRecord`."""
    missing = [key for key in (CURRENT_VERSION, CURRENT_KINDS, OLD_VERSION, OLD_KINDS) if not data.get(key)]
    if missing:
        raise DamagedRecord(f"has no {', '.join(missing)}")
    return Record(
        current_version=data[CURRENT_VERSION],
        current_kinds=_kinds(data, CURRENT_KINDS),
        old_version=data[OLD_VERSION],
        old_kinds=_kinds(data, OLD_KINDS),
    )


def _kinds(data: Mapping[str, str], key: str) -> tuple[GroupVersionKind, ...]:
    try:
        return parse_gvks(data[key])
    except UnreadableManifest as error:
        raise DamagedRecord(f"{key}: {error.why}") from error


def after_apply(record: Record | None, version: str, kinds: Iterable[GroupVersionKind]) -> Record:
    """The record once a version is applied. Under an unchanged version no kind is forgotten."""
    applied = tuple(kinds)
    if record is None:
        return Record(current_version=version, current_kinds=applied, old_version=version, old_kinds=applied)
    if record.current_version == version:
        known = tuple(dict.fromkeys((*record.current_kinds, *applied)))
        return Record(
            current_version=version, current_kinds=known, old_version=record.old_version, old_kinds=record.old_kinds
        )
    return Record(
        current_version=version,
        current_kinds=applied,
        old_version=record.current_version,
        old_kinds=record.current_kinds,
    )


def before_apply(record: Record | None, version: str, kinds: Iterable[GroupVersionKind]) -> Record:
    """The record before a version is applied that brings these kinds.

    Kinds that nobody would look at otherwise are noted before the first object of them exists: an upgrade that fails
    half-way, and is overtaken by the next, would lose them.
    """
    if record is None:
        return after_apply(None, version, kinds)
    return replace(record, current_kinds=tuple(dict.fromkeys((*record.current_kinds, *kinds))))


def config_map(record: Record, namespace: str) -> JsonObject:
    """The ConfigMap that keeps the record. It is ours, so it goes with the module; it has no version to be old by."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": api.VERSIONS_NAME,
            "namespace": namespace,
            "labels": {api.MANAGED_BY_LABEL: api.OPERATOR_NAME, api.MODULE_LABEL: api.MODULE_NAME},
        },
        "data": {**record.data()},
    }


def marks(version: str) -> Marks:
    """How objects of another version are told from those of this one, for `leftovers.stale`."""
    return Marks(
        ours={api.MANAGED_BY_LABEL: api.OPERATOR_NAME},
        version_labels=(api.VERSION_LABEL, api.RECOMMENDED_VERSION_LABEL),
        version=version,
    )


def spared(*, has_users_objects: bool) -> tuple[ObjectRef, ...]:
    """What must not be deleted although it is stale."""
    return USERS_DEFINITIONS if has_users_objects else ()
