"""Files as a layer of an image stores them.

A tree maps paths to nodes; paths are relative to the root of the image, with `/` between their segments. Owners are
numbers, because an image has no user database at the time that it is unpacked. Times are absent: `layer` writes the
same one for every file.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory."""

    mode: int = 0o755
    uid: int = 0
    gid: int = 0


@dataclass(frozen=True, slots=True)
class File:
    """A regular file with its content."""

    content: bytes
    mode: int = 0o644
    uid: int = 0
    gid: int = 0


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link."""

    target: str


Node = Directory | File | Link
Tree = Mapping[str, Node]


def with_parents(tree: Tree) -> dict[str, Node]:
    """The tree with a directory for each parent that it lacks, sorted by path, so that parents come first."""
    parents = {
        str(parent): Directory() for path in tree for parent in PurePosixPath(path).parents if str(parent) != "."
    }
    return dict(sorted({**parents, **tree}.items()))


def of_folder(folder: Path, prefix: str = "") -> dict[str, Node]:
    """The files and links below a folder, as files of root under `prefix`. Modes are 0755 if executable, else 0644."""
    return {f"{prefix}{path.relative_to(folder).as_posix()}": _node(path) for path in _files(folder)}


def write(tree: Tree, folder: Path) -> None:
    """Write the tree below a folder with the owner and the umask of this process; for programs that read it there."""
    for path, node in with_parents(tree).items():
        target = folder / path
        match node:
            case Directory():
                target.mkdir(exist_ok=True)
            case Link(link):
                target.symlink_to(link)
            case File(content, mode):
                target.write_bytes(content)
                target.chmod(mode)


def size(tree: Tree) -> int:
    """The bytes of all files."""
    return sum(len(node.content) for node in tree.values() if isinstance(node, File))


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_symlink() or path.is_file())


def _node(path: Path) -> Node:
    if path.is_symlink():
        return Link(str(path.readlink()))
    executable = path.stat().st_mode & stat.S_IXUSR
    return File(path.read_bytes(), 0o755 if executable else 0o644)
