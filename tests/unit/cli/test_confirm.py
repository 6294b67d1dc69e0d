"""The question before something that cannot be undone."""

from __future__ import annotations

import pytest

from stellwerk.cli.shell import confirm
from stellwerk.cli.shell.errors import Exit, Failure


def test_where_nobody_can_be_asked_nothing_is_forced_and_the_price_is_named() -> None:
    with pytest.raises(Failure) as refused:
        confirm.typed("x", "all data is gone", yes=False)
    assert refused.value.code == Exit.USAGE
    assert refused.value.report.cause == "all data is gone"


def test_somebody_who_has_said_yes_is_not_asked() -> None:
    confirm.typed("x", "all data is gone", yes=True)
    confirm.removal("x", yes=True)


@pytest.mark.parametrize(("typed", "passes"), [("web\n", True), ("\n", False), ("wed\n", False)])
def test_only_the_name_itself_is_a_yes(typed: str, passes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal:
        def __init__(self, text: str) -> None:
            self.text = text

        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("click.prompt", lambda *words, **options: typed.strip())
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    monkeypatch.setattr("sys.stderr", Terminal(""))
    if passes:
        confirm.typed("web", "all data is gone", yes=False)
        return
    with pytest.raises(Failure, match="nothing is forced"):
        confirm.typed("web", "all data is gone", yes=False)
