"""What the operator knows about objects of its kinds."""

from __future__ import annotations

from stellwerk.delivery.insight import KindInsight
from stellwerk.lazy_imports import lazy_imports
from stellwerk.operators.component.insight import actions
from stellwerk.operators.component.insight.related_objects import kinship
from stellwerk.operators.component.insight.why import diagnostician

with lazy_imports(__name__):
    from stellwerk.operators.component.insight import preview

INSIGHT = {
    "Component": KindInsight(
        diagnostician=diagnostician,
        kinship=kinship,
        reconcile=actions.RECONCILE,
        suspend=actions.SUSPEND,
        unstick=actions.UNSTICK,
        previewer=lambda: preview.previewer,
    )
}
