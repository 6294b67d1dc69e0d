"""The programs of the local system that `stellwerk run` does not start: they have flags that a cluster must not have.

python -m stellwerk.cli.local.run_local PROGRAM FLAGS
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from stellwerk.assembly import PROCESSES
from stellwerk.cli.local import run
from stellwerk.cli.shell import error_reports


def main(program: str, flags: Sequence[str]) -> int:
    """Run a program of the local system until it ends. Returns the exit code."""
    local = PROCESSES[program].local
    if local is None:
        raise KeyError(f"{program} is the same program in the local system")
    spec = local()
    command = click.Command(
        spec.name,
        params=[*spec.process().options(), *spec.settings().options()],
        callback=lambda **values: run.run(spec, values),
    )
    try:
        command.main([*flags], standalone_mode=False)
    except Exception as error:
        return error_reports.print_failure(error, verbose=False)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
