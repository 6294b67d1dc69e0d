"""An archive becomes files in memory, or nothing of it is used."""

from __future__ import annotations

import bz2
import gzip
import io
import stat
import struct
import tarfile
import tracemalloc
import zipfile
import zlib
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.promptly import promptly
from tests.unit.render.archives import PACKERS, TREE, Member, files, tar, tar_gz, tar_of, zip_with_mode, zipped

from stellwerk.render.errors import BadArchive, NotADirectory, PathNotFound
from stellwerk.render.files.archive import unpack
from stellwerk.render.files.files import Files
from stellwerk.render.files.limits import ArchiveLimits, Meter
from stellwerk.render.files.tar_reader import EntryKind, TarEntry
from stellwerk.render.files.tree import FileTree

pytestmark = pytest.mark.heavy

MIB = 2**20


@pytest.mark.parametrize("form", PACKERS)
def test_files_come_out_of_every_form_as_they_went_in(form: str) -> None:
    assert dict(unpack(PACKERS[form](TREE))) == TREE


def test_all_forms_of_a_tree_have_one_digest() -> None:
    assert len({unpack(pack(TREE)).digest for pack in PACKERS.values()}) == 1


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_long_names_and_other_alphabets_survive(form: int) -> None:
    tree = {"f" * 150 + "/" + "n" * 200: b"1", "gr\u00fc\u00dfe/\u65e5\u672c.yaml": b"2"}
    assert dict(unpack(tar(files(tree), form=form))) == tree


def test_a_global_header_as_github_writes_it_is_accepted() -> None:
    data = tar(files(TREE), headers={"comment": "0123456789abcdef0123456789abcdef01234567"})
    assert dict(unpack(gzip.compress(data))) == TREE


def test_the_folder_itself_and_leading_dots_are_no_names() -> None:
    data = tar([Member(".", type=tarfile.DIRTYPE), Member("./a/", type=tarfile.DIRTYPE), Member("./a/b.yaml", b"x")])
    assert dict(unpack(data)) == {"a/b.yaml": b"x"}


def test_an_archive_without_files_is_an_empty_tree() -> None:
    assert dict(unpack(tar([]))) == {}
    assert dict(unpack(zipped({}, folders=False))) == {}


@pytest.mark.parametrize(
    ("name", "content_type", "expected"),
    [
        ("all.yaml", "", "all.yaml"),
        ("ALL.YML", "text/html", "ALL.YML"),
        ("download", "application/yaml; charset=utf-8", "manifest.yaml"),
        ("", "text/x-yaml", "manifest.yaml"),
        ("", "application/vnd.oai.openapi+json", "manifest.json"),
    ],
)
def test_a_single_manifest_is_a_tree_of_one_file(name: str, content_type: str, expected: str) -> None:
    assert dict(unpack(b"kind: A\n", name=name, content_type=content_type)) == {expected: b"kind: A\n"}


def test_a_single_manifest_may_be_packed() -> None:
    assert dict(unpack(gzip.compress(b"a: 1"), name="x.yaml.gz")) == {"x.yaml": b"a: 1"}
    assert dict(unpack(bz2.compress(b"a: 1"), name="x.json.bz2")) == {"x.json": b"a: 1"}


@pytest.mark.parametrize(
    ("data", "name", "why"),
    [
        (b"<html>not found</html>", "app.tar.gz", "neither tar"),
        (b"", "", "neither tar"),
        (b"\xff\xfe", "x.yaml", "no UTF-8"),
        (b"a\0b", "x.yaml", "zero bytes"),
        (gzip.compress(b"hello", mtime=0), "x.tar.gz", "neither tar nor named as YAML"),
        (b"\xfd7zXZ\0rest", "x.tar.xz", "neither tar"),
    ],
)
def test_what_is_no_archive_is_refused(data: bytes, name: str, why: str) -> None:
    with pytest.raises(BadArchive, match=why):
        unpack(data, name=name)


# ---- what nobody should send


SYMLINK, HARD = tarfile.SYMTYPE, tarfile.LNKTYPE
HARMFUL = {
    "dots": ([Member("../x", b"1")], r"`\.\.`"),
    "dots inside": ([Member("a/../../x", b"1")], r"`\.\.`"),
    "dots that stay inside": ([Member("a/../x", b"1")], r"`\.\.`"),
    "an absolute name": ([Member("/etc/passwd", b"1")], "absolute"),
    "a link to an absolute path": ([Member("a", type=SYMLINK, target="/etc/passwd")], "leaves"),
    "a link upwards": ([Member("a/b", type=SYMLINK, target="../../x")], "leaves"),
    "a link upwards over another": (
        [
            Member("a", type=SYMLINK, target="b/c"),
            Member("b/c/d", b"1"),
            Member("e", type=SYMLINK, target="a/../../../x"),
        ],
        "leaves",
    ),
    "a file written through a link": (
        [Member("a", type=SYMLINK, target="b"), Member("a/x", b"1")],
        "file and a folder",
    ),
    "a hard link out": ([Member("a", type=HARD, target="../x")], r"`\.\.`"),
    "a hard link to nothing": ([Member("a", type=HARD, target="x")], "before it"),
    "links in a circle": (
        [Member("a", type=SYMLINK, target="b"), Member("b", type=SYMLINK, target="a")],
        "cycle",
    ),
    "a link into its own folder": (
        [Member("a/x", b"1"), Member("a/self", type=SYMLINK, target=".")],
        "own folder",
    ),
    "a character device": ([Member("a", type=tarfile.CHRTYPE)], "device"),
    "a block device": ([Member("a", type=tarfile.BLKTYPE)], "device"),
    "a pipe": ([Member("a", type=tarfile.FIFOTYPE)], "pipe"),
    "a sparse file": ([Member("a", type=tarfile.GNUTYPE_SPARSE)], "sparse"),
    "an unknown type": ([Member("a", type=b"Z")], "unknown type"),
    "the same name twice": ([Member("a", b"1"), Member("a", b"2")], "twice"),
    "the same name in two spellings": ([Member("a/b", b"1"), Member("./a//b", b"2")], "twice"),
    "a file and a link of one name": ([Member("a", b"1"), Member("a", type=SYMLINK, target="b")], "twice"),
    "a file that is a folder": ([Member("a", b"1"), Member("a/b", b"2")], "file and a folder"),
    "a folder that is a file": ([Member("a", type=tarfile.DIRTYPE), Member("a", b"2")], "twice"),
    "a folder below a file": ([Member("a", b"1"), Member("a/b/", type=tarfile.DIRTYPE)], "file and a folder"),
    "a name beyond all length": ([Member("n" * 1100, b"1")], "too long"),
    "a name beyond all depth": ([Member("a/" * 70 + "b", b"1")], "too deep"),
}


@pytest.mark.req("R-403")
@pytest.mark.parametrize("what", HARMFUL)
def test_harmful_entries_are_refused(what: str) -> None:
    members, why = HARMFUL[what]
    with pytest.raises(BadArchive, match=why):
        unpack(tar_gz(members))


@pytest.mark.req("R-403")
@pytest.mark.parametrize(
    ("data", "why"),
    [
        (zipped({"../x": b"1"}), r"`\.\.`"),
        (zipped({"/x": b"1"}), "absolute"),
        (zip_with_mode("a", stat.S_IFLNK | 0o777, b"/etc/passwd"), "leaves"),
        (zip_with_mode("a", stat.S_IFLNK | 0o777, b"../x"), "leaves"),
        (zip_with_mode("a", stat.S_IFCHR | 0o777, b""), "device"),
        (zip_with_mode("a", stat.S_IFLNK | 0o777, b"\xff"), "UTF-8"),
        (zipped(TREE) + b"more", "data follows"),
        (zipped(TREE)[:-30], "cut off"),
        (zipped(TREE)[:40], "cut off"),
        (zipped(TREE).replace(b"kind: A", b"kind: C"), "damaged"),
    ],
    ids=["dots", "absolute", "link out", "link up", "device", "bad link", "trailing", "cut", "cut early", "changed"],
)
def test_harmful_zip_archives_are_refused(data: bytes, why: str) -> None:
    with pytest.raises(BadArchive, match=why):
        unpack(data if why != "damaged" else zipped(TREE, method=zipfile.ZIP_STORED).replace(b"kind: A", b"kind: C"))


@pytest.mark.req("R-403")
def test_a_zip_archive_with_a_password_or_another_method_is_refused() -> None:
    data = bytearray(zipped({"a": b"x"}, folders=False))
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(BadArchive, match="encrypted"):
        unpack(bytes(data))
    with pytest.raises(BadArchive, match="method"):
        unpack(zipped({"a": b"x" * 99}, method=zipfile.ZIP_LZMA))


@pytest.mark.req("R-403")
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_zip_archive_with_a_name_twice_is_refused() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a", b"1")
        archive.writestr("a", b"2")
    with pytest.raises(BadArchive, match="twice"):
        unpack(out.getvalue())


WHOLE = tar_of(TREE)


@pytest.mark.req("R-403")
@pytest.mark.parametrize("length", [600, 1024, 1536, len(WHOLE.rstrip(b"\0")) + 1])
@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress])
def test_a_tar_archive_that_was_cut_is_refused_even_between_entries(length: int, pack: type[bytes]) -> None:
    with pytest.raises(BadArchive, match="cut off"):
        unpack(pack(WHOLE[: length - length % 512 if length > 1024 else length]))


@pytest.mark.req("R-403")
@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_a_packed_stream_that_was_cut_damaged_or_added_to_is_refused(pack: type[bytes]) -> None:
    data = pack(WHOLE)
    with pytest.raises(BadArchive, match="cut off"):
        unpack(data[:-5])
    with pytest.raises(BadArchive, match="follows"):
        unpack(data + b"more")
    with pytest.raises(BadArchive, match="follows"):
        unpack(data + bytes(100))
    with pytest.raises(BadArchive, match=r"damaged|cut off|tar archive|neither"):
        unpack(data[: len(data) // 2] + b"\xa5" + data[len(data) // 2 + 1 :])


@pytest.mark.req("R-403")
def test_data_after_the_end_of_a_tar_archive_is_refused() -> None:
    with pytest.raises(BadArchive, match="follows the end"):
        unpack(WHOLE + b"x" * 512)
    with pytest.raises(BadArchive, match="follows the end"):
        unpack(WHOLE + tar_of({"later": b"1"}))
    assert dict(unpack(WHOLE + bytes(4096))) == TREE


@pytest.mark.req("R-403")
def test_a_damaged_header_is_refused() -> None:
    data = bytearray(WHOLE)
    second = WHOLE.index(b"templates/a.yaml")
    data[second] ^= 1
    with pytest.raises(BadArchive, match="checksum"):
        unpack(bytes(data))


def header(name: bytes, size: bytes, type_: bytes = b"0") -> bytes:
    """A header whose fields are what a test wants, with a checksum that fits."""
    block = bytearray(512)
    block[: len(name)], block[124 : 124 + len(size)], block[156:157] = name, size, type_
    block[257:265] = b"ustar\x0000"
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


@pytest.mark.req("R-403")
@pytest.mark.parametrize(
    ("data", "why"),
    [
        (header(b"a", b"7777777777777\0"[:12]), "cut off"),
        (header(b"a", b"\x80" + b"\x7f" * 11), "range"),
        (header(b"a", b"\xff" * 12), "range"),
        (header(b"a", b"12x\0"), "none"),
        (header(b"a", b"-1\0"), "none"),
        (header(b"\xff\xfe", b"0\0"), "UTF-8"),
        (header(b"h", b"7777777777\0", b"x"), "larger than 1 MiB"),
        (header(b"h", b"12\0", b"x") + b"99 path=abc".ljust(512, b"\0"), "damaged"),
        (header(b"h", b"12\0", b"x") + b"0 path=abc".ljust(512, b"\0"), "damaged"),
        (header(b"h", b"14\0", b"x") + b"12 path=a\0b\n".ljust(512, b"\0"), "zero byte"),
        (header(b"h", b"13\0", b"x") + b"11 size=-1\n".ljust(512, b"\0") + header(b"a", b"0\0"), "no number"),
        (header(b"h", b"13\0", b"x") + b"11 path=ab\n".ljust(512, b"\0") + bytes(1024), "between a header"),
        (header(b"h", b"26\0", b"x") + b"22 GNU.sparse.major=1\n".ljust(512, b"\0") + header(b"a", b"0\0"), "sparse"),
    ],
)
def test_headers_that_lie_are_refused(data: bytes, why: str) -> None:
    with pytest.raises(BadArchive, match=why):
        unpack(data)


@pytest.mark.req("R-403")
def test_a_chain_of_extension_headers_is_no_recursion() -> None:
    chain = (header(b"h", b"13\0", b"x") + b"11 path=ab\n".ljust(512, b"\0")) * 5_000
    assert dict(unpack(chain + header(b"a", b"0\0") + bytes(1024))) == {"ab": b""}


# ---- bombs


@pytest.mark.req("R-403")
@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_more_than_a_thousand_bytes_for_each_is_refused_early(pack: type[bytes]) -> None:
    data = pack(header(b"a", b"377777777\0") + bytes(60 * MIB))
    tracemalloc.start()
    with pytest.raises(BadArchive, match=r"1000 times|100 MiB"):
        unpack(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 * MIB + len(data) * 1_000


@pytest.mark.req("R-403")
def test_more_than_the_limit_is_refused_whatever_headers_say() -> None:
    small = ArchiveLimits(bytes=MIB, ratio=10**6)
    noise = {"a": b"x" * (MIB // 2), "b": b"y" * (MIB // 2 + 1)}
    for pack in PACKERS.values():
        with pytest.raises(BadArchive, match="more than 1 MiB"):
            unpack(pack(noise), limits=small)
    assert unpack(PACKERS["tar.gz"]({"a": b"x" * MIB}), limits=small).size == MIB + 1


@pytest.mark.req("R-403")
def test_all_entries_of_a_zip_archive_are_weighed_together() -> None:
    data = zipped(dict.fromkeys("abcdefg", b"\x00" * (10 * MIB)), folders=False)
    with pytest.raises(BadArchive, match="1000 times its size"):
        unpack(data)


@pytest.mark.req("R-403")
def test_ten_thousand_entries_are_taken_and_no_more() -> None:
    few = ArchiveLimits(entries=100)
    tree = {f"{number}": b"" for number in range(100)}
    assert len(unpack(zipped(tree, folders=False), limits=few)) == 100
    assert len(unpack(tar_of(tree), limits=few)) == 100
    for pack in (lambda tree: zipped(tree, folders=False), tar_of, PACKERS["tar.gz"]):
        with pytest.raises(BadArchive, match="more than 100 entries"):
            unpack(pack({**tree, "one": b""}), limits=few)
    assert ArchiveLimits().entries == 10_000
    assert ArchiveLimits().bytes == 100 * MIB


@pytest.mark.req("R-403")
def test_a_table_of_contents_of_a_million_entries_is_not_read() -> None:
    entry = zipfile.ZipFile(io.BytesIO(zipped({"a": b""}, folders=False))).infolist()[0]
    table = b"PK\x01\x02" + struct.pack("<4B4HL2L5H2L", 20, 3, 20, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0) + b"a"
    local = b"PK\x03\x04" + bytes(26)
    data = local + table * 200_000
    data += struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 65535, 65535, len(data) - len(local), len(local), 0)
    assert entry.filename == "a"
    tracemalloc.start()
    with pytest.raises(BadArchive, match="10000 entries"):
        unpack(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < MIB


@pytest.mark.req("R-401")
@pytest.mark.parametrize("form", PACKERS)
def test_an_archive_that_takes_too_long_is_refused(form: str) -> None:
    with pytest.raises(BadArchive, match="takes longer than 0 s; pack less, or with gzip"):
        unpack(PACKERS[form](TREE), limits=ArchiveLimits(seconds=0))
    assert ArchiveLimits().seconds == 2


@pytest.mark.req("R-403")
def test_many_empty_parts_of_a_packed_file_are_refused() -> None:
    with pytest.raises(BadArchive, match="more than 10000 parts"):
        unpack(gzip.compress(b"") * 10_001)


@pytest.mark.req("R-403")
def test_links_that_multiply_are_counted_as_what_they_become() -> None:
    layers = [Member(f"l{n}/{m}", type=SYMLINK, target=f"../l{n + 1}") for n in range(6) for m in range(10)]
    with pytest.raises(BadArchive, match="10000 entries"):
        unpack(tar_gz([*layers, Member("l6/x", b"1")]))
    big = [Member("x", b"1" * MIB), *(Member(f"y{n}", type=HARD, target="x") for n in range(200))]
    with pytest.raises(BadArchive, match="100 MiB"):
        unpack(tar(big))


def folders_linked_in_a_row(length: int, *, files: int, name_bytes: int) -> bytes:
    """Each folder has a link to the next, the last has files: a path through all links has all their names."""
    links = [
        Member(f"f{n}/{n:03}" + "x" * (name_bytes - 3), type=SYMLINK, target=f"../f{n + 1}") for n in range(length)
    ]
    return tar_gz([*links, *(Member(f"f{length}/y{n}") for n in range(files))])


@pytest.mark.req("R-403")
def test_links_that_make_long_names_of_short_ones_are_refused() -> None:
    tracemalloc.start()
    with pytest.raises(BadArchive, match="links make a name that is too long"):
        unpack(folders_linked_in_a_row(60, files=150, name_bytes=1_000))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 * MIB


@pytest.mark.req("R-403")
def test_names_that_links_make_are_counted_as_content() -> None:
    data = folders_linked_in_a_row(2, files=2_000, name_bytes=400)
    assert len(unpack(data)) == 6_000
    with pytest.raises(BadArchive, match="unpacks to more than 1 MiB"):
        unpack(data, limits=ArchiveLimits(bytes=MIB, free_bytes=10 * MIB))


@pytest.mark.req("R-401")
def test_following_links_takes_no_longer_than_unpacking() -> None:
    tree = FileTree(Meter(ArchiveLimits(seconds=0), 0))
    tree.add(TarEntry("a", EntryKind.SYMLINK, target="b"))
    with pytest.raises(BadArchive, match="takes longer than 0 s"):
        tree.files()


@pytest.mark.req("R-403")
def test_links_that_only_take_time_are_refused() -> None:
    chain = [Member(f"c{n}", type=SYMLINK, target="./" * 400 + f"c{n + 1}") for n in range(30)]
    users = [Member(f"u{n}", type=SYMLINK, target="c0") for n in range(5_000)]
    with pytest.raises(BadArchive, match="takes too long"):
        unpack(tar_gz([*chain, *users]))


# ---- links that are meant


def test_links_inside_the_tree_become_content() -> None:
    found = unpack(
        tar_gz(
            [
                Member("base/a.yaml", b"1"),
                Member("base/deep/b.yaml", b"2"),
                Member("app/file.yaml", type=SYMLINK, target="../base/a.yaml"),
                Member("app/folder", type=SYMLINK, target="../base"),
                Member("app/over", type=SYMLINK, target="folder/deep"),
                Member("hard.yaml", type=HARD, target="base/a.yaml"),
                Member("nowhere", type=SYMLINK, target="missing"),
            ]
        )
    )
    assert dict(found) == {
        "base/a.yaml": b"1",
        "base/deep/b.yaml": b"2",
        "app/file.yaml": b"1",
        "app/folder/a.yaml": b"1",
        "app/folder/deep/b.yaml": b"2",
        "app/over/b.yaml": b"2",
        "hard.yaml": b"1",
    }


def test_links_in_a_zip_archive_become_content() -> None:
    data = zip_with_mode("link", stat.S_IFLNK | 0o777, b"base", {"base/a": b"1"})
    assert dict(unpack(data)) == {"base/a": b"1", "link/a": b"1"}


# ---- any bytes


def verdict(data: bytes, name: str = "") -> str:
    """Why something is refused; empty if it is taken."""
    try:
        unpack(data, name=name)
    except BadArchive as error:
        return str(error)
    return ""


NAMES = st.text("ab./\u00e9\n", max_size=6)
TYPES = st.sampled_from([tarfile.REGTYPE, tarfile.DIRTYPE, SYMLINK, HARD, tarfile.CHRTYPE])


@pytest.mark.req("R-401")
@settings(max_examples=300)
@given(st.lists(st.tuples(NAMES, st.binary(max_size=3), TYPES, NAMES), max_size=6))
@promptly
def test_any_entries_are_a_clean_tree_or_refused(rows: list[tuple[str, bytes, bytes, str]]) -> None:
    members = [Member(name, b"" if type_ != tarfile.REGTYPE else body, type_, to) for name, body, type_, to in rows]
    try:
        found = unpack(tar(members))
    except BadArchive:
        return
    assert all(".." not in path.split("/") and not path.startswith("/") for path in found)
    assert dict(found) == dict(Files.of(found))


@pytest.mark.req("R-401")
@settings(max_examples=300)
@given(st.data())
@promptly
def test_any_damage_to_an_archive_is_noticed_or_harmless(data: st.DataObject) -> None:
    form = data.draw(st.sampled_from(sorted(PACKERS)))
    raw = bytearray(PACKERS[form](TREE))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = unpack(bytes(raw))
    except BadArchive:
        return
    assert found.size < 10_000


@pytest.mark.req("R-401")
@settings(max_examples=300)
@given(
    st.sampled_from([b"", b"\x1f\x8b\x08", b"BZh9", b"PK\x03\x04", b"PK\x05\x06", header(b"a", b"5\0")]),
    st.binary(max_size=2_000),
    st.sampled_from(["", "x.yaml", "\ud800.yaml", "a/b.yaml"]),
)
@promptly
def test_any_bytes_are_files_or_refused(start: bytes, rest: bytes, name: str) -> None:
    assert verdict(start + rest, name).isprintable()


@pytest.mark.req("R-401")
@settings(max_examples=200)
@given(st.binary(max_size=600))
@promptly
def test_any_bytes_inside_a_packed_stream_are_files_or_refused(content: bytes) -> None:
    for layer in (gzip.compress(content), bz2.compress(content), gzip.compress(header(b"a", b"5\0") + content)):
        assert verdict(layer).isprintable()


@pytest.mark.req("R-401")
def test_the_largest_archive_takes_little_more_memory_than_its_content() -> None:
    noise = zlib.compress(bytes(range(256)) * 64)
    data = PACKERS["tar.gz"]({f"f{n}": noise * 20 + bytes([n]) * MIB for n in range(60)})
    tracemalloc.start()
    found = unpack(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < found.size + 64 * MIB


# ---- paths


FILES = Files.of({"a/b/c.yaml": b"1", "a/d.yaml": b"2", "a.yaml": b"3", "ab/x": b"4"})


def test_a_folder_is_a_tree_of_its_own() -> None:
    assert dict(FILES.under("a")) == {"b/c.yaml": b"1", "d.yaml": b"2"}
    assert dict(Files.of({"a/b": b"1"}).under("a")) == {"b": b"1"}, "also where nothing lies beside the folder"
    assert dict(FILES.below("a")) == {"a/b/c.yaml": b"1", "a/d.yaml": b"2"}
    for spelling in ("a/b", "./a/b/", "/a/b", "a//b", "a/x/../b"):
        assert dict(FILES.under(spelling)) == {"c.yaml": b"1"}
    for root in ("", ".", "/", "./"):
        assert FILES.under(root) is FILES


@pytest.mark.parametrize("path", ["x", "a/x", "../a", "a/../../a", "a\0", "a/b/c"])
def test_a_path_that_is_missing_is_said_to_be(path: str) -> None:
    with pytest.raises(PathNotFound) as caught:
        FILES.under(path)
    assert str(caught.value) == f"no such file or directory: {path}"


@pytest.mark.parametrize(
    ("path", "folders"),
    [("b", ("a", "c")), ("a/x", ("a/b", "a/e")), ("a/b/x", ("a/b",)), ("a/x/y", ("a/b", "a/e")), ("../up", ("a", "c"))],
)
def test_a_path_that_is_missing_brings_the_folders_that_are_there(path: str, folders: tuple[str, ...]) -> None:
    files = Files({"a/b/c.yaml": b"1", "a/d.yaml": b"2", "ab.yaml": b"", "c/d.yaml": b"3"}, ["a/e"])
    with pytest.raises(PathNotFound) as caught:
        files.under(path)
    assert caught.value.folders == folders


def test_files_without_a_folder_have_none_to_offer() -> None:
    for path, kind in (("x/y", PathNotFound), ("a.yaml", NotADirectory)):
        with pytest.raises(kind) as caught:
            Files({"a.yaml": b""}).below(path)
        assert caught.value.folders == ()


@pytest.mark.parametrize("path", ["deploy", "deploy/app", "/deploy/"])
def test_a_folder_that_an_archive_names_exists_though_it_is_empty(path: str) -> None:
    folder = Member("./deploy/app/", type=tarfile.DIRTYPE)
    found = unpack(tar_gz([folder, Member("README.md", b"text")]))
    assert dict(found) == {"README.md": b"text"}
    assert len(found.below(path)) == len(found.under(path)) == 0
    assert found != unpack(tar_gz([Member("README.md", b"text")]))
    with pytest.raises(PathNotFound):
        found.below("deploy/ap")


def test_an_empty_folder_exists_in_a_part_of_the_archive_as_well() -> None:
    folders = [Member(f"{name}/", type=tarfile.DIRTYPE) for name in ("chart", "chart/crds", "chart/crds/old", "other")]
    for file in (Member("chart/Chart.yaml", b"name: a"), Member("README.md", b"text")):
        found = unpack(tar_gz([*folders, file]))
        for part, path in ((found.under("chart"), "crds"), (found.below("chart"), "chart/crds")):
            assert len(part.below(path)) == len(part.below(f"{path}/old")) == len(part.under(f"{path}/old")) == 0
            with pytest.raises(PathNotFound):
                part.below("other")
        assert found.under("chart/crds").under("old") == Files.of({})


def test_a_path_that_is_a_file_is_said_to_be() -> None:
    with pytest.raises(NotADirectory) as caught:
        FILES.under("a.yaml")
    assert str(caught.value) == "not a directory: a.yaml"


@pytest.mark.parametrize("path", ["", "/a", "a/", "../a", "a/./b", "a//b", "n" * 1025])
def test_files_of_a_blueprint_need_clean_paths(path: str) -> None:
    with pytest.raises(BadArchive):
        Files.of({path: b""})


TREES: st.SearchStrategy[Mapping[str, bytes]] = st.dictionaries(st.text("abc", min_size=1), st.binary(max_size=5))


@given(TREES, TREES)
def test_trees_are_equal_when_their_digests_are(one: Mapping[str, bytes], other: Mapping[str, bytes]) -> None:
    assert (Files.of(one) == Files.of(other)) == (one == other)


def test_neither_repr_shows_content() -> None:
    assert "hunter2" not in repr(Files.of({"a": b"hunter2"}))
