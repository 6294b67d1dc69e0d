"""The module's files are read as they are now, and what is wrong with them is named."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from stellwerk.operators.btp.errors import ModuleUnreadable
from stellwerk.operators.btp.module import release
from stellwerk.operators.btp.module.release import Loader, Places
from stellwerk.operators.btp.settings import Settings


@pytest.fixture
def places(tmp_path: Path) -> Places:
    shutil.copytree(release.SHIPPED, tmp_path, dirs_exist_ok=True)
    return Places.of(Settings(), tmp_path)


def test_the_shipped_module_is_complete() -> None:
    shipped = release.load(Places.of(Settings(), release.SHIPPED))

    assert len(shipped.documents) == 14
    assert len(shipped.network_policies) == 4
    assert shipped.version == "v0.11.10"


def test_absolute_paths_are_taken_as_they_are(tmp_path: Path) -> None:
    settings = Settings(resources_path=str(tmp_path), chart_path="chart")

    assert Places.of(settings, Path("/here")) == Places(tmp_path, Path("/here/manager-resources"), Path("/here/chart"))


def test_a_release_without_a_list_of_deletions_is_fine(places: Places) -> None:
    shutil.rmtree(places.resources / "delete")

    assert release.load(places).outdated == ()


@pytest.mark.parametrize(
    "missing", ["module-resources/apply", "manager-resources/network-policies", "module-chart/chart"]
)
def test_a_missing_folder_is_named(places: Places, tmp_path: Path, missing: str) -> None:
    shutil.rmtree(tmp_path / missing)

    with pytest.raises(ModuleUnreadable, match=missing):
        release.load(places)


def test_a_broken_manifest_is_named_with_its_place(places: Places) -> None:
    (places.resources / "apply" / "aa.yml").write_text("kind: ConfigMap\n---\nkind: [\n")

    with pytest.raises(ModuleUnreadable, match=r"aa\.yml, document 2, line"):
        release.load(places)


@pytest.mark.parametrize(
    "chart", ["name: x\n", "version: 1.5\n", "version: ''\n", "version: 'no spaces'\n", "- a\n", "{"]
)
def test_a_chart_without_a_usable_version_is_refused(places: Places, chart: str) -> None:
    (places.chart / "Chart.yaml").write_text(chart)

    with pytest.raises(ModuleUnreadable, match=r"Chart\.yaml"):
        release.load(places)


def test_build_metadata_of_a_version_fits_into_a_label() -> None:
    assert release.label_value("v1.2.3+build.5") == "v1.2.3_build.5"


def test_a_loader_reads_again_only_when_a_file_changed(places: Places) -> None:
    loader = Loader()
    first = loader.load(places)
    same = loader.load(places)
    chart = places.chart / "Chart.yaml"
    chart.write_text(chart.read_text().replace("v0.11.10", "v9.99.99"))
    os.utime(chart, ns=(1, 1))

    assert same is first
    assert loader.load(places).version == "v9.99.99"


def test_a_loader_notices_a_file_that_appears(places: Places) -> None:
    loader = Loader()
    loader.load(places)
    (places.resources / "apply" / "zz.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra}\n")

    assert len(loader.load(places).documents) == 15


def test_a_loader_keeps_telling_what_is_wrong(places: Places) -> None:
    loader = Loader()
    loader.load(places)
    shutil.rmtree(places.resources / "apply")

    for _ in range(2):
        with pytest.raises(ModuleUnreadable):
            loader.load(places)
