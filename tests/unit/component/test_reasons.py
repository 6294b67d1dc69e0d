"""Every reason and cause of a Component has one meaning, and the eleven words of the original have their states."""

from __future__ import annotations

import pytest

from stellwerk.delivery.sets.inventory_status import State
from stellwerk.operators.component.insight.help_topics import CATALOGUE, HELP
from stellwerk.operators.component.reasons import FACTS, Cause, Reason

STATES = {
    State.Ready: {"Ready"},
    State.Pending: {"FirstSeen", "Retrying", "Suspended"},
    State.Processing: {"Restarting", "Processing"},
    State.Error: {"Error", "Timeout"},
    State.DeletionPending: {"DeletionRetrying"},
    State.Deleting: {"DeletionBlocked", "DeletionProcessing"},
}


def test_the_eleven_published_reasons_have_their_published_states() -> None:
    assert {state: {r.value for r in Reason if FACTS[r].state is state} for state in State} == STATES
    assert len(Reason) == 11


def test_every_word_is_in_the_table_under_its_own_name_and_stands_for_one_thing() -> None:
    words = [word.value for word in (*Reason, *Cause)]

    assert len(words) == len(set(words))
    assert set(FACTS) == {*Reason, *Cause}
    assert all(word.name == word.value for word in (*Reason, *Cause))


@pytest.mark.parametrize("word", [word for word, meaning in FACTS.items() if meaning.only_user_can_fix])
def test_whoever_has_to_act_is_told_how(word: Reason | Cause) -> None:
    assert CATALOGUE.meanings[word].fix
    assert CATALOGUE.turn(word).startswith("It is your turn")


def test_the_page_has_a_row_and_a_section_for_every_word() -> None:
    page = HELP["Component"].reasons_page("Component")

    assert all(f"\n## {word}\n" in page and f"(#{word.lower()})" in page for word in (*Reason, *Cause))
