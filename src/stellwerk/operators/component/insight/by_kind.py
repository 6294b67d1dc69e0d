"""What the operator knows about objects of its kinds."""

from __future__ import annotations

from stellwerk.delivery.insight import KindInsight, Previewer
from stellwerk.operators.component.insight import actions
from stellwerk.operators.component.insight.related_objects import kinship
from stellwerk.operators.component.insight.why import diagnostician


def _previewer() -> Previewer:
    from stellwerk.operators.component.insight.preview import previewer

    return previewer


INSIGHT = {
    "Component": KindInsight(
        diagnostician=diagnostician,
        kinship=kinship,
        reconcile=actions.RECONCILE,
        suspend=actions.SUSPEND,
        unstick=actions.UNSTICK,
        previewer=_previewer,
    )
}
