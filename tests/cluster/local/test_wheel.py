"""A wheel, built for real: what it installs renders without source, compiler or cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CHART = {
    "Chart.yaml": "apiVersion: v2\nname: app\nversion: 1.0.0\n",
    "templates/app.yaml": (
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\ndata:\n  a: {{ upper .Values.a }}\n"
    ),
    "values.yaml": "a: from-the-wheel\n",
}


def called(*arguments: object, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the wheel of this checkout was installed."""
    folder = tmp_path_factory.mktemp("wheel")
    called("-m", "hatchling", "build", "-t", "wheel", "-d", folder / "dist")
    (wheel,) = (folder / "dist").iterdir()
    called("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", folder / "installed", wheel)
    return folder / "installed"


def test_an_installed_wheel_renders_a_chart_with_the_program_that_it_carries(installed: Path, tmp_path: Path) -> None:
    for name, text in CHART.items():
        (tmp_path / "chart" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "chart" / name).write_text(text)
    # Neither a compiler nor a program that was built before could help.
    alone = {"PYTHONPATH": str(installed), "PATH": "/nowhere", "STELLWERK_CACHE": str(tmp_path / "empty")}
    shown = called(installed / "bin/stellwerk", "template", "app", tmp_path / "chart", "--offline", **alone)
    assert "a: FROM-THE-WHEEL" in shown


def test_an_installed_wheel_knows_its_version_and_carries_the_licences(installed: Path) -> None:
    version = called(installed / "bin/stellwerk", "--version", PYTHONPATH=str(installed))
    (metadata,) = installed.glob("stellwerk-*.dist-info")
    assert metadata.name.removeprefix("stellwerk-").removesuffix(".dist-info") in version
    assert "helm.sh/helm/v4" in (installed / "stellwerk/render/bin/LICENSES").read_text()


def test_an_installed_wheel_carries_the_chart_that_the_cap_operator_manager_installs_from(installed: Path) -> None:
    found = called(
        "-c",
        "from stellwerk.operators.cap_manager.capoperator import chart; from pathlib import Path\n"
        "print(chart.product_folder(), chart.load(Path('absent')).is_product)",
        PYTHONPATH=str(installed),
    )
    assert found.split() == [str(installed / "stellwerk/chart"), "True"]
