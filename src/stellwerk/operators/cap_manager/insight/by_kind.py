"""What the manager knows about objects of its kind."""

from __future__ import annotations

from stellwerk.delivery.insight import KindInsight
from stellwerk.lazy_imports import lazy_imports
from stellwerk.operators.cap_manager.insight import actions
from stellwerk.operators.cap_manager.insight.related_objects import kinship
from stellwerk.operators.cap_manager.insight.why import CapOperatorDiagnosis

with lazy_imports(__name__):
    from stellwerk.operators.cap_manager.insight import preview

INSIGHT = {
    "CAPOperator": KindInsight(
        diagnostician=CapOperatorDiagnosis(),
        kinship=kinship,
        reconcile=actions.RECONCILE,
        unstick=actions.UNSTICK,
        previewer=lambda: preview.previewer,
    )
}
