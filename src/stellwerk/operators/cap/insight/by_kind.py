"""What the operator knows about objects of its kinds."""

from __future__ import annotations

from stellwerk.delivery.insight import KindInsight
from stellwerk.operators.cap.insight.help_topics import HELP
from stellwerk.operators.cap.insight.why import CapDiagnostician

INSIGHT = {kind: KindInsight(diagnostician=CapDiagnostician()) for kind in HELP}
