"""A chart becomes a release: which objects are ours, when it is rendered again, and in which words it fails."""

from __future__ import annotations

import base64
import os
import shutil
from pathlib import Path

import pytest

from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, ObjectRef
from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.btp import errors
from stellwerk.operators.btp.api import State
from stellwerk.operators.btp.credentials.credentials import BtpCredentials
from stellwerk.operators.btp.module import chart, release
from stellwerk.operators.btp.module.release import SHIPPED, Places
from stellwerk.operators.btp.settings import ModuleSource, Settings
from stellwerk.render.errors import InvalidValues, SourceError
from stellwerk.render.request import values
from stellwerk.render.request.request import Rendered

REF = ObjectRef(GroupVersionKind("", "v1", "Service"), ObjectKey("kyma-system", "svc"))


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


CREDENTIALS = BtpCredentials(
    namespace="kyma-system",
    cluster_id="cluster-one",
    operand_data={"clientid": encoded("id"), "clientsecret": encoded("canary"), "sm_url": "/w==", "other": "x"},
)
LAYERS = chart.layers(CREDENTIALS)


def rendered(*objects: JsonObject) -> Rendered:
    return Rendered("helm", objects, tuple(f"templates/{n}.yaml" for n in range(len(objects))), None, frozenset(), "")


def body(kind: str, name: str, **annotations: str) -> JsonObject:
    metadata: JsonObject = {"name": name}
    return {"kind": kind, "metadata": {**metadata, "annotations": dict(annotations)} if annotations else metadata}


@pytest.fixture
def places(tmp_path: Path) -> Places:
    (tmp_path / "module-chart/chart/templates").mkdir(parents=True)
    (tmp_path / "module-chart/chart/Chart.yaml").write_text("apiVersion: v2\nname: a\nversion: 1.0.0\n")
    (tmp_path / "module-chart/chart/templates/a.yaml").write_text("a")
    return Places.of(Settings(), tmp_path)


# ---- values


def test_credentials_become_values_and_what_is_no_text_is_left_out() -> None:
    merged = values.merge(LAYERS)

    secret = {"clientid": "id", "clientsecret": "canary", "sm_url": "", "tokenurl": ""}
    assert merged == {"manager": {"secret": secret}, "cluster": {"id": "cluster-one"}}


def test_credentials_are_hidden_in_what_is_told() -> None:
    assert "canary" in values.secret_words(LAYERS)
    assert "cluster-one" not in values.secret_words(LAYERS)
    assert "canary" not in repr(LAYERS)


# ---- objects


def test_certificates_of_the_chart_are_left_out_and_other_secrets_kept() -> None:
    found = chart.documents(rendered(body("Secret", "webhook-server-cert"), body("Secret", "ca"), body("Job", "a")))

    assert [document.body["kind"] for document in found] == ["Secret", "Job"]
    assert str(found[0].origin) == "templates/1.yaml"


def test_what_hooks_were_mapped_to_is_taken_off_again() -> None:
    hook = body("Job", "a", **{f"{chart.HOOKS_PREFIX}/apply-order": "-101", "helm.sh/hook": "pre-install"})

    (found,) = chart.documents(rendered(hook))

    assert found.body == body("Job", "a", **{"helm.sh/hook": "pre-install"})


# ---- files


def test_a_changed_new_or_removed_file_and_new_overrides_are_noticed(places: Places) -> None:
    stamps = [chart.stamp(places)]
    template = places.chart / "templates" / "a.yaml"
    os.utime(template, ns=(1, 1))
    stamps.append(chart.stamp(places))
    (places.chart / "templates" / "b.yaml").write_text("b")
    stamps.append(chart.stamp(places))
    template.unlink()
    stamps.append(chart.stamp(places))
    (places.chart.parent / "overrides.yaml").write_text("a: 1\n")
    stamps.append(chart.stamp(places))

    assert len(set(stamps)) == 5
    assert chart.stamp(places) == stamps[-1]


def test_a_chart_that_is_mounted_from_a_config_map_is_read_once(tmp_path: Path) -> None:
    folder = tmp_path / "chart"
    (folder / "..2026").mkdir(parents=True)
    (folder / "..2026" / "Chart.yaml").write_text("name: a\n")
    (folder / "..data").symlink_to("..2026")
    (folder / "Chart.yaml").symlink_to("..data/Chart.yaml")

    files, overrides = chart.read(folder)

    assert dict(files) == {"Chart.yaml": b"name: a\n"}
    assert overrides == {}


def test_a_missing_chart_is_named_by_its_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        chart.read(tmp_path / "none")

    assert raised.value.filename == str(tmp_path / "none" / "Chart.yaml")


def test_a_folder_that_is_no_chart_is_not_read_into_memory(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chart, "MOST_BYTES", 20)

    with pytest.raises(SourceError, match="is it a chart"):
        chart.read(places.chart)


def test_broken_overrides_are_named_with_the_line_and_quote_nothing(places: Places) -> None:
    (places.chart.parent / "overrides.yaml").write_text("a: 1\nb: canary: c\n")

    with pytest.raises(InvalidValues, match=r"overrides\.yaml, line 2") as raised:
        chart.read(places.chart)

    assert "canary" not in str(raised.value)


# ---- which source


def test_resources_are_the_default_and_auto_takes_the_chart_where_there_are_none(tmp_path: Path) -> None:
    def chosen(source: ModuleSource) -> bool:
        return release.comes_from_chart(Settings(module_source=source, resources_path=str(tmp_path)))

    assert [chosen(source) for source in ModuleSource] == [False, True, True]
    (tmp_path / "apply").mkdir()
    assert [chosen(source) for source in ModuleSource] == [False, True, False]


def test_a_chart_in_the_working_directory_is_taken_with_our_network_policies(places: Places, tmp_path: Path) -> None:
    found = release.in_force(Settings(module_source=ModuleSource.CHART), tmp_path)

    assert Path(found.chart_path) == places.chart
    assert Path(found.manager_resources_path) == SHIPPED / "manager-resources"
    (tmp_path / "manager-resources").mkdir()
    own = release.in_force(Settings(module_source=ModuleSource.AUTO), tmp_path)
    assert Path(own.manager_resources_path) == tmp_path / "manager-resources"


def test_where_there_is_no_chart_the_working_directory_is_named_and_auto_takes_what_we_ship(tmp_path: Path) -> None:
    asked = release.in_force(Settings(module_source=ModuleSource.CHART), tmp_path)
    either = release.in_force(Settings(module_source=ModuleSource.AUTO), tmp_path)

    assert Path(asked.chart_path) == tmp_path / "module-chart" / "chart"
    assert not release.comes_from_chart(either)


@pytest.mark.parametrize("given", [{"module-resources"}, {"manager-resources"}, {"module-chart/chart"}, set()])
@pytest.mark.parametrize("absolute", [False, True])
def test_each_folder_that_is_missing_is_the_one_that_we_ship(tmp_path: Path, given: set[str], absolute: bool) -> None:
    for folder in given:
        shutil.copytree(SHIPPED / folder, tmp_path / folder)

    def asked(folder: str) -> str:
        return str(tmp_path / folder) if absolute and folder in given else folder

    settings = Settings(
        module_source=ModuleSource.RESOURCES,
        resources_path=asked("module-resources"),
        manager_resources_path=asked("manager-resources"),
        chart_path=asked("module-chart/chart"),
    )
    found = release.in_force(settings, tmp_path)

    folders = ("module-resources", "manager-resources", "module-chart/chart")
    taken = [Path(path) for path in (found.resources_path, found.manager_resources_path, found.chart_path)]
    assert taken == [(tmp_path if folder in given else SHIPPED) / folder for folder in folders]
    assert release.load(release.Places.of(found)).network_policies


def test_an_empty_chart_path_stays_empty(tmp_path: Path) -> None:
    assert release.in_force(Settings(module_source=ModuleSource.CHART, chart_path=""), tmp_path).chart_path == ""


# ---- failures


@pytest.mark.parametrize(
    ("failure", "state", "reason", "begins"),
    [
        (errors.ModuleUnreadable("a: b"), State.Ready, "PreparingInstallInfoFailed", "Error while preparing"),
        (
            errors.ModuleIncomplete({"configMap": True, "secret": True, "deployment": False}),
            State.Processing,
            "PreparingInstallInfoFailed",
            "Error while preparing InstallInfo: chart ./c: required module resources not found",
        ),
        (
            errors.ApplyFailed("no", REF),
            State.Processing,
            "ChartInstallFailed",
            "error while installing resource kyma-system/svc: ",
        ),
        (errors.ApplyFailed("no"), None, "ChartInstallFailed", "error while installing resources: "),
        (
            errors.NotReadyInTime(REF, "why"),
            State.Ready,
            "ConsistencyCheckFailed",
            "Checking consistency of resource kyma-system/svc failed: timed out",
        ),
        (
            errors.OutdatedNotDeleted([(REF, "no")]),
            State.Ready,
            "DeletionOfOrphanedResourcesFailed",
            "Deletion of orphaned resources failed: ",
        ),
        (errors.OrphansUnknown("Job: no"), None, "DeletionOfOrphanedResourcesFailed", "Deletion of orphaned"),
        (errors.NotRecorded("no"), None, "StoringChartDetailsFailed", "Failure of storing chart details: "),
        (errors.RecordUnread("no"), None, "GettingConfigMapFailed", "Getting config map failed: "),
        (errors.ChartPathEmpty("set ChartPath"), None, "ChartPathEmpty", "No chart path available for processing"),
    ],
)
def test_failures_are_told_in_the_words_of_the_chart_era(
    failure: errors.StepFailed, state: State | None, reason: str, begins: str
) -> None:
    told = errors.of_chart(failure, "./c", state)

    assert told.reason_in(state) == reason
    assert str(told).startswith(begins)


def test_what_has_nothing_to_do_with_the_chart_keeps_its_words() -> None:
    failure = errors.RemovalFailed("no")

    assert errors.of_chart(failure, "./c", State.Deleting) is failure
