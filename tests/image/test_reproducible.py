"""The same checkout builds to the same image."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from deploy.image import layout
from tests.image.conftest import BuiltImage

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(600)
def test_a_second_build_has_the_same_digest(image: BuiltImage, tmp_path: Path) -> None:
    """In another folder, with another time zone, language, umask and seed of hashes."""
    surroundings = {"TZ": "Pacific/Auckland", "LC_ALL": "C", "PYTHONHASHSEED": "7", "TMPDIR": str(tmp_path)}
    subprocess.run(
        [sys.executable, "-m", "deploy.image", "build", "--output", str(tmp_path / "again")],
        cwd=ROOT,
        env={**os.environ, **surroundings},
        umask=0o077,
        check=True,
    )
    assert layout.read_manifest(tmp_path / "again" / "oci") == layout.read_manifest(image.layout)
    again = BuiltImage(tmp_path / "again")
    assert again.archive.read_bytes() == image.archive.read_bytes()
    assert again.bill.read_text() == image.bill.read_text()
