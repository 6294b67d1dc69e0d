"""How many clusters have which version of a module, as scrapes show it."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.kyma.kyma.worlds import a_kyma, a_manifest, a_rollout

from stellwerk.api.core import ConfigMap
from stellwerk.kube.types.object_meta import Condition
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import Kyma, KymaStatus
from stellwerk.operators.kyma.api_manifest import Manifest, ManifestSpec, ManifestStatus
from stellwerk.operators.kyma.api_status import State
from stellwerk.operators.kyma.fleet.figures import Figure, FleetFigures, figure_of
from stellwerk.runtime.cache.store import Store
from stellwerk.runtime.telemetry.metrics import Metrics


def manifest(name: str, module: str = "keda", version: str = "1.0.0", state: State = State.Ready) -> Manifest:
    made = a_manifest(name, labels={labels.MODULE_NAME_LABEL: module})
    return msgspec.structs.replace(made, spec=ManifestSpec(version=version), status=ManifestStatus(state=state))


CHANGES = st.lists(
    st.tuples(
        st.sampled_from("abcdef"),
        st.sampled_from(["keda", "btp-operator", ""]),
        st.sampled_from(["1.0.0", "2.0.0", "x\ny"]),
        st.sampled_from([None, State.Ready, State.Error, State.Unset]),
    ),
    max_size=30,
)


@given(CHANGES)
def test_counts_follow_each_change_of_the_cache(changes: list[tuple[str, str, str, State | None]]) -> None:
    store, rollouts = Store[Manifest](), Store[ConfigMap]()
    figures = FleetFigures(store, rollouts, Store[Kyma]())
    for name, module, version, state in changes:
        changed = manifest(name, module, version, state or State.Ready)
        if state is None:
            store.remove(changed.key)
        else:
            store.put(changed)
    expected: dict[Figure, int] = {}
    for each in store.all():
        figure = figure_of(each)._replace(version=each.spec.version.replace("\n", " "))
        expected[figure] = expected.get(figure, 0) + 1
    assert figures.counts() == expected


def test_scrapes_show_versions_states_and_rollouts() -> None:
    store, rollouts, metrics = Store[Manifest](), Store[ConfigMap](), Metrics()
    kymas = Store[Kyma]()
    in_step, behind = (Condition(type="ModuleCatalog", status=each, reason="Ready") for each in ("True", "False"))
    for name, condition in (("a", in_step), ("b", in_step), ("c", behind)):
        kymas.put(msgspec.structs.replace(a_kyma(name=name), status=KymaStatus(conditions=(condition,))))
    metrics.register(FleetFigures(store, rollouts, kymas))
    names = ("a", "b", "c")
    store.replace([*(manifest(name) for name in names), manifest("d", version="2.0.0", state=State.Processing)])
    turn = {"since": "2026-01-01T00:00:00Z"}
    broken = a_rollout("serverless-1.5.0", state="Unclear")
    rollouts.replace([a_rollout("keda-2.0.0", d=turn, e={**turn, "state": "Failed"}), broken])
    lines = metrics.exposition().decode().splitlines()
    assert [each for each in lines if each.startswith("stellwerk_kyma_")] == [
        'stellwerk_kyma_modules{module="keda",state="Ready",version="1.0.0"} 3.0',
        'stellwerk_kyma_modules{module="keda",state="Processing",version="2.0.0"} 1.0',
        'stellwerk_kyma_conditions{condition="ModuleCatalog",status="False"} 1.0',
        'stellwerk_kyma_conditions{condition="ModuleCatalog",status="True"} 2.0',
        'stellwerk_kyma_rollout_turns{module="keda",state="UnderWay",version="2.0.0"} 1.0',
        'stellwerk_kyma_rollout_turns{module="keda",state="Failed",version="2.0.0"} 1.0',
        'stellwerk_kyma_rollout_turns{module="keda",state="Withdrawn",version="2.0.0"} 0.0',
        'stellwerk_kyma_rollout_stopped{module="keda",version="2.0.0"} 0.0',
        'stellwerk_kyma_rollout_stopped{module="serverless",version="1.5.0"} 1.0',
    ]
