"""What the operator knows about objects of its kinds."""

from __future__ import annotations

from stellwerk.delivery.insight import KindInsight
from stellwerk.lazy_imports import lazy_imports
from stellwerk.operators.btp.api import CHART_ERA_FINALIZER, FINALIZER
from stellwerk.operators.btp.insight import actions
from stellwerk.operators.btp.insight.related_objects import kinship
from stellwerk.operators.btp.insight.why import diagnostician

with lazy_imports(__name__):
    from stellwerk.operators.btp.insight import preview

INSIGHT = {
    "BtpOperator": KindInsight(
        diagnostician=diagnostician,
        kinship=kinship,
        reconcile=actions.RECONCILE,
        unstick=actions.UNSTICK,
        finalizers=(FINALIZER, CHART_ERA_FINALIZER),
        previewer=lambda: preview.previewer,
    )
}
