"""Signs a pushed image, its bill of materials and its provenance with cosign.

What is signed is a digest, and only that of the image that was built here: a tag can move, and a registry may hold
another image under it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from deploy.image import provenance
from deploy.image.build import BILL, PROVENANCE

from stellwerk.local.errors import BuildFailed

_FAILURE = "cannot sign the image"


def sign(image: str, folder: Path) -> None:
    """Sign an image (`registry/name@sha256:...`) that was built into `folder`. Raises BuildFailed.

    `COSIGN_KEY` of the environment names the key; without one, cosign asks the CI system or the user who signs.
    `COSIGN_OPTIONS` are further options of each call.
    """
    try:
        statement = (folder / PROVENANCE).read_text()
    except OSError as error:
        raise BuildFailed(_FAILURE, cause=str(error), fix="build it: make image") from error
    _check(image, provenance.subject(statement))
    if (cosign := shutil.which("cosign")) is None:
        fix = "install it (https://docs.sigstore.dev/cosign/), then start again"
        raise BuildFailed(_FAILURE, cause="there is no cosign on the path", fix=fix)
    with tempfile.TemporaryDirectory() as name:
        predicate = Path(name) / "predicate.json"
        predicate.write_text(provenance.predicate(statement))
        for arguments in _calls(folder / BILL, predicate):
            if subprocess.run([cosign, *arguments, image], check=False).returncode != 0:  # noqa: S603 - no shell
                raise BuildFailed(_FAILURE, cause=f"cosign {arguments[0]} failed, as above", fix="remove the cause")


def _check(image: str, built: str) -> None:
    name, _, digest = image.partition("@")
    if not name or not digest:
        fix = f"name what you pushed by its digest: make sign IMAGE={name or 'REGISTRY/stellwerk'}@{built}"
        raise BuildFailed(_FAILURE, cause=f"{image or 'no image'!r} names no digest", fix=fix)
    if digest != built:
        fix = f"push the image of this build, and sign it: make sign IMAGE={name}@{built}"
        raise BuildFailed(_FAILURE, cause=f"{digest} is not the image of this build", fix=fix)


def _calls(bill: Path, predicate: Path) -> Iterator[list[str]]:
    key = os.environ.get("COSIGN_KEY", "")
    options = ["--yes", *(["--key", key] if key else []), *os.environ.get("COSIGN_OPTIONS", "").split()]
    yield ["sign", *options]
    yield ["attest", *options, "--type", "cyclonedx", "--predicate", str(bill)]
    yield ["attest", *options, "--type", "slsaprovenance1", "--predicate", str(predicate)]
