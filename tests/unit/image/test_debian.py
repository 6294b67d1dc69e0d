"""Debian packages: the lock, and what is read from a package."""

from __future__ import annotations

import hashlib
import io
import sys
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


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program called apt-get that has whatever is in the returned folder."""
    packages, programs = tmp_path / "archive", tmp_path / "programs"
    packages.mkdir()
    programs.mkdir()
    (programs / "apt-get").write_text(
        f"#!{sys.executable}\n"
        "import pathlib, shutil, sys\n"
        "names = sys.argv[sys.argv.index('download') + 1 :] if 'download' in sys.argv else []\n"
        "for name in names:\n"
        f"    file = pathlib.Path({str(packages)!r}, name.replace('=', '_') + '_amd64.deb')\n"
        "    if not file.exists(): sys.exit(f\"E: Version for '{name}' was not found\")\n"
        "    shutil.copy(file, '.')\n"
    )
    (programs / "apt-get").chmod(0o755)
    (tmp_path / "keys").touch()
    monkeypatch.setattr(debian, "KEYS", str(tmp_path / "keys"))
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("STELLWERK_CACHE", str(tmp_path / "cache"))
    return packages


def test_a_package_with_the_locked_hash_is_fetched_into_the_cache(archive: Path) -> None:
    (archive / "example_1_amd64.deb").write_bytes(b"content")
    package = debian.Package("example", "1", hashlib.sha256(b"content").hexdigest())
    (file,) = debian.fetched([package], lambda text: None)
    assert file.read_bytes() == b"content"
    (archive / "example_1_amd64.deb").unlink()
    assert debian.fetched([package], lambda text: None) == [file]


def test_a_package_with_another_hash_is_refused_and_not_kept(archive: Path, tmp_path: Path) -> None:
    (archive / "example_1_amd64.deb").write_bytes(b"replaced")
    package = debian.Package("example", "1", hashlib.sha256(b"content").hexdigest())
    with pytest.raises(BuildFailed, match=r"example 1 .* has not the hash of debian\.lock"):
        debian.fetched([package], lambda text: None)
    assert not list((tmp_path / "cache").rglob("*.deb"))


def test_a_version_that_the_archive_replaced_is_named_with_both_ways_out(archive: Path) -> None:
    with pytest.raises(BuildFailed) as raised:
        debian.fetched([debian.Package("example", "1", "0" * 64)], lambda text: None)
    assert "E: Version for 'example=1' was not found" in raised.value.cause
    moment = debian.LOCK.read_text().partition("as of ")[2].split()[0]
    assert raised.value.fix == (
        "choose newer versions: make image-lock; or fetch the locked ones: "
        f"DEBIAN_MIRROR=http://snapshot.debian.org/archive/debian/{moment} "
        f"DEBIAN_SECURITY_MIRROR=http://snapshot.debian.org/archive/debian-security/{moment} make image"
    )


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
