"""An operator that is killed before or after any of its writes is replayed against its clean run."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cluster.testing.conftest import Api

from stellwerk.kube.types.identifiers import Resource
from stellwerk.testing.faults import CutConnection, FaultProxy, Kill, nth
from stellwerk.testing.processes.operator_process import OperatorProcess
from stellwerk.testing.scenarios.normalize import Masks
from stellwerk.testing.scenarios.recorder import (
    LASTING_WRITES,
    Run,
    RunsDiffer,
    Selection,
    TrafficRecorder,
    assert_same,
)

CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", True)


@pytest.fixture
def recorder(proxy: FaultProxy, namespace: str) -> TrafficRecorder:
    """Records the ConfigMaps of the test; controllers put another one into every new namespace."""
    return TrafficRecorder(
        proxy, [Selection(CONFIG_MAPS, namespace, "test=yes")], masks=Masks(words={namespace: "NAMESPACE"})
    )


@pytest.fixture
async def clean(recorder: TrafficRecorder, copier: OperatorProcess, api: Api, maps: str, tmp_path: Path) -> Run:
    """The copier's run without a fault; afterwards the world is as before."""

    async def copies() -> None:
        await copier.start()
        await copier.logged("done")

    await api.ask("POST", maps, {"metadata": {"name": "source", "labels": {"test": "yes"}}, "data": {"key": "value"}})
    run = await recorder.run(copies)
    await copier.terminate()
    for number in range(1, 6):
        await api.ask("DELETE", f"{maps}/copy-{number}")
    copier.log.unlink()
    return run


async def test_a_clean_run_keeps_writes_in_order_and_the_end(clean: Run) -> None:
    assert [(write.action, write.target) for write in clean.writes] == [
        ("create", f"configmaps NAMESPACE/copy-{number}") for number in range(1, 6)
    ]
    assert clean.objects["ConfigMap/NAMESPACE/copy-1"] == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "copy-1",
            "namespace": "NAMESPACE",
            "labels": {"test": "yes"},
            "creationTimestamp": "<time>",
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "name": "source",
                    "uid": "<uid of ConfigMap/NAMESPACE/source>",
                }
            ],
        },
        "data": {"key": "value"},
    }


@pytest.mark.parametrize("after", [False, True])
async def test_killed_at_each_write_and_started_again_it_ends_as_the_clean_run(
    clean: Run, recorder: TrafficRecorder, proxy: FaultProxy, copier: OperatorProcess, api: Api, maps: str, after: bool
) -> None:
    for number in range(1, len(clean.writes) + 1):

        async def killed_and_restarted(number: int = number) -> None:
            rule = proxy.on_requests(LASTING_WRITES, Kill(copier, after_forwarding=after), nth(number))
            await copier.start()
            assert await copier.wait() == -9
            rule.end()
            await copier.start()
            await copier.logged("done")

        assert_same(clean, await recorder.run(killed_and_restarted))
        await copier.terminate()
        copier.log.unlink()
        for copy in range(1, 6):
            await api.ask("DELETE", f"{maps}/copy-{copy}")


async def test_a_lost_reply_is_survived_and_a_lost_object_is_told(
    clean: Run, recorder: TrafficRecorder, proxy: FaultProxy, copier: OperatorProcess, api: Api, maps: str
) -> None:
    proxy.on_requests(LASTING_WRITES, CutConnection(after_forwarding=True), nth(3))

    async def loses_a_reply() -> None:
        await copier.start()
        await copier.logged("done")

    async def loses_an_object() -> None:
        await api.ask("DELETE", f"{maps}/copy-3")

    assert_same(clean, await recorder.run(loses_a_reply))
    assert "again\n409" in copier.log_text()
    with pytest.raises(RunsDiffer, match=r"^- ConfigMap/NAMESPACE/copy-3 is missing$"):
        assert_same(clean, await recorder.run(loses_an_object))
