"""The module's files: what to apply, what to delete, and under which version.

The folders belong to a release and are mounted or baked into an image, so they hardly ever change while we run. They
are read again when a file's name, size or time changes, which costs a few `stat` calls a pass.

A release comes from folders of manifests, as here, or from a chart (`chart.py`). Only the texts of failures and
updates depend on which.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from stellwerk.apply.errors import UnreadableManifest
from stellwerk.apply.objects import manifests
from stellwerk.apply.objects.desired import Document, kinds_of
from stellwerk.kube.types.identifiers import GroupVersionKind
from stellwerk.kube.types.model import dig
from stellwerk.operators.btp.errors import ModuleUnreadable
from stellwerk.operators.btp.settings import ModuleSource, Settings

SHIPPED = Path(__file__).parents[1] / "data"
"""The module that comes with us, laid out like the working directory of the original operator."""

APPLY_FOLDER = "apply"
OUTDATED_FILE = Path("delete", "to-delete.yml")
NETWORK_POLICIES_FOLDER = "network-policies"
CHART_FILE = "Chart.yaml"

Stamp = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class ModuleRelease:
    """One release of the module, as its files have it."""

    version: str
    documents: tuple[Document, ...]
    """What to apply, in the order of the files."""
    outdated: tuple[Document, ...] = ()
    """What former releases had and this one has not."""
    network_policies: tuple[Document, ...] = ()
    from_chart: bool = False

    @property
    def kinds(self) -> tuple[GroupVersionKind, ...]:
        """Every kind that this release applies, each once."""
        return kinds_of((*self.documents, *self.network_policies))


@dataclass(frozen=True, slots=True)
class Places:
    """Where the module's files lie."""

    resources: Path
    manager_resources: Path
    chart: Path

    @classmethod
    def of(cls, settings: Settings, working_directory: Path = Path()) -> Places:
        """The places that the settings name. Absolute paths stay as they are."""
        return cls(
            working_directory / settings.resources_path,
            working_directory / settings.manager_resources_path,
            working_directory / settings.chart_path,
        )

    def files(self) -> Iterable[Path]:
        """Every file that is read; one that a release may lack need not be there."""
        yield from _manifests(self.resources / APPLY_FOLDER)
        yield from self.network_policy_files()
        yield from (self.resources / OUTDATED_FILE, self.chart / CHART_FILE)

    def network_policy_files(self) -> Iterable[Path]:
        """The files with network policies."""
        yield from _manifests(self.manager_resources / NETWORK_POLICIES_FOLDER)


def in_force(settings: Settings, working_directory: Path) -> Settings:
    """The settings with the module's folders resolved.

    Relative ones lie in the working directory, as with the original. Each folder that is not there is taken from the
    module that we ship, whichever of the others are there. One that we do not ship either stays in the working
    directory: it may be filled later, and errors name it. What we ship is no chart: if a chart is asked for and not
    there, the error names the place in the working directory.
    """

    def own(folder: str) -> str:
        return str(working_directory / folder) if folder else ""

    def first(folder: str) -> str:
        is_taken_from_us = _is_folder(SHIPPED / folder) and not (folder and _is_folder(own(folder)))
        return str(SHIPPED / folder) if is_taken_from_us else own(folder)

    here = replace(
        settings,
        resources_path=str(working_directory / settings.resources_path),
        chart_path=own(settings.chart_path),
        manager_resources_path=first(settings.manager_resources_path),
    )
    has_chart = bool(here.chart_path) and _is_folder(here.chart_path)
    if settings.module_source is ModuleSource.CHART or (comes_from_chart(here) and has_chart):
        return here
    chart_path = first(settings.chart_path) if settings.chart_path else ""
    return replace(here, resources_path=first(settings.resources_path), chart_path=chart_path)


def comes_from_chart(settings: Settings) -> bool:
    """Whether the module's objects are rendered from a chart, by the settings and the content of ResourcesPath."""
    match settings.module_source:
        case ModuleSource.CHART:
            return True
        case ModuleSource.AUTO:
            return not _is_folder(Path(settings.resources_path, APPLY_FOLDER))
        case ModuleSource.RESOURCES:
            return False


def _is_folder(path: str | Path) -> bool:
    """Whether a folder is there that we may look at. The path is a user's, and `Path.is_dir` raises for some of them:
    a name that is too long, a folder above that may not be entered."""
    return os.path.isdir(path)


def load(places: Places) -> ModuleRelease:
    """Read the module. Raises `ModuleUnreadable` naming file, document and line."""
    return ModuleRelease(
        version=_version(places.chart / CHART_FILE),
        documents=_folder(places.resources / APPLY_FOLDER),
        outdated=_outdated(places.resources / OUTDATED_FILE),
        network_policies=network_policies(places),
    )


def network_policies(places: Places) -> tuple[Document, ...]:
    """The network policies, which are the manager's and not the operand's. Raises `ModuleUnreadable`."""
    return _folder(places.manager_resources / NETWORK_POLICIES_FOLDER)


class Loader:
    """Keeps a release in memory until its files change."""

    def __init__(self) -> None:
        self._places: Places | None = None
        self._stamp: Stamp = ()
        self._release: ModuleRelease | None = None

    def load(self, places: Places) -> ModuleRelease:
        """The module as the files have it now. Raises `ModuleUnreadable`."""
        stamp = stamp_of(places.files())
        if self._release is None or (places, stamp) != (self._places, self._stamp):
            self._release = load(places)
            self._places, self._stamp = places, stamp
        return self._release


def stamp_of(files: Iterable[Path]) -> Stamp:
    """What shows whether one of the files has changed, came or went. One that is not there is left out."""
    return tuple(one for path in files if (one := _stamped(path)) is not None)


def _stamped(path: Path) -> tuple[str, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None  # reading it reports what is wrong
    return str(path), found.st_mtime_ns, found.st_size


def _manifests(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.suffix in (".yml", ".yaml"))
    except OSError:
        return []  # reading it reports what is wrong


def _folder(folder: Path) -> tuple[Document, ...]:
    try:
        return manifests.read_folder(folder)
    except UnreadableManifest as error:
        raise ModuleUnreadable(f"{folder}: {error}") from error


def _outdated(file: Path) -> tuple[Document, ...]:
    """A release that never renamed anything may come without the file."""
    with _readable(file):
        return manifests.read_text(file.read_bytes(), file=file.name) if file.exists() else ()


def _version(file: Path) -> str:
    with _readable(file):
        version = dig(manifests.read_value(file.read_bytes(), file=file.name), "version")
    if not isinstance(version, str) or not version:
        raise ModuleUnreadable(f"{file}: has no version, or one that is not text")
    return label_value(version)


def label_value(version: str) -> str:
    """A version as a label's value. Build metadata's `+` becomes `_`, as Helm does it.

    Raises `ModuleUnreadable` where the API server would refuse the label.
    """
    value = version.replace("+", "_")
    if not re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", value):
        raise ModuleUnreadable(f"{CHART_FILE}: the version {version[:80]!r} cannot be the value of a label")
    return value


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    try:
        yield
    except UnreadableManifest as error:
        raise ModuleUnreadable(f"{file.parent}: {error}") from error
    except OSError as error:
        raise ModuleUnreadable(f"{file}: {error.strerror or 'cannot be read'}") from error
