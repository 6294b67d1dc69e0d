"""Secret words are removed from text, however a message writes them, in linear time."""

from __future__ import annotations

import json
import time
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.kube.masking import (
    LONGEST_TEXT,
    LONGEST_WORD,
    MASK,
    WITHHELD,
    Vocabulary,
    WordIndex,
    spans_in,
    without,
)

FEW_LETTERS = st.text(alphabet="ab\\n'\"", min_size=4, max_size=12)


def masked(text: str, *words: str) -> str:
    return Vocabulary(words).masked(text)


@given(st.lists(FEW_LETTERS, max_size=8), st.text(alphabet="ab\\n'\"", max_size=60))
def test_each_occurrence_of_each_word_is_masked(words: list[str], text: str) -> None:
    spans = spans_in(text, WordIndex(words))
    hidden = {at for start, end in spans for at in range(start, end)}
    for word in words:
        for start in (at for at in range(len(text)) if text.startswith(word, at)):
            assert set(range(start, start + len(word))) <= hidden
    shown = without(text, spans)
    assert shown.replace(MASK, "") == "".join(letter for at, letter in enumerate(text) if at not in hidden)


@pytest.mark.req("R-804")
@given(st.text(min_size=8, max_size=40))
def test_a_word_is_masked_as_go_json_yaml_and_urls_write_it(word: str) -> None:
    if word.startswith(("*", "-")) or not word.isprintable():
        return
    in_json, ascii_json = json.dumps(word, ensure_ascii=False), json.dumps(word)
    twice = json.dumps(in_json, ensure_ascii=False)
    for spelled in (word, in_json, ascii_json, twice, f"'{word.replace(chr(39), chr(39) * 2)}'", quote(word, safe="")):
        shown = masked(f"before <{spelled}> after", word)
        assert word not in shown
        assert MASK in shown
        assert shown.startswith("before <")
        assert shown.endswith("> after")


@pytest.mark.req("R-804")
@given(st.text(alphabet="abcdef", min_size=10, max_size=30), st.data())
def test_a_quoted_part_and_the_beginning_that_a_cut_left_are_masked(word: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(word) - 6))
    end = data.draw(st.integers(start + 6, len(word)))
    for mark in "`\"'":
        shown = masked(f"cannot use {mark}{word[start:end]}{mark} here", word)
        assert shown == f"cannot use {mark}{MASK}{mark} here"
    left = data.draw(st.integers(4, len(word)))
    assert masked(f"HE SAID {word[:left]}...", word) == f"HE SAID {MASK}..."


@pytest.mark.req("R-804")
def test_a_text_is_cut_before_it_is_masked_and_the_cut_shows_no_part_of_a_word() -> None:
    for room in range(4, 14):
        text = f"{'.' * (LONGEST_TEXT - 3 - room)}canary-word and {'more' * 1000}"
        shown = masked(text, "canary-word")
        assert "cana" not in shown
        assert len(shown) <= LONGEST_TEXT


@pytest.mark.req("R-804")
def test_a_word_of_which_only_the_beginning_is_kept_hides_the_rest_of_the_text() -> None:
    word = "".join(f"{number:05}" for number in range(1000))
    index = WordIndex([word])
    assert without(f"before {word[: LONGEST_WORD + 100]}", spans_in(f"before {word[: LONGEST_WORD + 100]}", index)) == (
        f"before {MASK}"
    )


@pytest.mark.req("R-412")
@pytest.mark.parametrize(
    "words",
    [
        [f"word{number:05}" for number in range(60_000)],
        ["a" * length + "b" for length in range(4, 2_500)],
        ["a" * length for length in range(4, 2_500)],
        [f"{chr(97 + number % 26) * 3}{number:06}" for number in range(150_000)],
    ],
    ids=["one beginning", "nested", "in each other", "many"],
)
def test_masking_takes_no_more_than_a_moment_whatever_the_words_and_the_text_are(words: list[str]) -> None:
    vocabulary = Vocabulary(words)
    for text in ("a" * LONGEST_TEXT, "word00017 " * 400, "'`" * 2000, "aaa000000" * 400 + "...", "'xxxxxxxx'" * 400):
        began = time.thread_time()
        vocabulary.masked(text)
        assert time.thread_time() - began < 1.0


@pytest.mark.req("R-804")
def test_a_message_that_cannot_be_compared_with_all_words_is_withheld() -> None:
    assert masked("cannot use it", *(f"word-{number}" for number in range(200_001))) == WITHHELD
    assert masked("cannot use it", "x" * 4_200_000) == WITHHELD


@pytest.mark.req("R-804")
def test_where_a_comparison_takes_too_many_steps_the_rest_of_the_text_is_masked() -> None:
    index = WordIndex("a" * length + "b" for length in range(6, 512))
    text = f"start {'a' * 4_000} end"
    assert without(text, spans_in(text, index)).startswith("start ")
    assert without(text, spans_in(text, index)).endswith(MASK)


def test_an_index_finds_a_word_until_it_was_discarded_as_often_as_added() -> None:
    index = WordIndex(["canary-one", "canary-one", "canary-two", "can"])
    assert len(index) == 2
    index.discard("canary-one")
    assert without("canary-one", spans_in("canary-one", index)) == MASK
    index.discard("canary-one")
    assert spans_in("canary-one", index) == []
    assert spans_in("canary-two", index) == [(0, 10)]
    index.discard("canary-two")
    index.discard("never added")
    assert len(index) == 0
    assert spans_in("canary-two", index) == []
