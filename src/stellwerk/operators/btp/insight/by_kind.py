"""What the operator knows about objects of its kinds."""

from __future__ import annotations

from stellwerk.delivery.insight import KindInsight, Previewer
from stellwerk.operators.btp.insight import actions
from stellwerk.operators.btp.insight.related_objects import kinship
from stellwerk.operators.btp.insight.why import diagnostician


def _previewer() -> Previewer:
    from stellwerk.operators.btp.insight.preview import previewer

    return previewer


INSIGHT = {
    "BtpOperator": KindInsight(
        diagnostician=diagnostician,
        kinship=kinship,
        reconcile=actions.RECONCILE,
        unstick=actions.UNSTICK,
        previewer=_previewer,
    )
}
