"""The module of a local system is what this version ships, and nothing that an earlier one has left."""

from __future__ import annotations

from pathlib import Path

from stellwerk.operators.btp.module import rehearsal
from stellwerk.operators.btp.module.release import APPLY_FOLDER


def test_a_file_that_the_release_no_longer_has_is_not_applied(tmp_path: Path) -> None:
    module = rehearsal.copy_module(tmp_path / "module")
    files = sorted(module.rglob("*"))
    (module / "module-resources" / APPLY_FOLDER / "dropped.yml").write_text("kind: ConfigMap\n")
    assert sorted(rehearsal.copy_module(module).rglob("*")) == files
