"""Figures of all clusters: Kymas by state, modules by version and state, rollouts."""

from __future__ import annotations

from stellwerk.api.core import ConfigMap
from stellwerk.cli.look import status
from stellwerk.kube.types.model import Unstructured
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api_manifest import Manifest, ManifestSpec, ManifestStatus
from stellwerk.operators.kyma.api_status import State
from stellwerk.operators.kyma.insight import fleet


def manifest(version: str, state: State) -> Manifest:
    metadata = ObjectMeta(name="m", namespace="n", labels={labels.MODULE_NAME_LABEL: "keda"})
    return Manifest(metadata=metadata, spec=ManifestSpec(version=version), status=ManifestStatus(state=state))


def rollout(state: str, turns: str = "{}") -> ConfigMap:
    metadata = ObjectMeta(name="rollout-keda-2.0.0", namespace="kcp-system", labels={labels.ROLLOUT_LABEL: "keda"})
    return ConfigMap(metadata=metadata, data={"state": state, "done": "7", "forgiven": "0", "turns": turns})


def test_modules_are_counted_by_version_and_state() -> None:
    found = fleet.of_modules(
        [manifest("1.0.0", State.Ready), manifest("1.0.0", State.Ready), manifest("2.0.0", State.Unset)]
    )
    assert found.rows == (("keda", "1.0.0", "Ready", "2"), ("keda", "2.0.0", "new", "1"))


def test_kymas_are_counted_by_state_and_one_without_a_state_is_new() -> None:
    kymas = [Unstructured.of({"kind": "Kyma", "status": {"state": "Error"}}), Unstructured.of({"kind": "Kyma"})]
    assert fleet.of_kymas(kymas).rows == (("Error", "1"), ("new", "1"))


def test_a_rollout_that_has_stopped_names_the_command_that_resumes_it() -> None:
    failed = '{"north": {"since": "2026-05-01T12:00:00Z", "state": "Failed"}}'
    (row,) = fleet.of_rollouts([rollout("Stopped", failed)]).rows
    assert row[:6] == ("keda", "2.0.0", "Stopped", "7", "0", "1")
    assert row[6].startswith("resume it: kubectl annotate configmap -n kcp-system rollout-keda-2.0.0 ")
    assert fleet.of_rollouts([rollout("Running")]).rows[0][2:] == ("Running", "7", "0", "0", "")
    assert fleet.of_rollouts([rollout("Odd")]).rows[0][2] == "Unreadable"


def test_tables_without_rows_are_left_out_for_people_and_empty_for_programs() -> None:
    tables = (fleet.of_kymas([]), fleet.of_modules([manifest("1.0.0", State.Ready)]))
    assert status.fleet_lines(tables) == ["MODULE  VERSION  STATE  CLUSTERS", "keda    1.0.0    Ready  1"]
    assert status.fleet_json(tables) == {
        "kymas": [],
        "modules": [{"module": "keda", "version": "1.0.0", "state": "Ready", "clusters": "1"}],
    }
