"""The files of a source: held in memory only, never changed, known by their digest.

    Files.of({"path": b"content"}) -> Files          a mapping of paths with slashes to bytes
    files.digest -> str                              sha256 in hex over names and content
    files.size -> int                                bytes of content
    files.under("deploy/app") -> Files               the files below, by their path from there
    files.below("deploy/app") -> Files               the same files under their full paths

`under` and `below` raise `PathNotFound` ("no such file or directory: ...") or `NotADirectory` ("not a directory: ...").
A path cannot leave the tree: there is nothing outside, and a leading slash means the root of it.

Folders exist as far as files are in them, or as the source names them: a path to a folder without files has none below
it and is not reported as missing. The root always exists.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from stellwerk.render.errors import BadArchive, NotADirectory, PathNotFound

LONGEST_PATH = 1_024
_MOST_VIEWS = 256


class Files(Mapping[str, bytes]):
    """Paths and contents, in the order of the paths. Shared freely: nothing in it changes."""

    def __init__(self, contents: Mapping[str, bytes], folders: Iterable[str] = ()) -> None:
        """`contents` and `folders` must have clean paths, as `of` makes sure for files."""
        self._contents = {path: contents[path] for path in sorted(contents)}
        self._views: dict[str, Files] = {}
        self._empty = sorted(folder for folder in folders if not _below(self._names, folder))
        """Folders that have no files."""

    @classmethod
    def of(cls, contents: Mapping[str, bytes | str]) -> Files:
        """Files from paths and contents. Raises `BadArchive` for a path that is absolute, unclean or leaves the tree,
        and where one is both file and folder."""
        cleaned: dict[str, bytes] = {}
        for path, content in contents.items():
            if len(path) > LONGEST_PATH:
                raise BadArchive(f"the path is longer than {LONGEST_PATH} characters", entry=path)
            if not path or clean_path(path) != path:
                raise BadArchive("the path is not clean: it is absolute, or has empty, `.` or `..` parts", entry=path)
            cleaned[path] = content.encode() if isinstance(content, str) else bytes(content)
        check_folders(cleaned)
        return cls(cleaned)

    def __getitem__(self, path: str) -> bytes:
        return self._contents[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._contents)

    def __len__(self) -> int:
        return len(self._contents)

    def __contains__(self, path: object) -> bool:
        return path in self._contents

    def __repr__(self) -> str:
        return f"Files({len(self)} files, {self.size} bytes, {self.digest[:12]})"

    def __hash__(self) -> int:
        return hash(self.digest)

    def __eq__(self, other: object) -> bool:
        return self.digest == other.digest if isinstance(other, Files) else NotImplemented

    @cached_property
    def size(self) -> int:
        """Bytes of content and names."""
        return sum(map(len, self._empty)) + sum(len(path) + len(content) for path, content in self._contents.items())

    @cached_property
    def digest(self) -> str:
        """sha256 in hex over names and contents; lengths are part of it, so that nothing runs together."""
        found = hashlib.sha256()
        for path, content in self._contents.items():
            name = path.encode()
            found.update(b"%d:%d:" % (len(name), len(content)))
            found.update(name)
            found.update(content)
        for folder in self._empty:
            found.update(b"%d/%s" % (len(folder.encode()), folder.encode()))
        return found.hexdigest()

    @property
    def unhashed_bytes(self) -> int:
        """How many bytes `digest` has to read; 0 where it is known."""
        return 0 if "digest" in self.__dict__ else self.size

    def under(self, path: str) -> Files:
        """The files below a folder, by their path from there."""
        below, folder = self.below(path), clean_path(path.lstrip("/"))
        if not folder:
            return self
        start = len(folder) + 1
        empty = [each[start:] for each in below._empty if each != folder]
        return Files({name[start:]: content for name, content in below.items()}, empty)

    def below(self, path: str) -> Files:
        """The files below a folder, under full paths."""
        folder = clean_path(path.lstrip("/"))
        if folder == "":
            return self
        if folder is None:
            raise PathNotFound(path, self._folders_near(""))
        if folder in self._views:
            return self._views[folder]
        names = _below(self._names, folder)
        empty = [*_below(self._empty, folder), *([folder] if folder in self._empty else [])]
        if not names and not empty:
            failure = NotADirectory if folder in self._contents else PathNotFound
            raise failure(path, self._folders_near(folder))
        is_all = len(names) == len(self) and len(empty) == len(self._empty)
        view = self if is_all else Files({name: self._contents[name] for name in names}, empty)
        if view is not self and len(self._views) < _MOST_VIEWS:
            self._views[folder] = view  # its digest is asked for in every pass
        return view

    def _folders_near(self, path: str) -> tuple[str, ...]:
        """The folders in the last one of a path that exists, in order; if it has none, that one."""
        names, parent = [*self._names, *(f"{folder}/" for folder in self._empty)], path
        while parent := parent.rpartition("/")[0]:
            if any(each.startswith(f"{parent}/") for each in names):
                break
        begin = f"{parent}/" if parent else ""
        below = {each[len(begin) :].partition("/") for each in names if each.startswith(begin)}
        folders = sorted(f"{begin}{name}" for name, slash, _ in below if slash and name)
        return tuple(dict.fromkeys(folders or filter(None, [parent])))

    @cached_property
    def _names(self) -> list[str]:
        return list(self._contents)


NOTHING = Files({})


def _below(paths: Sequence[str], folder: str) -> Sequence[str]:
    """Those of the sorted paths that are below a folder."""
    # "0" is the character after "/".
    return paths[bisect_left(paths, f"{folder}/") : bisect_left(paths, f"{folder}0")]


def clean_path(path: str) -> str | None:
    """A relative path without empty, `.` and `..` parts; "" is the root, None what is absolute or leaves it."""
    if path.startswith("/") or "\0" in path:
        return None
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def check_folders(contents: Mapping[str, bytes]) -> None:
    """Raises `BadArchive` where a file is in something that is itself a file."""
    for path in contents:
        end = path.find("/")
        while end >= 0:
            if path[:end] in contents:
                raise BadArchive("it is a file and a folder at once", entry=path[:end])
            end = path.find("/", end + 1)
