"""Each mutation still fits the source that it breaks: a table that drifts proves nothing."""

from __future__ import annotations

import pytest
from tests.mutants.mutations import ROOT, Mutation, mutations

ALL = mutations()


@pytest.mark.parametrize("mutation", ALL, ids=lambda each: each.name)
def test_a_mutation_changes_its_file_and_names_existing_tests(mutation: Mutation) -> None:
    text = (ROOT / mutation.file).read_text()

    assert mutation.applied_to(text) != text
    for test in mutation.tests:
        assert (ROOT / test.split("::")[0]).exists(), test


def test_no_two_mutations_share_a_name() -> None:
    assert len({mutation.name for mutation in ALL}) == len(ALL)
