"""The preview of a CAPTenantOperation: the writes of the steps that its controller would perform."""

from __future__ import annotations

from datetime import UTC, datetime

from stellwerk.apply.objects.desired import Address
from stellwerk.delivery.insight import Preview, PreviewRequest
from stellwerk.delivery.step_preview import StepPreview
from stellwerk.kube.types.model import dig
from stellwerk.operators.cap import names
from stellwerk.operators.cap.collections import JOBS
from stellwerk.operators.cap.insight.previews.surroundings import METADATA, KindPreviewer, Outcome
from stellwerk.operators.cap.kinds.tenant import CAPTenantOperation
from stellwerk.operators.cap.operation.decide import OperationLogic
from stellwerk.operators.cap.operation.ingredients import OperationSettings
from stellwerk.runtime.clock import SystemClock
from stellwerk.runtime.control.step import Create, Delete, Patch, RemoveFinalizer, Write
from stellwerk.runtime.reconciler import Severity


async def preview(subject: CAPTenantOperation, request: PreviewRequest) -> Preview:
    """What the operator would write for an operation: see `Previewer`. Credentials are not worked out."""
    steps = StepPreview(logic=OperationLogic(SystemClock()), field_manager=names.OPERATOR_NAME)
    course = await steps.course(subject, request.client, datetime.now(UTC), (OperationSettings(),))
    outcome, last = Outcome(), course.steps[-1]
    for write in course.writes:
        _note(outcome, subject, write)
    notices = (each for step in course.steps for each in step.events)
    outcome.warnings += [each.message for each in notices if each.severity is Severity.WARNING]
    if last.failure is not None:
        outcome.warnings.append(last.failure.message)
    outcome.warnings += [each.message or str(each.on) for each in last.waits if not course.writes]
    return outcome.preview()


def _note(outcome: Outcome, subject: CAPTenantOperation, write: Write) -> None:
    match write:
        case Create():
            number = dig(write.body, "metadata", "labels", names.OPERATION_STEP_LABEL)
            what = (
                f"step {number} of {len(subject.spec.steps)}"
                if write.collection is JOBS
                else "credentials of its services"
            )
            outcome.created[Address(write.collection.resource, write.key).ref] = what
        case Delete():
            outcome.changed[Address(write.collection.resource, write.seen.key).ref] = (
                "will be deleted and created again, because it failed"
            )
        case Patch():
            outcome.changed[subject.ref] = METADATA
        case RemoveFinalizer():
            outcome.changed[subject.ref] = "the finalizer goes, and the operation with it"


PREVIEWER = KindPreviewer(CAPTenantOperation, preview)
