"""A catalogue explains each reason of a kind in the same way wherever it is met."""

from __future__ import annotations

from enum import StrEnum

from stellwerk.runtime.insight.reason_catalog import ITSELF, YOURS, Catalogue, Meaning


class State(StrEnum):
    NONE = ""
    Working = "Working"
    Error = "Error"


class Reason(StrEnum):
    Busy = "Busy"
    Broken = "Broken"


CATALOGUE = Catalogue(
    {
        Reason.Busy: Meaning(state=State.Working, message="Busy now", meaning="Work goes on."),
        Reason.Broken: Meaning(
            state=State.Error,
            meaning="Something is missing.",
            causes=("Nobody made it.",),
            check=("kubectl get it",),
            fix=("Make it.",),
            only_user_can_fix=True,
        ),
    },
    {State.Working: ITSELF, State.Error: "The operator tries again."},
)


def test_a_reason_without_a_state_of_its_own_leaves_it_unchanged() -> None:
    catalogue = Catalogue({Reason.Busy: Meaning(state=State.NONE, meaning="Work goes on.")}, {State.NONE: ITSELF})

    assert catalogue.table([Reason.Busy]) == ["| [`Busy`](#busy) | unchanged | Work goes on. |"]
    assert catalogue.sections()[0].startswith("## Busy\n\nState **unchanged**. Work goes on.")


def test_whose_turn_it_is_follows_from_the_state_unless_only_a_person_can_help() -> None:
    assert CATALOGUE.turn(Reason.Busy) == ITSELF
    assert CATALOGUE.turn(Reason.Broken) == YOURS


def test_a_reason_with_a_turn_of_its_own_shows_it_in_place_of_that_of_its_state() -> None:
    meaning = Meaning(state=State.Error, meaning="It failed.", turn="It is tried again tomorrow.")

    assert Catalogue({Reason.Broken: meaning}, CATALOGUE.turns).turn(Reason.Broken) == "It is tried again tomorrow."


def test_advice_has_a_title_for_all_there_is_to_say_and_none_for_what_there_is_not() -> None:
    assert [title for title, _ in CATALOGUE.meanings[Reason.Broken].advice] == ["Causes", "How to check", "How to fix"]
    assert not [*CATALOGUE.meanings[Reason.Busy].advice]


def test_a_page_links_each_reason_to_its_section() -> None:
    assert CATALOGUE.table([Reason.Broken]) == ["| [`Broken`](#broken) | Error | Something is missing. |"]
    busy, broken = CATALOGUE.sections()
    assert busy == f"## Busy\n\nState **Working**. Work goes on. {ITSELF}\n\nMessage: `Busy now`\n"
    assert "How to check:\n\n- `kubectl get it`\n\nHow to fix:\n\n- Make it.\n" in broken


def test_of_messages_that_a_text_has_the_longest_names_the_reason() -> None:
    narrow = {Reason.Broken: Meaning(state=State.Error, message="Busy now with others", meaning="m")}
    catalogue = Catalogue({**CATALOGUE.meanings, **narrow}, CATALOGUE.turns)

    assert catalogue.word_of("Site: Busy now with others.") is Reason.Broken
    assert CATALOGUE.word_of("Site: Busy now with others.") is Reason.Busy
    assert CATALOGUE.word_of("Site: at rest") is None
