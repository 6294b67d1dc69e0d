"""Every command for readers is in a block that a test runs, or says why it is not."""

from __future__ import annotations

import pytest
from tests import pages
from tests.cluster.cli.test_pages import JOURNEYS

RUN = {page for journey in JOURNEYS for page in journey.pages}


@pytest.mark.parametrize("page", [page for page in pages.PAGES if not page.startswith(pages.GENERATED)])
def test_commands_are_in_blocks_that_run(page: str) -> None:
    shown = list(pages.blocks(page))
    assert [block.text for block in shown if block.has_commands and block.language != "sh" and not block.file] == []
    assert page in RUN or not any(block.language == "sh" for block in shown)


def test_few_blocks_do_not_run_and_each_has_a_reason() -> None:
    skipped = [block.skipped for page in pages.PAGES for block in pages.blocks(page) if block.skipped]
    assert all(len(reason.split()) >= 3 for reason in skipped)
    assert len(skipped) <= 3


def test_a_block_is_found_with_its_mark_and_without_its_indentation() -> None:
    page = "docs/operator-author.md"
    files = {block.file: block.text for block in pages.blocks(page) if block.file}
    assert files["greeter.py"].startswith("from typing import ")
    (first, *_) = (block for block in pages.blocks("docs/migration/btp-manager.md") if block.language == "sh")
    assert first.text.splitlines()[0] == "stellwerk get btp -A"
