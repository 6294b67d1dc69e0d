"""Debian packages: the lock, and what is read from a package."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from deploy.image import debian
from deploy.image.tree import Directory, File, Link

from stellwerk.local.errors import BuildFailed


def test_the_lock_has_exactly_the_packages_of_the_list() -> None:
    packages = debian.locked()
    assert sorted(package.name for package in packages) == sorted(debian.names())
    assert all(len(package.sha256) == 64 and package.version for package in packages)


def test_a_list_without_lock_is_refused_with_the_command_that_makes_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "debian.txt").write_text("libc6\nlibnew1 # new\n")
    monkeypatch.setattr(debian, "LIST", tmp_path / "debian.txt")
    with pytest.raises(BuildFailed, match="make image-lock"):
        debian.locked()


def test_a_package_is_read_with_modes_owners_and_links(tmp_path: Path) -> None:
    unpacked = debian.read(_package(tmp_path))
    assert unpacked.control == "Package: example\n"
    assert unpacked.files == {
        "usr": Directory(0o755),
        "usr/program": File(b"odd", 0o755, 0, 5),
        "usr/same": File(b"odd", 0o755, 0, 5),
        "usr/link": Link("program"),
    }


@pytest.mark.parametrize("content", [b"", b"<html>not found</html>", b"!<arch>\nshort"])
def test_what_is_no_package_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "broken.deb"
    file.write_bytes(content)
    with pytest.raises(BuildFailed, match=rf"cannot read {file}"):
        debian.read(file)


def test_a_cached_package_is_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without apt nothing can be fetched, so what is returned came from the cache."""
    monkeypatch.setenv("STELLWERK_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    package = debian.Package("example", "1", "0" * 64)
    with pytest.raises(BuildFailed, match="docker build"):
        debian.fetched([package], lambda text: None)
    (tmp_path / "debian").mkdir()
    (tmp_path / "debian" / f"{package.sha256}.deb").write_bytes(b"")
    assert debian.fetched([package], lambda text: None) == [tmp_path / "debian" / f"{package.sha256}.deb"]


def _package(folder: Path) -> Path:
    """A package as dpkg-deb writes it, with a member of odd length."""
    data = [
        _member("./", tarfile.DIRTYPE),
        _member("./usr/", tarfile.DIRTYPE),
        (_member("./usr/program", tarfile.REGTYPE, gid=5)[0], b"odd"),
        _member("./usr/same", tarfile.LNKTYPE, target="./usr/program"),
        _member("./usr/link", tarfile.SYMTYPE, target="program"),
    ]
    control = [(_member("./control", tarfile.REGTYPE)[0], b"Package: example\n")]
    parts = {"debian-binary": b"2.0\n", "control.tar.gz": _tar(control, "gz"), "data.tar.xz": _tar(data, "xz")}
    content = b"!<arch>\n"
    for name, part in parts.items():
        header = f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(part):<10}`\n"
        content += header.encode() + part + b"\n" * (len(part) % 2)
    file = folder / "example.deb"
    file.write_bytes(content)
    return file


def _member(name: str, kind: bytes, *, gid: int = 0, target: str = "") -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.type, member.mode, member.gid, member.linkname = kind, 0o755, gid, target
    return member, b""


def _tar(members: list[tuple[tarfile.TarInfo, bytes]], compression: str) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=f"w:{compression}") as archive:  # type: ignore[call-overload] # a literal
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()
