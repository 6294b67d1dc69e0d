"""What a remote cluster needs next so that its user sees modules and status, from one reading of both sides.

Parts come one after the other, because a later one needs an earlier one: no Kyma without its definition, no status
without the Kyma. The status comes before the catalog, so that a catalog that cannot be written is shown to the user.
Whatever a crash has left out, the next reading shows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from stellwerk.api.core import Namespace, Secret
from stellwerk.apply.objects.desired import Desired
from stellwerk.kube.types.model import JsonObject, Unstructured
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import Kyma, KymaStatus
from stellwerk.operators.kyma.kyma import catalog, skr
from stellwerk.operators.kyma.kyma.catalog import Catalog, Entry
from stellwerk.operators.kyma.kyma.status import ConditionType

DEFINITIONS = (
    "kymas.operator.kyma-project.io",
    "moduletemplates.operator.kyma-project.io",
    "modulereleasemetas.operator.kyma-project.io",
)
"""The definitions that a remote cluster gets, in their order."""


_FOREGROUND = "foregroundDeletion"
"""The finalizer of Kubernetes itself on an object that waits for the deletion of its dependents."""


class Part(StrEnum):
    """A part of a remote cluster, in the order in which they are written. A part with a condition is named as that."""

    NAMESPACE = "Namespace"
    DEFINITIONS = ConditionType.DEFINITIONS.value
    PULL_SECRET = ConditionType.PULL_SECRET.value
    KYMA = "Kyma"
    STATUS = "Status"
    CATALOG = ConditionType.CATALOG.value


@dataclass(frozen=True, slots=True)
class Applied:
    """An object that is applied, by force, under the name of a field manager."""

    desired: Desired
    field_manager: str


@dataclass(frozen=True, slots=True)
class Created:
    """The Kyma of a remote cluster that has none: its user edits it afterwards."""

    body: JsonObject


@dataclass(frozen=True, slots=True)
class Deleted:
    """An entry of the catalog that is not wanted any more."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class Marked:
    """Metadata that the Kyma of the remote cluster lacks, applied under the name of a field manager."""

    metadata: JsonObject
    field_manager: str = labels.SYNC_MANAGER


@dataclass(frozen=True, slots=True)
class Shown:
    """The status of the Kyma of the remote cluster."""

    status: KymaStatus


Change: TypeAlias = Applied | Created | Deleted | Marked | Shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """What the control plane has for a remote cluster."""

    kyma: Kyma
    definitions: Mapping[str, Unstructured]
    pull_secret: Secret | None = None
    """None: remote clusters get none."""
    catalog: Catalog | None = None
    """None: the label of the Kyma turns the catalog off, and what is there stays."""
    catalog_namespace: str = labels.SKR_NAMESPACE


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """What the remote cluster has. Each part was read: what is not here does not exist."""

    namespace: Namespace | None = None
    definitions: Mapping[str, Unstructured] = field(default_factory=dict)
    pull_secret: Secret | None = None
    kyma: Kyma | None = None
    entries: Sequence[Entry] = ()
    """ModuleTemplates and ModuleReleaseMetas of all namespaces."""


class DefinitionMissing(Exception):
    """The control plane itself lacks a definition that remote clusters get."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"failed to sync CRDs to SKR: CustomResourceDefinition {name} does not exist in the control plane. "
            f"Install the chart again, or look for who deleted it: kubectl get crd {name}"
        )


def due_parts(home: Home, remote: Remote) -> dict[Part, tuple[Change, ...]]:
    """The parts that are not as they should be, in their order, and what changes that. Raises DefinitionMissing.

    A status needs the Kyma; the catalog does not.
    """
    return {part: changes for part, changes in _parts(home, remote) if changes}


def _parts(home: Home, remote: Remote) -> Iterator[tuple[Part, tuple[Change, ...]]]:
    yield Part.NAMESPACE, _applied(skr.namespace(), remote.namespace, labels.SYNC_MANAGER)
    yield Part.DEFINITIONS, _definitions(home, remote)
    if home.pull_secret is not None:
        desired = skr.pull_secret(home.pull_secret)
        yield Part.PULL_SECRET, _applied(desired, remote.pull_secret, labels.FIELD_MANAGER)
    if remote.kyma is None:
        yield Part.KYMA, (Created(skr.new_kyma(home.kyma)),)
    else:
        lacking = skr.lacking_marks(home.kyma, remote.kyma)
        yield Part.KYMA, (Marked(lacking),) if lacking else ()
        status = skr.status_for_skr(home.kyma.status)
        yield Part.STATUS, (Shown(status),) if remote.kyma.status != status else ()
    if home.catalog is not None:
        written, gone = catalog.due(home.catalog, home.catalog_namespace, remote.entries)
        applied = (Applied(each, labels.CATALOG_MANAGER) for each in written)
        yield Part.CATALOG, (*applied, *map(Deleted, gone))


def _definitions(home: Home, remote: Remote) -> tuple[Change, ...]:
    found: list[Change] = []
    for name in DEFINITIONS:
        source = home.definitions.get(name)
        if source is None:
            raise DefinitionMissing(name)
        found += _applied(skr.definition(source), remote.definitions.get(name), labels.FIELD_MANAGER)
    return tuple(found)


def _applied(
    desired: Desired, live: Namespace | Secret | Unstructured | None, field_manager: str
) -> tuple[Change, ...]:
    return () if skr.is_written(desired, live) else (Applied(desired, field_manager),)


# ---- the Kyma of the control plane


def lacking_hold(kyma: Kyma) -> JsonObject:
    """The metadata that a Kyma of the control plane lacks: our finalizer, and the label by which it is found.

    A label with another value stays. A Kyma that waits for the deletion of its dependents is left alone.
    """
    metadata = kyma.metadata
    if metadata.is_terminating or _FOREGROUND in metadata.finalizers:
        return {}
    lacking: JsonObject = {}
    if labels.KYMA_FINALIZER not in metadata.finalizers:
        lacking["finalizers"] = [*metadata.finalizers, labels.KYMA_FINALIZER]
    if labels.MANAGED_BY_LABEL not in metadata.labels:
        lacking["labels"] = {labels.MANAGED_BY_LABEL: labels.OPERATOR_NAME}
    return lacking
