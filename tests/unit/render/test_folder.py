"""A folder of the reader's own machine: what lies in it is read, and nothing outside of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stellwerk.render.errors import BadArchive
from stellwerk.render.files import local_files


def test_files_are_read_below_the_folder_and_those_of_tools_are_not(tmp_path: Path) -> None:
    (tmp_path / "a" / ".git").mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("x")
    (tmp_path / "a" / ".git" / "config").write_text("x")
    (tmp_path / "a" / "b.yaml").write_text("b")
    (tmp_path / "within.yaml").symlink_to("a/b.yaml")
    os.mkfifo(tmp_path / "pipe")
    assert {**local_files.read(tmp_path)} == {"a/b.yaml": b"b", "within.yaml": b"b"}


@pytest.mark.parametrize("link", ["file", "folder", "absolute", "chain", "broken", "within a folder"])
def test_a_link_that_leads_out_of_the_folder_is_refused_and_not_followed(tmp_path: Path, link: str) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    (outside / "secret").write_text("canary")
    (inside / "sub").mkdir(parents=True)
    (inside / "a.yaml").write_text("a")
    match link:
        case "file":
            (inside / "b.yaml").symlink_to("../outside/secret")
        case "folder":
            (inside / "charts").symlink_to("../outside")
        case "absolute":
            (inside / "b.yaml").symlink_to(outside / "secret")
        case "chain":
            (inside / "b.yaml").symlink_to("c.yaml")
            (inside / "c.yaml").symlink_to("../outside/secret")
        case "broken":
            (inside / "b.yaml").symlink_to("../nothing")
        case _:
            (inside / "sub" / "b.yaml").symlink_to("../../outside/secret")
    with pytest.raises(BadArchive, match="leads out of the folder") as caught:
        local_files.read(inside)
    assert "canary" not in str(caught.value)


def test_the_folder_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.yaml").write_text("a")
    (tmp_path / "link").symlink_to("real")
    assert list(local_files.read(tmp_path / "link")) == ["a.yaml"]
