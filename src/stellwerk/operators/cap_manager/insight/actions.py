"""How a user acts on a CAPOperator."""

from __future__ import annotations

from stellwerk.delivery import forced_deletion, reconcile_request
from stellwerk.delivery.insight import Reconcilable
from stellwerk.operators.cap_manager.api import FINALIZER

RECONCILE = Reconcilable(request=reconcile_request.request, was_handled=reconcile_request.was_handled)
UNSTICK = forced_deletion.without(
    FINALIZER,
    consequence="the CAP Operator stays as it is, and nothing manages it any more",
)
