"""A layer has the same bytes each time, and they are those of its tree."""

from __future__ import annotations

import gzip
import hashlib
import tarfile
import tempfile
from pathlib import Path

from deploy.image import layer
from deploy.image.tree import Directory, File, Link, Node
from hypothesis import given
from hypothesis import strategies as st

TREE: dict[str, Node] = {
    "usr/bin/program": File(b"program", 0o755),
    "etc/passwd": File(b"root:x:0:0\n"),
    "bin": Link("usr/bin"),
    "home/nonroot": Directory(0o700, 65532, 65532),
    "usr/" + "a" * 120 + "/" + "b" * 120: File("ä".encode()),
}


def test_a_layer_does_not_depend_on_the_order_of_its_files(tmp_path: Path) -> None:
    first = layer.write(TREE, tmp_path / "first")
    second = layer.write(dict(reversed(TREE.items())), tmp_path / "second")
    assert (first.digest, first.diff_id) == (second.digest, second.diff_id)
    assert first.file.read_bytes() == second.file.read_bytes()


def test_the_digests_are_those_of_the_file_and_of_the_archive_in_it(tmp_path: Path) -> None:
    written = layer.write(TREE, tmp_path / "layer")
    compressed = written.file.read_bytes()
    archive = gzip.decompress(compressed)
    assert written.digest == f"sha256:{hashlib.sha256(compressed).hexdigest()}"
    assert written.diff_id == f"sha256:{hashlib.sha256(archive).hexdigest()}"
    assert (written.size, written.unpacked_size) == (len(compressed), len(archive))


def test_every_member_has_numbers_for_owners_and_one_time(tmp_path: Path) -> None:
    with tarfile.open(layer.write(TREE, tmp_path / "layer").file) as archive:
        members = archive.getmembers()
    assert {(member.uname, member.gname, member.mtime) for member in members} == {("", "", layer.MODIFIED)}
    assert [(member.uid, member.gid) for member in members if member.name == "home/nonroot"] == [(65532, 65532)]


def test_a_directory_comes_before_what_is_in_it(tmp_path: Path) -> None:
    with tarfile.open(layer.write(TREE, tmp_path / "layer").file) as archive:
        names = archive.getnames()
    assert names == sorted(names)
    assert {"usr", "usr/bin", "home"} <= set(names)


@given(st.dictionaries(st.text("ab/", min_size=1, max_size=6).filter(lambda path: "//" not in path), st.binary()))
def test_what_is_written_can_be_read(contents: dict[str, bytes]) -> None:
    files = {path.strip("/"): File(content) for path, content in contents.items() if path.strip("/")}
    tree = {path: node for path, node in files.items() if not any(other.startswith(f"{path}/") for other in files)}
    with (
        tempfile.TemporaryDirectory() as folder,
        tarfile.open(layer.write(tree, Path(folder, "layer")).file) as archive,
    ):
        stored = {
            member.name: stream.read()
            for member in archive
            if member.isfile() and (stream := archive.extractfile(member)) is not None
        }
    assert stored == {path: node.content for path, node in tree.items()}
