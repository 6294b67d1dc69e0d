"""Command lines written for Go programs start ours."""

from __future__ import annotations

import pytest

from stellwerk.runtime.settings import go_flags


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["-chart-path", "x"], ["--chart-path", "x"]),
        (["-chart-path=x"], ["--chart-path=x"]),
        (["--chart-path=x=y"], ["--chart-path=x=y"]),
        (["-boundary", "-168h"], ["--boundary", "-168h"]),
        (["--boundary", "-leader-elect"], ["--boundary", "-leader-elect"]),
        (["-leader-elect"], ["--leader-elect"]),
        (["--leader-elect=true"], ["--leader-elect"]),
        (["-leader-elect=F"], ["--no-leader-elect"]),
        (["--leader-elect=maybe"], ["--leader-elect=maybe"]),
        (["-v", "--unknown", "word"], ["-v", "--unknown", "word"]),
        (["--", "-chart-path"], ["--", "-chart-path"]),
        (["---chart-path"], ["---chart-path"]),
        (["-chart-path"], ["--chart-path"]),
        (["chart-path"], ["chart-path"]),
        ([], []),
    ],
)
def test_gos_spelling_becomes_ours(given: list[str], expected: list[str]) -> None:
    assert go_flags.normalised(given, names={"chart-path", "boundary"}, switches={"leader-elect"}) == expected
