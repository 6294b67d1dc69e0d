"""Which chart a preview renders: never one that only the machine of the user has by chance."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.cap_manager.test_chart import written

from stellwerk.delivery.insight import PreviewFailed
from stellwerk.operators.cap_manager.insight.preview import chart_of
from stellwerk.operators.cap_manager.settings import Settings


def test_a_folder_of_the_user_counts_only_where_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = written(tmp_path / "chart", "cap-operator")
    assert chart_of(Settings(), None).is_product
    assert not chart_of(Settings(), found).is_product


def test_the_chart_of_a_folder_of_the_manager_has_to_be_named(tmp_path: Path) -> None:
    settings = Settings(manifest_directory=Path("/charts/cap"))
    with pytest.raises(PreviewFailed, match="its folder /charts/cap, which cannot be read from here") as failed:
        chart_of(settings, None)
    assert "--path" in failed.value.fix
    assert not chart_of(settings, written(tmp_path / "copy", "cap-operator")).is_product
