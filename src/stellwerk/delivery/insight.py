"""What an operator knows about objects of its kinds beyond reconciling them: for verbs and the dashboard.

A kind without an action or a preview leaves the field None, and the verb reports that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from stellwerk.delivery import reconcile_request
from stellwerk.runtime.insight.diagnosis import ConditionDiagnosis

if TYPE_CHECKING:
    from pathlib import Path

    from stellwerk.apply.fields.managed_fields import Claims
    from stellwerk.apply.objects.desired import Desired
    from stellwerk.apply.objects.manifests import Document
    from stellwerk.apply.set.model.desired_set import DesiredObject
    from stellwerk.apply.set.model.inventory import Inventory
    from stellwerk.kube.client.client import Client
    from stellwerk.kube.types.identifiers import ObjectKey, ObjectRef, Resource
    from stellwerk.kube.types.model import JsonObject, Kind, Unstructured
    from stellwerk.render.sources.downloads import Downloads
    from stellwerk.render.worker.renderer import Renderer
    from stellwerk.runtime.insight.diagnosis import ClusterReader, Diagnostician
    from stellwerk.runtime.insight.reason_catalog import Catalogue
    from stellwerk.runtime.insight.related_objects import Kinship

# ---- actions


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconcilable:
    """How a user requests a pass now."""

    request: Callable[[str], JsonObject] = reconcile_request.request
    """The patch for a request at a moment."""
    was_handled: Callable[[Unstructured, str], bool] = reconcile_request.was_handled
    """Whether the object shows that the request of that moment was handled."""
    defers_drift: bool = False
    """Whether what others have changed waits for a reapply interval, or for a forced request; else every pass puts it
    back."""
    source: Callable[[Unstructured], tuple[Resource, ObjectKey] | None] = lambda _: None
    """The object of another controller from which the content comes, and which understands the same request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspendable:
    """How a user has an object left alone, and resumed."""

    suspend: Callable[[str], JsonObject]
    """The patch; the argument is the user's reason, which may be empty."""
    resume: Callable[[], JsonObject]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unstickable:
    """How a user forces a deletion that waits."""

    force: Callable[[Unstructured], JsonObject]
    """The patch."""
    consequence: str | Callable[[Unstructured], str]
    """What it costs, as a clause; the same for each object, or of this one."""
    obstacle: Callable[[Client, Unstructured], Awaitable[tuple[str, str] | None]]
    """Why force has no effect on this object, and what helps instead; None where it has one. Raises ApiError."""

    def consequence_for(self, obj: Unstructured) -> str:
        """What it costs for this object."""
        return self.consequence if isinstance(self.consequence, str) else self.consequence(obj)


# ---- preview


class PreviewFailed(Exception):
    """The preview cannot be computed: the message is the cause, `fix` the user's next step."""

    def __init__(self, why: str, *, fix: str = "correct what the cause names", nothing_to_do: bool = False) -> None:
        super().__init__(why)
        self.fix = fix
        self.nothing_to_do = nothing_to_do
        """The operator applies nothing for the object, so there is nothing to compare."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewRequest:
    """What the user has at hand."""

    client: Client
    renderer: Renderer
    downloads: Downloads
    documents: tuple[Document, ...] = ()
    """Other objects of the file that holds the previewed one."""
    folder: Path | None = None
    """Replaces the object's source."""
    local_folder: Path | None = None
    """The folder of the local system, where the cluster is the local system."""
    image: str = ""
    """Replaces the image of the operand."""
    connections: AsyncExitStack = field(default_factory=AsyncExitStack)
    """Keeps connections to other clusters open, until what the preview comes to was compared there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """The objects that the next reconcile would apply, as one set with an inventory or one by one."""

    field_manager: str
    objects: tuple[Desired, ...] = ()
    """Objects that are applied one by one."""
    members: tuple[DesiredObject, ...] = ()
    """Objects of a set with policies, whose inventory is `inventory`."""
    inventory: Inventory | None = None
    renewed: Mapping[ObjectRef, str] = field(default_factory=dict)
    """Objects that would be replaced although they look the same, and why."""
    deleted: Mapping[ObjectRef, str] = field(default_factory=dict)
    """Objects that would be deleted, and why."""
    created: Mapping[ObjectRef, str] = field(default_factory=dict)
    """Objects that would be created, and why, whose content is not worked out here."""
    changed: Mapping[ObjectRef, str] = field(default_factory=dict)
    """Objects of which single fields would change, and how."""
    kept: int = 0
    """How many more objects exist and would be left as they are."""
    claims: Claims | None = None
    """The managers whose fields are taken over with `objects`; None: all but the control plane."""
    warnings: tuple[str, ...] = ()
    others: tuple[Preview, ...] = ()
    """What would be applied by another field manager, or in another cluster."""
    client: Client | None = None
    """Of the other cluster that it is about; None: the one that was asked."""
    place: str = ""
    """That cluster, for people."""


class Previewer(Protocol):
    """Computes what the next reconcile of an object would apply."""

    @property
    def kind(self) -> type[Kind]:
        """The kind of the objects."""
        ...

    @property
    def accepts_image(self) -> bool:
        """Whether `PreviewRequest.image` has a meaning."""
        ...

    async def preview(self, subject: Any, request: PreviewRequest) -> Preview:
        """Compute it with the user's own rights; nothing is written. Raises PreviewFailed, ApiError."""
        ...


@dataclass(frozen=True, slots=True)
class FleetTable:
    """Figures about all objects of a kind. One without rows is not shown."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KindInsight:
    """What the operator knows about objects of one kind."""

    diagnostician: Diagnostician
    kinship: Kinship | None = None
    """None: objects belong to it by owner references alone."""
    owns: tuple[Resource, ...] = ()
    """Kinds of other projects of which it owns objects."""
    reconcile: Reconcilable | None = None
    suspend: Suspendable | None = None
    unstick: Unstickable | None = None
    finalizers: tuple[str, ...] = ()
    """By which the operator keeps an object that is being deleted."""
    previewer: Callable[[], Previewer] | None = None
    """Imports what renders, which other questions do not need."""
    fleet: Callable[[ClusterReader, str], Awaitable[Sequence[FleetTable]]] | None = None
    """Figures about all objects of the kind in a namespace, or in all. None: nothing is counted."""


def by_condition(catalogue: Catalogue[Any, Any]) -> KindInsight:
    """The insight of a kind whose condition `Ready` names the cause, with the meanings of its catalogue."""
    return KindInsight(diagnostician=ConditionDiagnosis(catalogue))
