"""The registry of operators.

It is light, because completion reads it: the functions of an `OperatorSpec` import the operator's parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from stellwerk.delivery.operator_spec import OperatorSpec, ProcessSpec
from stellwerk.operators.btp import operator as btp
from stellwerk.operators.cap import operator as cap
from stellwerk.operators.cap_manager import operator as cap_manager
from stellwerk.operators.component import operator as component
from stellwerk.operators.kyma import operator as kyma

if TYPE_CHECKING:
    from stellwerk.kube.types.model import JsonObject

_operators: dict[str, OperatorSpec] = {
    spec.name: spec
    for spec in (
        btp.OPERATOR,
        component.OPERATOR,
        cap.OPERATOR,
        cap_manager.managing(cap.OPERATOR),
        kyma.OPERATOR,
    )
}
OPERATORS: Mapping[str, OperatorSpec] = _operators
"""All operators, by the name that `stellwerk run` knows."""

_processes: dict[str, ProcessSpec] = {
    process.name: process for operator in OPERATORS.values() for process in operator.processes
}
PROCESSES: Mapping[str, ProcessSpec] = _processes
"""All programs: the operators and their servers, by the name that `stellwerk run` knows."""


def add(operator: OperatorSpec) -> None:
    """Add an operator, before a verb reads the registry."""
    _operators[operator.name] = operator
    _processes.update((each.name, each) for each in operator.processes)


def installation(names: Iterable[str] = OPERATORS) -> list[JsonObject]:
    """What a cluster needs before these operators and their servers start, as manifests; each object once."""
    bodies: list[JsonObject] = []
    for process in (process for name in names for process in OPERATORS[name].processes):
        bodies += [body for body in process.installation().objects() if body not in bodies]
    return bodies
