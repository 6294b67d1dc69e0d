"""What `stellwerk` does with the local system never reaches another cluster that is current in its kubeconfig."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stellwerk.cli.local import operators
from stellwerk.cli.shell import login
from stellwerk.cli.shell.settings import CallSettings
from stellwerk.kube.types.errors import Unreachable
from stellwerk.local import cluster
from stellwerk.local.folder import ClusterFolder

OURS, THEIRS, SECOND = (f"https://127.0.0.1:{port}" for port in (1, 2, 3))
"""Ports at which nothing listens."""


@pytest.fixture(autouse=True)
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClusterFolder:
    """A local system that does not run. In its kubeconfig a tool has made another cluster current."""
    monkeypatch.setenv("STELLWERK_STATE", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    for variable in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(variable, raising=False)
    folder = ClusterFolder(tmp_path / "local")
    folder.prepare(1)
    document = json.loads(folder.kubeconfig.read_bytes())
    document["clusters"].append({"name": "prod", "cluster": {"server": THEIRS}})
    document["users"].append({"name": "prod", "user": {"token": "t"}})
    document["contexts"].append({"name": "prod", "context": {"cluster": "prod", "user": "prod"}})
    folder.kubeconfig.write_text(json.dumps({**document, "current-context": "prod"}))
    return folder


def test_the_start_writes_to_the_local_system() -> None:
    with pytest.raises(Unreachable, match=OURS):
        operators.definitions("local").run(lambda text: None)


def test_the_samples_go_to_the_local_system() -> None:
    with pytest.raises(Unreachable, match=OURS):
        operators.samples("local").run(lambda text: None)


def test_a_call_without_a_kubeconfig_goes_to_the_local_system() -> None:
    assert login.configuration(CallSettings()).server == OURS


def test_a_kubeconfig_that_is_named_is_read_where_the_home_folder_cannot_be(
    system: ClusterFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Locked:
        def is_file(self) -> bool:
            raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(login, "usual_kubeconfig", Locked)
    assert login.configuration(CallSettings(kubeconfig=system.kubeconfig, context="prod")).server == THEIRS


@pytest.fixture
def other(tmp_path: Path) -> ClusterFolder:
    """A second local system."""
    folder = ClusterFolder(tmp_path / "other")
    folder.prepare(3)
    return folder


def folder_at(server: str) -> Path | None:
    found = cluster.at_address(server)
    return found.folder if found else None


def test_each_local_system_is_known_by_its_own_address(system: ClusterFolder, other: ClusterFolder) -> None:
    assert folder_at(OURS) == system.path
    assert folder_at(SECOND) == other.path
    assert folder_at(THEIRS) is None
    assert login.start_command(OURS) == "stellwerk up"
    assert login.start_command(SECOND) == "stellwerk up --name other"
    assert login.start_command(THEIRS) == ""


def test_a_damaged_record_hides_its_local_system_alone_and_ends_no_verb(
    system: ClusterFolder, other: ClusterFolder
) -> None:
    (system.path / "cluster.json").write_text("{")
    assert folder_at(OURS) is None
    assert login.start_command(OURS) == ""
    assert folder_at(SECOND) == other.path
