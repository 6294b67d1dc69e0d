"""The command: `python -m deploy.image build|lock|check|scan|sign|unpack` (`make image`, `make scan`...)."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

from deploy.image import build, debian, layout, locks, sign

from stellwerk.local.errors import LocalError


def main() -> int:
    """Do one verb."""
    parser = argparse.ArgumentParser(prog="python -m deploy.image", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    making = verbs.add_parser("build", help="build the image: an OCI layout, an archive of it, and an SBOM")
    making.add_argument("--output", type=Path, default=build.OUTPUT, help="the folder to write to")
    verbs.add_parser("lock", help="choose the newest Debian packages")
    verbs.add_parser("check", help="check that every lock names everything by hash (no network)")
    verbs.add_parser("scan", help="ask a database of vulnerabilities about everything locked (network)")
    signing = verbs.add_parser("sign", help="sign the pushed image, its SBOM and its provenance")
    signing.add_argument("image", nargs="?", default="", help="REGISTRY/NAME@sha256:DIGEST")
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
            case "check":
                locks.check()
            case "scan":
                locks.scan(build.OUTPUT)
            case "sign":
                sign.sign(chosen.image, build.OUTPUT)
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
