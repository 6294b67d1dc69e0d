"""The chart of an installation, the form of its values, and the image of its pods."""

from __future__ import annotations

from pathlib import Path

import pytest

from stellwerk.kube.types.model import JsonObject, dig
from stellwerk.operators.cap_manager.capoperator import chart
from stellwerk.operators.cap_manager.capoperator.chart import UnusableChart
from stellwerk.operators.cap_manager.settings import TABLE, VALUES_VARIABLE, ImageReference

OWN: JsonObject = {"controller": {"replicas": 2}}


def written(folder: Path, name: str) -> Path:
    folder.mkdir()
    (folder / "Chart.yaml").write_text(f"apiVersion: v2\nname: {name}\nversion: 1.0.0\n")
    return folder


def test_without_a_folder_it_is_the_chart_of_the_product(tmp_path: Path) -> None:
    found = chart.load(tmp_path / "absent")
    assert found.is_product
    assert "templates/operators.yaml" in found.files
    assert found.values(OWN, "registry.example.com:5000/stellwerk:1.2", "my-cap") == {
        "image": {"repository": "registry.example.com:5000/stellwerk", "tag": "1.2", "digest": ""},
        "crds": {"keep": False},
        "capOperator": {"enabled": True, "fullnameOverride": "my-cap", "controller": {"replicas": 2}},
    }


def test_the_chart_of_the_product_gets_what_the_manager_inherited_and_nothing_else_from_there(tmp_path: Path) -> None:
    inherited: JsonObject = {"imagePullSecrets": [{"name": "login"}], "image": {"tag": "other"}, "capOperator": {}}
    found = chart.load(tmp_path / "absent", inherited).values(OWN, "example.com/stellwerk:1.2", "my-cap")
    assert found["imagePullSecrets"] == [{"name": "login"}]
    assert (dig(found, "image", "tag"), dig(found, "capOperator", "enabled")) == ("1.2", True)


def test_inherited_values_are_read_from_the_environment_and_have_no_effect_where_they_are_none() -> None:
    read = TABLE.from_environment({VALUES_VARIABLE: '{"imagePullSecrets": [{"name": "login"}]}'})
    assert (read.settings.chart_values, read.rejections) == ({"imagePullSecrets": [{"name": "login"}]}, ())
    unread = TABLE.from_environment({VALUES_VARIABLE: "[1]"})
    assert unread.settings.chart_values == {}
    assert "values of a chart as JSON" in str(unread.rejections)


def test_any_other_chart_has_the_values_at_its_root(tmp_path: Path) -> None:
    found = chart.load(written(tmp_path / "chart", "cap-operator"), {"imagePullSecrets": []})
    assert not found.is_product
    assert found.values(OWN, "", "my-cap") == OWN


def test_a_copy_of_the_products_chart_is_known_by_its_name(tmp_path: Path) -> None:
    assert chart.load(written(tmp_path / "chart", "stellwerk")).is_product


def test_a_folder_without_a_chart_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableChart, match=r"has no Chart\.yaml"):
        chart.load(tmp_path)
    (tmp_path / "Chart.yaml").write_text("{")
    with pytest.raises(UnusableChart, match=r"Chart\.yaml"):
        chart.load(tmp_path)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("stellwerk", ImageReference("stellwerk")),
        ("localhost:5000/a/b", ImageReference("localhost:5000/a/b")),
        ("r.example.com/a:1.0", ImageReference("r.example.com/a", "1.0")),
        (f"a@sha256:{'0' * 64}", ImageReference("a", "", f"sha256:{'0' * 64}")),
        (f"a:1@sha256:{'0' * 64}", ImageReference("a", "1", f"sha256:{'0' * 64}")),
    ],
)
def test_the_parts_of_an_image(text: str, parts: ImageReference) -> None:
    assert ImageReference.parse(text) == parts


@pytest.mark.parametrize("text", ["", "a b", "a@sha256:1", "-a"])
def test_what_is_no_image_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected an image"):
        ImageReference.parse(text)
