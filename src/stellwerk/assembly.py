"""The registry of operators.

It is light, because completion reads it: the functions of an `OperatorSpec` import the operator's parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from stellwerk.delivery.operator_spec import OperatorSpec
from stellwerk.operators.btp import operator as btp
from stellwerk.operators.cap import operator as cap
from stellwerk.operators.component import operator as component

if TYPE_CHECKING:
    from stellwerk.kube.types.model import JsonObject

OPERATORS: Mapping[str, OperatorSpec] = {
    spec.name: spec
    for spec in (
        btp.OPERATOR,
        component.OPERATOR,
        cap.OPERATOR,
    )
}
"""All operators, by the name that `stellwerk run` knows."""


def installation(names: Iterable[str] = OPERATORS) -> list[JsonObject]:
    """What a cluster needs before these operators start, as manifests."""
    return [body for name in names for body in OPERATORS[name].installation().objects()]
