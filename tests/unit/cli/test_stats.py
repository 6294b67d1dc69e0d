"""`stellwerk stats` counts objects, and reads what processes measure."""

from __future__ import annotations

from stellwerk.cli.look import stats
from stellwerk.cli.look.stats import ControllerWork, KindCount
from stellwerk.kube.types.model import JsonObject, Unstructured

METRICS = """
# HELP controller_runtime_reconcile_total Total number of reconciliations per controller
# TYPE controller_runtime_reconcile_total counter
controller_runtime_reconcile_total{controller="btp",result="success"} 40
controller_runtime_reconcile_total{controller="btp",result="error"} 2
controller_runtime_reconcile_errors_total{controller="btp"} 2
controller_runtime_reconcile_time_seconds_bucket{controller="btp",le="0.1"} 42
controller_runtime_reconcile_time_seconds_sum{controller="btp"} 0.84
controller_runtime_reconcile_time_seconds_count{controller="btp"} 42
controller_runtime_active_workers{controller="btp"} 1
workqueue_depth{controller="btp",name="btp",priority=""} 3
workqueue_depth{controller="b \\"} odd",name="x"} NaN-not
workqueue_adds_total{controller="btp",name="btp"} 99
process_cpu_seconds_total 7
"""


def an_object(kind: str, state: str, status: str) -> Unstructured:
    condition: JsonObject = {"type": "Ready", "status": status, "reason": "R", "message": ""}
    head: JsonObject = {"apiVersion": "operator.kyma-project.io/v1alpha1", "kind": kind, "metadata": {"name": "a"}}
    return Unstructured.of({**head, "status": {"state": state, "conditions": [condition]}})


def test_objects_are_counted_by_kind_and_state() -> None:
    found = stats.counted(
        [
            an_object("BtpOperator", "Warning", "False"),
            an_object("Component", "Ready", "True"),
            an_object("BtpOperator", "Ready", "True"),
            an_object("BtpOperator", "Ready", "True"),
        ]
    )
    assert found == [
        KindCount("BtpOperator", 3, 2, 1, {"Ready": 2, "Warning": 1}),
        KindCount("Component", 1, 1, 0, {"Ready": 1}),
    ]
    assert stats.shown(found, [])[1].split() == ["BtpOperator", "3", "2", "1", "Ready", "2,", "Warning", "1"]


def test_what_a_controller_has_done_is_read_from_the_metrics_of_its_process() -> None:
    [work] = stats.measured("operator-btp", METRICS)
    assert work == ControllerWork("operator-btp", "btp", 42, 2, work.mean_seconds, 3, 1)
    assert round(work.mean_seconds, 6) == 0.02
    assert stats.shown([], [work])[1].split() == ["operator-btp", "btp", "42", "2", "20.0", "ms", "3", "1"]
    assert stats.as_json([], [work])["kinds"] == []
    assert stats.measured("p", "no metrics\n{} 1\n") == []
