"""The module's files: what to apply, what to delete, and under which version.

The folders belong to a release and are mounted or baked into an image, so they hardly ever change while we run. They
are read again when a file's name, size or time says so, which costs a few `stat` calls a pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from stellwerk.apply import manifests
from stellwerk.apply.desired import Document, kinds_of
from stellwerk.apply.errors import UnreadableManifest
from stellwerk.kube.model import dig
from stellwerk.kube.names import GroupVersionKind
from stellwerk.operators.btp.errors import ModuleUnreadable
from stellwerk.operators.btp.settings import Settings

SHIPPED = Path(__file__).parent / "data"
"""The module that comes with us, laid out like the working directory of the original operator."""

APPLY_FOLDER = "apply"
OUTDATED_FILE = Path("delete", "to-delete.yml")
NETWORK_POLICIES_FOLDER = "network-policies"
CHART_FILE = "Chart.yaml"

Stamp = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class Release:
    """One release of the module, as its files have it."""

    version: str
    documents: tuple[Document, ...]
    """What to apply, in the order of the files."""
    outdated: tuple[Document, ...] = ()
    """What former releases had and this one has not."""
    network_policies: tuple[Document, ...] = ()

    @property
    def kinds(self) -> tuple[GroupVersionKind, ...]:
        """Every kind that this release applies, each once."""
        return kinds_of((*self.documents, *self.network_policies))

    @property
    def kinds_to_remove(self) -> tuple[GroupVersionKind, ...]:
        """Every kind of which objects may have to be removed with the module."""
        return tuple(dict.fromkeys((*self.kinds, *kinds_of(self.outdated))))


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
        """Every file that is read, if it exists."""
        for folder in (self.resources / APPLY_FOLDER, self.manager_resources / NETWORK_POLICIES_FOLDER):
            if folder.is_dir():
                yield from sorted(path for path in folder.iterdir() if path.suffix in (".yml", ".yaml"))
        yield from (path for path in (self.resources / OUTDATED_FILE, self.chart / CHART_FILE) if path.is_file())


def load(places: Places) -> Release:
    """Read the module. Raises `ModuleUnreadable` naming file, document and line."""
    return Release(
        version=_version(places.chart / CHART_FILE),
        documents=_folder(places.resources / APPLY_FOLDER),
        outdated=_outdated(places.resources / OUTDATED_FILE),
        network_policies=_folder(places.manager_resources / NETWORK_POLICIES_FOLDER),
    )


class Loader:
    """Keeps a release in memory until its files change."""

    def __init__(self) -> None:
        self._places: Places | None = None
        self._stamp: Stamp = ()
        self._release: Release | None = None

    def load(self, places: Places) -> Release:
        """The module as the files have it now. Raises `ModuleUnreadable`."""
        stamp = _stamp(places)
        if self._release is None or (places, stamp) != (self._places, self._stamp):
            self._release = load(places)
            self._places, self._stamp = places, stamp
        return self._release


def _stamp(places: Places) -> Stamp:
    try:
        return tuple((str(path), (found := path.stat()).st_mtime_ns, found.st_size) for path in places.files())
    except OSError:
        return ()  # a file went away just now; reading it says which


def _folder(folder: Path) -> tuple[Document, ...]:
    try:
        return manifests.read_folder(folder)
    except UnreadableManifest as error:
        raise ModuleUnreadable(str(folder), _cause(error)) from error


def _outdated(file: Path) -> tuple[Document, ...]:
    """A release that never renamed anything may come without the file."""
    try:
        return manifests.read_text(file.read_bytes(), file=file.name) if file.exists() else ()
    except UnreadableManifest as error:
        raise ModuleUnreadable(str(file.parent), _cause(error)) from error
    except OSError as error:
        raise ModuleUnreadable(str(file), error.strerror or "cannot be read") from error


def _version(file: Path) -> str:
    try:
        version = dig(manifests.read_value(file.read_bytes(), file=file.name), "version")
    except UnreadableManifest as error:
        raise ModuleUnreadable(str(file.parent), _cause(error)) from error
    except OSError as error:
        raise ModuleUnreadable(str(file), error.strerror or "cannot be read") from error
    if not isinstance(version, str) or not version:
        raise ModuleUnreadable(str(file), "has no version, or one that is not text")
    return label_value(version)


def label_value(version: str) -> str:
    """A version as a label's value. Build metadata's `+` becomes `_`, as Helm does it.

    Raises `ModuleUnreadable` where the API server would refuse the label.
    """
    value = version.replace("+", "_")
    if not re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", value):
        raise ModuleUnreadable(CHART_FILE, f"the version {version[:80]!r} cannot be the value of a label")
    return value


def _cause(error: UnreadableManifest) -> str:
    return str(error)
