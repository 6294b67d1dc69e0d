"""`make bench`: every benchmark in turn, each in a process of its own, so that none inherits another's memory.

python -m bench [NAME ...]
"""

from __future__ import annotations

import subprocess
import sys

NAMES = (
    "wire",
    "engine",
    "btp",
    "render",
    "rollout",
    "component",
    "cap",
    "subscription",
    "kyma",
    "foreign",
    "clusters",
    "completion",
)


def main(chosen: list[str]) -> int:
    """Run the benchmarks that are named, or all; the exit code of the first that fails."""
    unknown = [name for name in chosen if name not in NAMES]
    if unknown:
        print(f"there is no benchmark {', '.join(unknown)}; there are {', '.join(NAMES)}", file=sys.stderr)
        return 2
    for name in chosen or NAMES:
        print(f"== {name}", flush=True)
        code = subprocess.run([sys.executable, "-m", f"bench.{name}"], check=False).returncode
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
