"""Component, Blueprint and BlueprintVersion: the kinds themselves, and every name that others rely on.

The names are a contract with clusters that the original operator has set up: a label or finalizer spelled otherwise
would orphan what is there. So they are written once, here, and nowhere else.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from stellwerk.delivery.sets.inventory_status import State
from stellwerk.kube.schema.crd import AGE, Definition, PrinterColumn, Version, documented
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import Record
from stellwerk.operators.component.api_spec import ComponentSpec
from stellwerk.operators.component.api_status import NEVER_OBSERVED, NEW, ComponentStatus

GROUP = "core.cs.sap.com"
VERSION = "v1alpha1"

# ---- who we are

RECONCILER = "component-operator.cs.sap.com"
"""Field manager, finalizer, Lease, Helm's `.Release.Service`, and what all keys on our objects begin with."""

CONTROLLER = "component"
"""The controller's name in metrics."""

FINALIZER = RECONCILER
LEASE_NAME = RECONCILER
"""The leader-election Lease, shared with the original so that both never act at once."""

SEALS = "component-operator-seals"
"""The Secret, in the operator's own namespace, that holds the key of its seals."""

# ---- on dependent objects

OWNER_ID = f"{RECONCILER}/owner-id"
"""As a label: the hash of the owner; as an annotation: the owner in clear text."""

DIGEST_ANNOTATION = f"{RECONCILER}/digest"
ADOPTION_POLICY_ANNOTATION = f"{RECONCILER}/adoption-policy"
RECONCILE_POLICY_ANNOTATION = f"{RECONCILER}/reconcile-policy"
UPDATE_POLICY_ANNOTATION = f"{RECONCILER}/update-policy"
DELETE_POLICY_ANNOTATION = f"{RECONCILER}/delete-policy"
APPLY_ORDER_ANNOTATION = f"{RECONCILER}/apply-order"
PURGE_ORDER_ANNOTATION = f"{RECONCILER}/purge-order"
DELETE_ORDER_ANNOTATION = f"{RECONCILER}/delete-order"
REAPPLY_INTERVAL_ANNOTATION = f"{RECONCILER}/reapply-interval"
STATUS_HINT_ANNOTATION = f"{RECONCILER}/status-hint"
DISABLE_SUBSTITUTION_ANNOTATION = f"{RECONCILER}/disableSubstitution"
"""In camel case: the one key that is not spelled with dashes."""
KEEP_ENCRYPTED_ANNOTATION = f"{RECONCILER}/keep-encrypted"
"""On a rendered object; read by the renderer."""

# ---- on the Component

DISABLE_EVENTS_ANNOTATION = f"{RECONCILER}/disable-events"
"""`"true"`: no Events on dependent objects."""

CONFIRMED_CLUSTER_ANNOTATION = f"{GROUP}/confirmed-cluster"
"""The uid of a cluster: it may take the place of the one that the objects are in."""

ABANDON_ANNOTATION = f"{GROUP}/abandon-remote-objects"
"""The Component's own uid: where it is deleted and its other cluster cannot be reached, the objects there stay."""

APPROVED_HOOKS_ANNOTATION = f"{GROUP}/approved-delete-hooks"
"""The SHA-256 of the content of the Secret with the delete hooks: they run in a deletion though no seal fits them."""

SUSPEND_REASON_ANNOTATION = f"{GROUP}/suspend-reason"
"""Why a user has suspended it; shown wherever its state is."""

MOST_DEPENDENCIES = 1_000
"""How many Components one may list; more are refused."""

# ---- on Events

EVENT_REVISION_ANNOTATION = f"{GROUP}/revision"
EVENT_TOKEN_ANNOTATION = f"{GROUP}/token"


class Component(Kind, frozen=True, kw_only=True):
    """A set of manifests from one source, kept applied to one cluster."""

    resource: ClassVar[Resource] = Resource(GROUP, VERSION, "Component", "components", namespaced=True)

    spec: Annotated[ComponentSpec, documented("What is wanted.", required=False)] = ComponentSpec()
    status: Annotated[
        ComponentStatus, documented("How it is.", default={"observedGeneration": NEVER_OBSERVED}, required=False)
    ] = NEW

    @property
    def target(self) -> ObjectKey:
        """The namespace that objects without one go to, and the name that templates see."""
        return ObjectKey(self.spec.namespace or self.metadata.namespace, self.spec.name or self.metadata.name)

    @property
    def is_ready(self) -> bool:
        """Whether others may build on it: Ready, and that is about the spec as it is now."""
        return self.status.observed_generation == self.metadata.generation and self.status.state is State.Ready

    @property
    def dependencies(self) -> tuple[ObjectKey, ...]:
        """The Components that it depends on, each once, in the order of the spec; of too many, the first ones."""
        named = (dependency.key(self.metadata.namespace) for dependency in self.spec.dependencies[:MOST_DEPENDENCIES])
        return tuple(dict.fromkeys(named))


# ---- blueprints


class BlueprintSpec(Record, frozen=True, kw_only=True):
    """The content."""

    files: Annotated[
        dict[str, str],
        documented("Content of each file by its path, relative and without `..`.", example="kustomization.yaml"),
    ] = msgspec.field(default_factory=dict)


class Blueprint(Kind, frozen=True, kw_only=True):
    """Manifests that lie in the cluster itself; a source of Components."""

    resource: ClassVar[Resource] = Resource(GROUP, VERSION, "Blueprint", "blueprints", namespaced=True)

    spec: Annotated[BlueprintSpec, documented("The content.", required=True)] = BlueprintSpec()


class BlueprintVersionSpec(Record, frozen=True, kw_only=True):
    """One content, and which Blueprint had it."""

    blueprint: Annotated[str, documented("Name of the Blueprint, in the same namespace.")]
    digest: Annotated[str, documented("Fingerprint of the content.")]
    revision: Annotated[str, documented("Revision of the Blueprint.", example="generation:3")]
    files: Annotated[dict[str, str], documented("Content of each file by its path.")] = msgspec.field(
        default_factory=dict
    )


class BlueprintVersion(Kind, frozen=True, kw_only=True):
    """A former or present content of a Blueprint, kept as long as a Component uses it. Made by the operator."""

    resource: ClassVar[Resource] = Resource(GROUP, VERSION, "BlueprintVersion", "blueprintversions", namespaced=True)

    spec: BlueprintVersionSpec


# ---- their definitions

_CAUSE = ".status.conditions[-1:].reason"
"""Ready comes first; the one after it, Reconciling or Stalled, names the precise cause. The column Reason stays
as the original has it."""

COMPONENTS = Definition(
    short_names=("comp",),
    categories=("all", "sap"),
    versions=(
        Version(
            kind=Component,
            columns=(
                PrinterColumn(name="Ready", path=".status.conditions[?(@.type=='Ready')].status"),
                PrinterColumn(name="State", path=".status.state"),
                PrinterColumn(name="Reason", path=".status.conditions[?(@.type=='Ready')].reason"),
                PrinterColumn(name="Cause", path=_CAUSE),
                PrinterColumn(name="Revision", path=".status.lastAppliedRevision"),
                AGE,
                PrinterColumn(name="Objects", path=".status.inventorySummary", priority=1),
                PrinterColumn(name="Message", path=".status.conditions[?(@.type=='Ready')].message", priority=1),
            ),
        ),
    ),
)
BLUEPRINTS = Definition(
    categories=("sap",),
    versions=(
        Version(
            kind=Blueprint, columns=(PrinterColumn(name="Generation", path=".metadata.generation", type="integer"), AGE)
        ),
    ),
)
BLUEPRINT_VERSIONS = Definition(
    categories=("sap",),
    versions=(
        Version(
            kind=BlueprintVersion,
            columns=(
                PrinterColumn(name="Blueprint", path=".spec.blueprint"),
                PrinterColumn(name="Revision", path=".spec.revision"),
                AGE,
                PrinterColumn(name="Digest", path=".spec.digest", priority=1),
            ),
            selectable_fields=(".spec.blueprint",),
        ),
    ),
)
DEFINITIONS = (COMPONENTS, BLUEPRINTS, BLUEPRINT_VERSIONS)
"""The CustomResourceDefinitions, made from the structs above."""
