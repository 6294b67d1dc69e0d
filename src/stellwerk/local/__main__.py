"""The local control plane by hand: `python -m stellwerk.local build|check|up|down|stop|status [--name NAME]`."""

from __future__ import annotations

import argparse
import sys

from stellwerk.local import cluster
from stellwerk.local.build import control_plane, renderer
from stellwerk.local.components import Options
from stellwerk.local.errors import LocalError


def main() -> int:
    """Do one verb; prints the kubeconfig's path on `up`."""
    parser = argparse.ArgumentParser(prog="python -m stellwerk.local")
    parser.add_argument("verb", choices=["build", "check", "up", "down", "stop", "status"])
    parser.add_argument("--name", default="local")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--bare", action="store_true", help="etcd and API server only")
    chosen = parser.parse_args()
    options = Options(port=chosen.port, controllers=not chosen.bare, pods=not chosen.bare)
    try:
        _carry_out(chosen.verb, cluster.named(chosen.name, options))
    except LocalError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _carry_out(verb: str, target: cluster.LocalCluster) -> None:
    match verb:
        case "build":
            control_plane.ensure(_tell)
            renderer.ensure(_tell)
        case "check":
            renderer.check(_tell)
        case "up":
            target.up(_tell)
            sys.stdout.write(f"{target.kubeconfig}\n")
        case "down":
            target.down(_tell)
        case "stop":
            target.stop(_tell)
        case _:
            seen = target.status()
            sys.stdout.write(f"{seen.url} {seen.version} {'ready' if seen.ready else 'not ready'}\n")
            sys.stdout.writelines(
                f"{part.name} {part.pid or ('elsewhere' if part.runs_elsewhere else '-')}\n" for part in seen.components
            )


def _tell(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
