"""Which folder of tests a process takes next."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.scheduling import LONG, folder_of, next_folder, next_module

WAITING = {"btp": 3, "cap": 9, "": 100}


def test_a_process_stays_in_its_folder() -> None:
    assert next_folder("btp", WAITING, {"cap"}) == "btp"


def test_it_takes_a_folder_that_nobody_has_begun_the_longest_first() -> None:
    assert next_folder(None, WAITING, set()) == "cap"
    assert next_folder("apply", WAITING, {"cap"}) == "btp"
    assert next_folder("apply", {"zebra": 1, "cap": 9}, {"cap"}) == "zebra"


def test_before_it_helps_others_it_runs_what_needs_no_cluster() -> None:
    assert next_folder("apply", WAITING, {"btp", "cap"}) == ""
    assert next_folder("", WAITING, {"btp", "cap"}) == ""


def test_it_helps_where_most_is_left() -> None:
    assert next_folder("", {"btp": 3, "cap": 9}, {"btp", "cap"}) == "cap"


def test_a_folder_with_subfolders_is_one() -> None:
    assert folder_of("tests/cluster/cap/tenant/test_tenants.py") == "cap"
    assert folder_of("tests/cluster/test_toy_operator.py") == ""
    assert folder_of("tests/unit/cap/test_plan.py") == ""


def test_of_the_modules_without_a_folder_the_long_ones_come_first() -> None:
    waiting = ["tests/unit/a.py", "tests/cluster/btp/test_crash.py", LONG[1], LONG[0]]
    assert next_module("", waiting) == LONG[0]
    assert next_module("", waiting[:3]) == LONG[1]
    assert next_module("", waiting[:2]) == "tests/unit/a.py"
    assert next_module("btp", waiting) == "tests/cluster/btp/test_crash.py"


@pytest.mark.parametrize("module", LONG)
def test_a_long_module_exists_and_needs_no_folder(module: str) -> None:
    assert (Path(__file__).parents[3] / module).is_file()
    assert folder_of(module) == ""
