"""How a Component is: `status`, field by field.

What the original wrote is read and written under its names, inventory included, so that either can go on where the
other has stopped. What is ours (the conditions besides Ready, the handled request, the summary, the uids) is optional.
"""

from __future__ import annotations

from typing import Annotated

from stellwerk.apply.set.model.inventory_codec import Item
from stellwerk.delivery.reconcile_request import FORCE_AT_ANNOTATION
from stellwerk.delivery.sets.inventory_status import InventoryStatus, State, documented_conditions
from stellwerk.kube.schema.crd import documented
from stellwerk.kube.types.object_meta import Condition, Record

NEVER_OBSERVED = -1
"""What the API server writes as observedGeneration of a Component before the first pass."""


class Artifact(Record, frozen=True, kw_only=True):
    """One content of a source."""

    url: Annotated[str, documented("Where it is downloaded from.")]
    digest: Annotated[str, documented("Fingerprint of the content.", example="sha256:4b14…")]
    revision: Annotated[str, documented("Its name in the source.", example="main@sha1:4b14dbc37")]


class SourceStatus(Record, frozen=True, kw_only=True):
    """What the source offered last."""

    artifact: Annotated[Artifact | None, documented("The content that was taken.")] = None
    digest: Annotated[str, documented("Fingerprint of the source object; part of processingDigest.")] = ""


class ComponentStatus(InventoryStatus, frozen=True, kw_only=True):
    """How the Component is. Written by the operator only."""

    source_ref: Annotated[SourceStatus | None, documented("What the source offered last.")] = None
    target_cluster: Annotated[
        str,
        documented(
            "What identifies the cluster that the objects are in, if that is another one: the uid of kube-system; "
            "where that may not be read, NAMESPACE/UID of another namespace, or a digest of the cluster's authority."
        ),
    ] = ""
    applied_as: Annotated[
        str,
        documented(
            "Identity that applied the objects, and that deletes them: a ServiceAccount's user name, `operator`, or "
            "`kubeconfig`.",
            example="system:serviceaccount:shop:deployer",
        ),
    ] = ""
    applied_as_seal: Annotated[str, documented("Seal of appliedAs; without a valid one it is ignored.")] = ""
    delete_hook_seals: Annotated[
        tuple[str, ...], documented("Seals of the delete hooks that may run when the Component is deleted.")
    ] = ()
    last_attempted_digest: Annotated[str, documented("Digest of the artifact that was last rendered.")] = ""
    last_attempted_revision: Annotated[str, documented("Revision of the artifact that was last rendered.")] = ""
    last_applied_digest: Annotated[str, documented("Digest of the artifact that last became Ready.")] = ""
    last_applied_revision: Annotated[str, documented("Revision of the artifact that last became Ready.")] = ""
    processing_digest: Annotated[
        str, documented("Fingerprint of spec, annotations, source and Secrets that are being worked on.")
    ] = ""
    conditions: Annotated[tuple[Condition, ...], documented_conditions("Component", example="Restarting")] = ()
    state: Annotated[
        State | None,
        documented(
            "Ready: applied and ready. Pending: something that it needs is missing. Processing and Deleting: no user "
            "has to act. DeletionPending: others still need it. Error: the operator could not, or it takes too long.",
            example="Ready",
        ),
    ] = None
    last_handled_force_at: Annotated[
        str, documented(f"Value of the annotation {FORCE_AT_ANNOTATION} that was last acted on to its end.")
    ] = ""
    drifted_objects: Annotated[
        int,
        documented(
            "How many objects others have changed that are put back at their reapply interval; now with: "
            "stellwerk reconcile --force",
        ),
    ] = 0
    inventory_summary: Annotated[str, documented("How many of the objects are ready.", example="12 of 14 ready")] = ""
    inventory: Annotated[tuple[Item, ...], documented("Every dependent object.")] = ()

    def has_attempted(self, artifact: Artifact) -> bool:
        """Whether this artifact is the one that was rendered last."""
        return (self.last_attempted_digest, self.last_attempted_revision) == (artifact.digest, artifact.revision)


NEW = ComponentStatus(observed_generation=NEVER_OBSERVED)
"""The status of a Component before the first pass, as the API server sets it."""
