"""The command: `python -m deploy.image build|lock|unpack` (`make image`, `make image-lock`)."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

from deploy.image import build, debian, layout

from stellwerk.local.errors import LocalError


def main() -> int:
    """Do one verb."""
    parser = argparse.ArgumentParser(prog="python -m deploy.image", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    making = verbs.add_parser("build", help="build the image: an OCI layout, an archive of it, and an SBOM")
    making.add_argument("--output", type=Path, default=build.OUTPUT, help="the folder to write to")
    verbs.add_parser("lock", help="choose the newest Debian packages")
    unpacking = verbs.add_parser("unpack", help="write the root file system of a built image to a folder")
    unpacking.add_argument("layout", type=Path)
    unpacking.add_argument("folder", type=Path)
    chosen = parser.parse_args()
    try:
        match chosen.verb:
            case "build":
                sys.stdout.write(build.build(chosen.output, _tell).summary())
            case "lock":
                debian.LOCK.write_text(debian.lock(datetime.now(UTC)))
            case _:
                layout.unpack(chosen.layout, chosen.folder)
    except LocalError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _tell(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
