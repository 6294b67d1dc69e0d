"""Text becomes the documents kubectl would see, or an error that says where and why."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kubectl import PROGRAM
from tests.unit.promptly import promptly

from stellwerk.apply.errors import UnreadableManifest
from stellwerk.apply.objects.manifests import Origin, YamlLimits, read_folder, read_text, read_value
from stellwerk.kube.types.model import JsonValue, dig

pytestmark = pytest.mark.heavy

# What kubectl 1.37 prints for each word; `test_kubectl_says_the_same` asks the kubectl at hand.
MEANINGS: dict[str, JsonValue] = {
    **dict.fromkeys(["y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"], True),
    **dict.fromkeys(["n", "N", "no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE"], False),
    **dict.fromkeys(["~", "null", "Null", "NULL", ""], None),
    **{
        word: word for word in ["tRUE", "oN", "nULL", "yEs", "0b", "0x", "0o8", "_1", "1:30", "190:20:30", "=", "1e400"]
    },
    **{word: word for word in ["2001-12-14", "2001-12-14t21:59:43.10-05:00", "1.2.3", "v1", "+", ".", "0x1G"]},
    "0": 0,
    "-0": 0,
    "+5": 5,
    "-3": -3,
    "08": 8,
    "09": 9,
    "1_000": 1000,
    "1__0": 10,
    "1_": 1,
    "12e03": 12000,
    "0x1F": 31,
    "0X1F": 31,
    "0x1_F": 31,
    "+0x1F": 31,
    "0o17": 15,
    "017": 15,
    "-017": -15,
    "-0o7": -7,
    "0b101": 5,
    "0B1": 1,
    "-0b11": -3,
    "0b1_1": 3,
    "1.5": 1.5,
    ".5": 0.5,
    "+.5": 0.5,
    "-.5": -0.5,
    "5.": 5,
    "1.0": 1,
    "1e3": 1000,
    "1.e+3": 1000,
    "1E+2": 100,
    ".1_0": 0.1,
    "1_0.5": 10.5,
    "1_.5": 1.5,
    "1e-7": 1e-7,
    "1e20": 10**20,
    "1e21": 1e21,
    "0.0": 0,
    "9223372036854775807": 2**63 - 1,
    "-9223372036854775808": -(2**63),
    "!!str 5": "5",
    '!!int "7"': 7,
    "!!float 3": 3,
    '!!bool "yes"': True,
    "!!binary aGVsbG8=": "hello",
    "!custom foo": "foo",
    "!!timestamp 2001-01-01": "2001-01-01",
    '"5"': "5",
    "'yes'": "yes",
    "! 5": "5",
    "{1: a}": {"1": "a"},
    "{yes: a}": {"true": "a"},
    "{1.5: a}": {"1.5": "a"},
    "{0x10: a}": {"16": "a"},
    "{1e3: a}": {"1000": "a"},
    "{<<: {a: 1, b: 5}, b: 2}": {"a": 1, "b": 2},
    "{b: 2, <<: {b: 3}}": {"b": 3},
    "{<<: [{a: 1}, {a: 2, c: 3}]}": {"a": 1, "c": 3},
    "{a: &x [1], b: *x}": {"a": [1], "b": [1]},
    "!!set {a, b}": {"a": None, "b": None},
}


def as_spec(word: str) -> str:
    return f"apiVersion: x/v1\nkind: Foo\nmetadata: {{name: a}}\nspec: {word}\n"


def spec_of(word: str) -> JsonValue:
    return read_text(as_spec(word))[0].body["spec"]


@pytest.mark.parametrize(("word", "meaning"), MEANINGS.items())
def test_a_word_means_what_kubectl_takes_it_for(word: str, meaning: JsonValue) -> None:
    found = spec_of(word)
    assert found == meaning
    assert type(found) is type(meaning)


@pytest.mark.skipif(not PROGRAM.exists(), reason="kubectl is not installed")
def test_kubectl_says_the_same() -> None:
    words = {word: meaning for word, meaning in MEANINGS.items() if meaning not in (1e21,)}
    text = "---\n".join(as_spec(f"{{it: {word}}}" if word else "{it: }") for word in words if word != "! 5")
    command = [str(PROGRAM), "annotate", "--local", "-f", "-", "a=b", "-o", "json"]
    answer = subprocess.run(command, input=text, capture_output=True, text=True, check=True, timeout=60).stdout
    decoder, found, rest = json.JSONDecoder(), [], answer.lstrip()
    while rest:
        value, end = decoder.raw_decode(rest)
        found.append(value["spec"]["it"])
        rest = rest[end:].lstrip()
    assert found == [meaning for word, meaning in words.items() if word != "! 5"]


@pytest.mark.parametrize("word", ["18446744073709551616", "123456789012345678901234567890", "0x1ffffffffffffffff"])
def test_an_integer_too_large_for_the_api_becomes_what_kubectl_makes_of_it(word: str) -> None:
    expected: JsonValue = word if word.startswith("0x") else float(word)
    assert spec_of(word) == expected


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("a: .inf", 1, "infinite"),
        ("a: -.Inf", 1, "infinite"),
        ("a: .nan", 1, "NaN"),
        ("a: 1\nb: 2\na: 3", 3, "the key 'a' appears twice"),
        ('{1: a, "1": b}', 1, "the key '1' appears twice"),
        ("a: {<<: {b: 1}, <<: {c: 1}}", 1, "'<<' appears twice"),
        ("a: *b", 1, "names nothing"),
        ("a: &a [*a]", 1, "names nothing"),
        ("a: &x 1\n---\nb: *x", 3, "names nothing"),
        ("{null: 1}", 1, "not null"),
        ("[a]: b", 1, "key must be a single value"),
        ("a:\n  <<: 5", 2, "needs a mapping"),
        ("a: !!int x", 1, "!!int"),
        ("a: !!null x", 1, "!!null"),
        ("a: !!binary 12", 1, "base64"),
        ("- 1", 1, "expected a mapping"),
        ("just words", 1, "expected a mapping"),
        ("a: b\n c: d", 2, "is not YAML"),
        ("a: [1", 2, "is not YAML"),
        ("a: '", 1, "is not YAML"),
        ("a:\n\t- b", 2, "is not YAML"),
        ("kind: List\napiVersion: v1\nitems: [5]", 1, "item of the List is not a mapping"),
    ],
)
@pytest.mark.req("R-401")
def test_what_cannot_be_read_is_refused_with_its_line(text: str, line: int, why: str) -> None:
    with pytest.raises(UnreadableManifest, match=why.replace("[", r"\[")) as caught:
        read_text(text, file="x.yaml")
    assert (caught.value.file, caught.value.line) == ("x.yaml", line)


@pytest.mark.parametrize("text", [b"\x80", b"\xff\xfe\x00", "\ud800", b"\x00", b"a: \x07"])
@pytest.mark.req("R-401")
def test_bytes_that_are_no_text_are_refused(text: str | bytes) -> None:
    with pytest.raises(UnreadableManifest, match="text"):
        read_text(text)


def nested(levels: int) -> str:
    return "a: " + "[" * (levels - 1) + "]" * (levels - 1)


def aliases(count: int) -> str:
    """A text of some 1,000 values that unfolds to `count` thousand."""
    return "a: &a [" + "1, " * 998 + "1]\nb: [" + "*a, " * (count - 1) + "]"


@pytest.mark.req("R-402")
def test_depth_is_limited_to_100_levels() -> None:
    assert read_value(nested(100)) is not None
    with pytest.raises(UnreadableManifest, match="deeper than 100 levels"):
        read_value(nested(101))


@pytest.mark.req("R-402")
def test_depth_counts_through_aliases() -> None:
    layers = "\n".join(f"{name}: &{name} [[[[[[[[[[{inner}]]]]]]]]]]" for name, inner in
                       zip("abcdefghijk", ["1", "*a", "*b", "*c", "*d", "*e", "*f", "*g", "*h", "*i", "*j"],
                           strict=True))  # fmt: skip
    with pytest.raises(UnreadableManifest, match="deeper than 100 levels"):
        read_value(layers)


@pytest.mark.req("R-402")
def test_aliases_may_unfold_to_ten_times_the_text_and_no_more() -> None:
    assert read_value(aliases(10)) is not None
    with pytest.raises(UnreadableManifest, match="more than 10 times"):
        read_value(aliases(12))


@pytest.mark.req("R-402")
def test_aliases_that_multiply_are_refused_at_once() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    started = time.process_time()  # others on the machine do not count
    with pytest.raises(UnreadableManifest, match="more than 10 times"):
        read_value("\n".join(lines))
    assert time.process_time() - started < 0.5


@pytest.mark.req("R-402")
def test_size_is_limited_to_16_mebibytes() -> None:
    with pytest.raises(UnreadableManifest, match="larger than 16 MiB"):
        read_value(b"a: " + b"x" * 16 * 2**20)


@pytest.mark.req("R-401")
def test_the_longest_text_that_is_accepted_takes_less_than_two_seconds_and_64_mebibytes() -> None:
    program = (
        "import resource; from stellwerk.apply.objects.manifests import read_value;"
        "memory = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss;"
        "before = memory(); read_value(b'a: [' + b'1,' * 249_990 + b']'); print(memory() - before)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 64 * 2**10, "kibibytes; a process of its own, because tracing takes five seconds"
    started = time.process_time()
    with pytest.raises(UnreadableManifest, match="more than 250000 values"):
        read_value(b"a: [" + b"1," * 250_010 + b"]")
    assert time.process_time() - started < 2, "a text that is longer still"


@pytest.mark.req("R-401")
@settings(max_examples=300)
@given(st.one_of(st.binary(max_size=300), st.text(max_size=300), st.text("{}[]:-,&*<>!|'\"#%@? \na0.", max_size=120)))
@promptly
def test_any_text_is_read_or_refused(text: str | bytes) -> None:
    try:
        documents = read_text(text)
    except UnreadableManifest:
        return
    assert all(isinstance(document.body, dict) for document in documents)


WRITTEN = st.characters(codec="utf-8", exclude_categories=("C", "Zl", "Zp"))
"""What YAML lets stand unescaped; control characters and surrogates need escapes, which JSON writes otherwise."""
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.text(WRITTEN, max_size=20))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(WRITTEN, max_size=8), inner, max_size=4)
    ),
)


@given(st.dictionaries(st.text(WRITTEN, max_size=8), VALUES, max_size=5))
def test_json_is_read_as_itself(value: dict[str, JsonValue]) -> None:
    assert read_value(json.dumps(value, ensure_ascii=False)) == value


def test_documents_are_split_and_empty_ones_left_out() -> None:
    text = "# nothing\n---\na: 1\n---\n\n---\n# only words\n---\nb: 2\n...\n"
    documents = read_text(text, file="f.yaml")
    assert [document.body for document in documents] == [{"a": 1}, {"b": 2}]
    assert [document.origin.document for document in documents] == [1, 4]
    assert documents[1].origin == Origin("f.yaml", 4, 9)


def test_lists_are_unfolded_and_typed_lists_say_what_their_items_are() -> None:
    text = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Secret, metadata: {name: a}}
- apiVersion: v1
  kind: ConfigMapList
  items: [{metadata: {name: b}}]
"""
    found = [(d.body["apiVersion"], d.body["kind"], dig(d.body, "metadata", "name")) for d in read_text(text)]
    assert found == [("v1", "Secret", "a"), ("v1", "ConfigMap", "b")]


def test_a_folder_is_read_by_name_and_only_its_own_yaml_files(tmp_path: Path) -> None:
    (tmp_path / "b.yml").write_text("b: 1")
    (tmp_path / "a.yaml").write_text("a: 1\n---\na: 2")
    (tmp_path / "c.txt").write_text("c: 1")
    (tmp_path / "d.yaml").mkdir()
    (tmp_path / "d.yaml" / "e.yaml").write_text("e: 1")
    assert [(d.body, d.origin.file) for d in read_folder(tmp_path)] == [
        ({"a": 1}, "a.yaml"),
        ({"a": 2}, "a.yaml"),
        ({"b": 1}, "b.yml"),
    ]


def test_a_missing_folder_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(UnreadableManifest, match=r"nowhere.*No such file"):
        read_folder(tmp_path / "nowhere")


@pytest.mark.req("R-801")
def test_neither_a_document_nor_an_error_shows_a_value() -> None:
    (document,) = read_text("kind: Secret\nmetadata: {name: a}\nstringData: {password: hunter2}")
    assert "hunter2" not in repr(document)
    with pytest.raises(UnreadableManifest) as caught:
        read_text("password: hunter2\nother: !!int hunter2")
    assert "hunter2" not in str(caught.value)


def test_limits_can_be_set_by_the_caller() -> None:
    with pytest.raises(UnreadableManifest, match="deeper than 3"):
        read_value(nested(4), limits=YamlLimits(depth=3))
