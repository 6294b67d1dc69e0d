"""A cluster that nobody asks is what a person says, on top of what every Kubernetes serves."""

from __future__ import annotations

import pytest

from stellwerk.render.request import offline_capabilities


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("1.33", "v1.33.0"),
        ("v1.33.2", "v1.33.2"),
        ("1.33.2-gke.100", "v1.33.2-gke.100"),
        ("v1.33.2+k3s1", "v1.33.2+k3s1"),
    ],
)
def test_a_version_is_understood_as_people_write_it(said: str, version: str) -> None:
    assert offline_capabilities.cluster(said).version == {"gitVersion": version, "major": "1", "minor": "33"}


@pytest.mark.parametrize("said", ["one", "1", "1.x", "v", "1.33.2 and more"])
def test_what_is_no_version_is_refused(said: str) -> None:
    with pytest.raises(ValueError, match="expected one like"):
        offline_capabilities.cluster(said)


def test_what_is_said_to_be_served_comes_on_top() -> None:
    served = offline_capabilities.cluster(api_versions=["example.com/v1/Thing"]).api_versions

    assert set(served) == {*offline_capabilities.BUILT_IN, "example.com/v1/Thing"}
    assert not offline_capabilities.cluster().version
