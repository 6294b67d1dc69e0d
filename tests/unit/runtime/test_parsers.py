"""Settings are read from text by the same rules whichever operator has them, and a refusal says what is expected."""

from __future__ import annotations

from enum import StrEnum

import pytest

from stellwerk.runtime.settings import parsers


class Colour(StrEnum):
    RED = "red"
    DEEP_BLUE = "DeepBlue"


@pytest.mark.parametrize(
    ("text", "expected"), [("red", Colour.RED), ("RED", Colour.RED), ("deepblue", Colour.DEEP_BLUE)]
)
def test_a_word_is_known_in_whatever_case(text: str, expected: Colour) -> None:
    assert parsers.one_of(Colour)(text) is expected


@pytest.mark.parametrize("text", ["", "green", "red,red"])
def test_another_word_is_refused_with_those_that_are_known(text: str) -> None:
    with pytest.raises(ValueError, match="expected one of red, DeepBlue"):
        parsers.one_of(Colour)(text)


@pytest.mark.parametrize("text", ["", "0", "11", "-1", "5.0", "٣", "1e1", "9" * 400])
def test_a_number_outside_its_range_or_in_another_spelling_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a whole number from 1 to 10"):
        parsers.number(1, 10)(text)


def test_a_number_in_its_range_is_read() -> None:
    assert [parsers.number(1, 10)(text) for text in ("1", "10")] == [1, 10]


@pytest.mark.parametrize("text", ["", "Upper", "a/b", "-a", "a-", "x" * 254])
def test_what_cannot_be_the_name_of_an_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected the name of an object"):
        parsers.name(text)


def test_words_stand_between_commas_and_count_once() -> None:
    assert parsers.words(" one, two,,one ,") == ("one", "two")
    assert parsers.words("") == ()
