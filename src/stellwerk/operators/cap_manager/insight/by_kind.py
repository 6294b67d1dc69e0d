"""What the manager knows about objects of its kind."""

from __future__ import annotations

from stellwerk.delivery import forced_deletion
from stellwerk.delivery.insight import KindInsight, Reconcilable
from stellwerk.delivery.sets.inventory_kinship import InventoryKinship
from stellwerk.lazy_imports import lazy_imports
from stellwerk.operators.cap_manager.api import FINALIZER, OWNER_ID, CAPOperator
from stellwerk.operators.cap_manager.insight.why import CapOperatorDiagnosis

with lazy_imports(__name__):
    from stellwerk.operators.cap_manager.insight import preview

INSIGHT = {
    "CAPOperator": KindInsight(
        diagnostician=CapOperatorDiagnosis(),
        kinship=InventoryKinship(CAPOperator, OWNER_ID),
        reconcile=Reconcilable(),
        unstick=forced_deletion.without(
            FINALIZER, consequence="the CAP Operator stays as it is, and nothing manages it any more"
        ),
        finalizers=(FINALIZER,),
        previewer=lambda: preview.previewer,
    )
}
