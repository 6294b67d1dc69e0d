"""The command line with one more operator: for a program that defines it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

from stellwerk import assembly
from stellwerk.delivery.operator_spec import OperatorSpec
from stellwerk.kube.schema.crd import to_yaml

ON_A_DESK = (
    "--metrics-bind-address=0",
    "--health-probe-bind-address=0",
    "--zap-encoder=console",
    "--zap-time-encoding=iso8601",
)
"""How a program on a desk runs: no ports, and log lines for the eye."""


def main(operator: OperatorSpec) -> NoReturn:
    """Carry out the verb of the command line as `stellwerk` does, or run the operator if there is none.

    `manifests` prints what a cluster needs before the operator runs: its kind, its account and its rights.
    """
    assembly.add(operator)
    if sys.argv[1:] == ["manifests"]:
        print(*map(to_yaml, assembly.installation([operator.name])), sep="---\n")
        sys.exit(0)
    from stellwerk.cli import call  # it reads the registry

    arguments = sys.argv[1:] or ["run", operator.name, *ON_A_DESK]
    sys.exit(call.call(arguments, program=f"python {Path(sys.argv[0]).name}"))
