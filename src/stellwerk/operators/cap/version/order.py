"""Which version of an application is the newest (pure)."""

from __future__ import annotations

from collections.abc import Sequence

from stellwerk.kube.types.semantic_version import precedence
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion, is_offered


def latest(versions: Sequence[CAPApplicationVersion]) -> CAPApplicationVersion | None:
    """The highest version; of equal ones the first by name."""
    ordered = sorted(versions, key=lambda each: each.metadata.name)
    return max(ordered, key=lambda each: precedence(each.spec.version), default=None)


def latest_ready(versions: Sequence[CAPApplicationVersion]) -> CAPApplicationVersion | None:
    """The highest version that is Ready. One that is being deleted gets no tenants any more."""
    return latest([each for each in versions if is_offered(each)])
