"""The built image, and containers of it. All tests here are skipped, with the reason, where it was not built."""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from deploy.image import build, layout
from tests.image import container, registry
from tests.image.container import Runtime

from stellwerk.local.cluster import LocalCluster
from stellwerk.local.errors import LocalError
from stellwerk.testing import cluster as clusters

HERE = Path(__file__).parent
VARIABLE = "STELLWERK_IMAGE"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if reason := _missing():
        for item in items:
            if item.path.is_relative_to(HERE):
                item.add_marker(pytest.mark.skip(reason=reason))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the registry before the first test, whose time limit a build would break. The tests report a failure."""
    ours = any(item.path.name in ("test_registry.py", "test_module_sources.py") for item in session.items)
    if ours and not session.config.option.collectonly and not _missing():
        with contextlib.suppress(LocalError):
            registry.programs()


def _missing() -> str:
    """Why the tests cannot run; empty where they can."""
    if not os.environ.get(VARIABLE):
        return f"{VARIABLE} names no built image; build and test one: make test-image"
    if os.geteuid() != 0:
        return "only root can unpack files with their owners and start containers: sudo make test-image"
    return ""


@dataclass(frozen=True, slots=True)
class BuiltImage:
    """What `make image` wrote."""

    folder: Path

    @property
    def layout(self) -> Path:
        """The OCI layout."""
        return self.folder / build.LAYOUT

    @property
    def bill(self) -> Path:
        """The bill of materials."""
        return self.folder / build.BILL

    @property
    def archive(self) -> Path:
        """The image as one file."""
        (file,) = self.folder.glob("*.tar")
        return file


@pytest.fixture(scope="session")
def image() -> BuiltImage:
    """The image under test."""
    return BuiltImage(Path(os.environ[VARIABLE]).absolute())


@pytest.fixture(scope="session")
def root(image: BuiltImage, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root file system, unpacked from the layers."""
    folder = tmp_path_factory.mktemp("image") / "root"
    layout.unpack(image.layout, folder)
    return folder


@pytest.fixture(scope="session")
def runtime(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Runtime:
    """The best way to start containers that this machine allows."""
    return container.best(root, tmp_path_factory.mktemp("trial"))


@pytest.fixture(scope="session")
def cluster() -> LocalCluster:
    """The session's cluster: everything runs, pods live."""
    return clusters.started("shared")


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """A folder for one container."""
    folder = tmp_path / "container"
    shutil.rmtree(folder, ignore_errors=True)
    return folder
