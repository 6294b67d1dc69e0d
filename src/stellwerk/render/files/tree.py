"""Entries of an archive become a tree of files, and the links among them become content.

Links are followed here, once: a link to a file becomes that file's content, a link to a folder the files below it.
The renderer then sees files only, and no link can lead out of the tree. What links repeat counts against the same
limits as what the archive holds, its names included: a folder linked into a folder a thousand times is a bomb like any
other, and so is a name that grows with each link.

A link that would leave the tree is refused. One that leads nowhere inside it is left out: repositories are full of
them, and the reader of the file gets the error that it is missing.
"""

from __future__ import annotations

from collections.abc import Iterator

from stellwerk.render.errors import BadArchive
from stellwerk.render.files.files import Files, check_folders
from stellwerk.render.files.limits import Meter, too_large, too_many
from stellwerk.render.files.tar_reader import EntryKind, TarEntry

_MOST_STEPS = 40
"""How many links may lead to one another; the number that Linux allows."""
_MOST_WORK = 1_000_000
"""Parts of paths walked while links are followed: what bounds the time of an archive made of nothing else."""


class FileTree:
    """Takes entries one by one; `files` ends it."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._limits = meter.limits
        self._contents: dict[str, bytes] = {}
        self._links: dict[str, str] = {}
        """Path to target, as written by a symbolic link at that path."""
        self._folders: set[str] = set()
        self._entries = 0
        self._bytes = 0
        self._work = 0

    def add(self, entry: TarEntry) -> None:
        """Take one entry. Raises `BadArchive`."""
        self._count(entry.name, 0)
        path = self._path(entry.name)
        if path == "":
            if entry.kind is not EntryKind.FOLDER:
                raise BadArchive("the root of the archive is no folder", entry=entry.name)
        elif path in self._contents or path in self._links or (path in self._folders and not _is_folder(entry)):
            raise BadArchive("the name appears twice", entry=path)
        else:
            self._put(path, entry)

    def files(self) -> Files:
        """All files, links followed. Raises `BadArchive`."""
        check_folders({**self._contents, **dict.fromkeys(self._links, b""), **self._folder_clashes()})
        if not self._links:
            return Files(self._contents, self._folders)
        children = _children([*self._contents, *self._links])
        expanded = dict(self._contents)
        for link in sorted(self._links):
            for path, real in self._reached(link, link, children):
                self._count_bytes(len(self._contents[real]))
                expanded[path] = self._contents[real]
        return Files(expanded, self._folders)

    def _put(self, path: str, entry: TarEntry) -> None:
        match entry.kind:
            case EntryKind.FILE:
                self._count_bytes(len(entry.content))
                self._contents[path] = entry.content
            case EntryKind.FOLDER:
                self._folders.add(path)
            case EntryKind.SYMLINK:
                if len(entry.target) > self._limits.name_bytes:
                    raise BadArchive("the target of the link is too long", entry=path)
                self._links[path] = entry.target
            case EntryKind.HARD_LINK:
                self._hard_link(path, entry)

    def _hard_link(self, path: str, entry: TarEntry) -> None:
        target = self._path(entry.target)
        if target in self._links:
            raise BadArchive("it is a hard link to a symbolic one", entry=path)
        if target not in self._contents:
            raise BadArchive("it links to a file that is not in the archive before it", entry=path)
        self._count_bytes(len(self._contents[target]))
        self._contents[path] = self._contents[target]

    def _path(self, name: str) -> str:
        if name.startswith("/"):
            raise BadArchive("the name is absolute", entry=name)
        parts = name.split("/")
        if ".." in parts:
            raise BadArchive("the name contains `..`", entry=name)
        if "\0" in name or len(name.encode()) > self._limits.name_bytes or len(parts) > self._limits.depth:
            raise BadArchive("the name is too long, too deep, or holds a zero byte", entry=name)
        return "/".join(part for part in parts if part not in ("", "."))

    def _folder_clashes(self) -> dict[str, bytes]:
        """Folders that were named and are nothing else: a file there was refused already, one above shows now."""
        return {f"{folder}/": b"" for folder in self._folders}

    def _count(self, name: str, size: int) -> None:
        self._entries += 1
        if self._entries > self._limits.entries:
            raise too_many(self._limits)
        self._count_bytes(size)

    def _count_bytes(self, size: int) -> None:
        self._bytes += size
        if self._bytes > self._limits.bytes:
            raise too_large(self._limits)

    # ---- links

    def _reached(self, link: str, shown: str, children: dict[str, list[str]]) -> Iterator[tuple[str, str]]:
        """The files behind a link: the path where each shows, and its real path."""
        pending = [(link, self._shown(shown), 0)]
        while pending:
            path, where, depth = pending.pop()
            real = self._resolved(path)
            if real in self._contents:
                yield where, real
                continue
            if depth > self._limits.depth:
                raise BadArchive("links lead into their own folder, without end", entry=link)
            below = children.get(real, ()) if real is not None else ()
            pending.extend(
                (f"{real}/{name}" if real else name, self._shown(f"{where}/{name}"), depth + 1) for name in below
            )

    def _shown(self, path: str) -> str:
        """A path that links make. It counts as an entry, and with its length: links can make long ones out of few."""
        size = len(path.encode())
        if size > self._limits.name_bytes:
            raise BadArchive("links make a name that is too long", entry=path)
        self._count(path, size)
        return path

    def _resolved(self, path: str) -> str | None:
        """The real path behind a path that may lead over links; None where a link leads nowhere."""
        self._meter.check_time()
        real: list[str] = []
        pending = path.split("/")[::-1]
        steps = 0
        while pending:
            self._walk()
            part = pending.pop()
            if part == "..":
                if not real:
                    raise BadArchive("the link leaves the archive", entry=path)
                real.pop()
            elif part not in ("", "."):
                real.append(part)
            target = self._links.get("/".join(real)) if part not in ("", ".", "..") else None
            if target is None:
                continue
            steps += 1
            if target.startswith("/"):
                raise BadArchive("the link leaves the archive: its target is absolute", entry=path)
            if steps > _MOST_STEPS:
                raise BadArchive("links refer to each other in a cycle", entry=path)
            real.pop()
            pending.extend(reversed(target.split("/")))
        return "/".join(real)

    def _walk(self) -> None:
        self._work += 1
        if self._work > _MOST_WORK:
            raise BadArchive("following its links takes too long")


def _is_folder(entry: TarEntry) -> bool:
    return entry.kind is EntryKind.FOLDER


def _children(paths: list[str]) -> dict[str, list[str]]:
    """The direct content of each folder; "" is the root."""
    found: dict[str, set[str]] = {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        while name not in found.setdefault(folder, set()):
            found[folder].add(name)
            if not folder:
                break
            folder, _, name = folder.rpartition("/")
    return {folder: sorted(names) for folder, names in found.items()}
