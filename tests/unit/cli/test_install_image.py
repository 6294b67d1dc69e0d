"""An image is one word for users, and four values of the chart."""

from __future__ import annotations

import pytest

from stellwerk.cli.local import chart


@pytest.mark.parametrize(
    ("image", "repository", "tag", "digest"),
    [
        ("stellwerk", "stellwerk", "", ""),
        ("registry.example.com/team/stellwerk:0.1.0", "registry.example.com/team/stellwerk", "0.1.0", ""),
        ("registry.example.com:5000/stellwerk", "registry.example.com:5000/stellwerk", "", ""),
        ("registry.example.com:5000/s:1@sha256:ab", "registry.example.com:5000/s", "1", "sha256:ab"),
        ("s@sha256:ab", "s", "", "sha256:ab"),
    ],
)
def test_an_image_has_repository_tag_and_digest(image: str, repository: str, tag: str, digest: str) -> None:
    assert chart.image_values(image) == {"registry": "", "repository": repository, "tag": tag, "digest": digest}
