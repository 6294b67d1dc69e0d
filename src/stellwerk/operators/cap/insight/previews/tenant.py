"""The preview of a CAPTenant: the writes of the steps that its controller would perform."""

from __future__ import annotations

from datetime import UTC, datetime

from stellwerk.apply.objects.desired import Address, Desired
from stellwerk.delivery.insight import Preview, PreviewFailed, PreviewRequest
from stellwerk.delivery.step_preview import StepPreview
from stellwerk.kube.types.model import dig
from stellwerk.operators.cap import names
from stellwerk.operators.cap.collections import ROUTES, TENANTS
from stellwerk.operators.cap.hashed_objects import ORIGINAL
from stellwerk.operators.cap.insight.previews import surroundings
from stellwerk.operators.cap.insight.previews.surroundings import METADATA, KindPreviewer, Outcome
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.operators.cap.reasons import TenantReason
from stellwerk.operators.cap.tenant.decide import TenantLogic
from stellwerk.operators.cap.tenant.routes import ApplyRoutes, TenantSettings
from stellwerk.runtime.clock import SystemClock
from stellwerk.runtime.control.step import Create, Delete, Patch, RemoveFinalizer, Write


async def preview(subject: CAPTenant, request: PreviewRequest) -> Preview:
    """What the operator would write for a tenant: see `Previewer`."""
    client, outcome = request.client, Outcome()
    home = await surroundings.operator_namespace(client)
    allowed = await surroundings.allowed_headers(client, home)
    settings = (TenantSettings(home=home, allowed_headers=allowed),)
    steps = StepPreview(logic=TenantLogic(SystemClock()), field_manager=names.OPERATOR_NAME)
    course = await steps.course(subject, client, datetime.now(UTC), settings)
    for write in course.writes:
        _note(outcome, subject, write)
    last = course.steps[-1]
    if (failure := last.failure) is not None:
        if not course.writes and failure.event_reason != TenantReason.InvalidReference:
            raise PreviewFailed(failure.message)
        outcome.warnings.append(failure.message)
    outcome.warnings += [each.message for each in last.waits if not course.writes or isinstance(each.on, str)]
    return outcome.preview(claims=ORIGINAL)


def _note(outcome: Outcome, subject: CAPTenant, write: Write) -> None:
    match write:
        case Create():
            address = Address(write.collection.resource, write.key)
            if subject.metadata.uid:
                outcome.objects.append(Desired(address, write.body))
            else:  # of a tenant that is not stored yet, it cannot have the owner that it needs
                outcome.created[address.ref] = str(dig(write.body, "spec", "operation"))
        case Patch() if write.collection is TENANTS:
            version = dig(write.fields, "spec", "version")
            outcome.changed[subject.ref] = f"{METADATA}, and it gets version {version}" if version else METADATA
        case Patch():
            is_route = write.collection is ROUTES
            how = "labels and annotations are added" if is_route else "will be asked to run its failed step again"
            outcome.changed[Address(write.collection.resource, write.seen.key).ref] = how
        case Delete():
            outcome.deleted[Address(write.collection.resource, write.seen.key).ref] = write.why
        case ApplyRoutes():
            outcome.objects.append(Desired(write.desired.address, write.body))
        case RemoveFinalizer():
            outcome.changed[subject.ref] = "the finalizer goes, and the tenant with it"


PREVIEWER = KindPreviewer(CAPTenant, preview)
