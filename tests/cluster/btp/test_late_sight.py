"""What the manager has written and does not see yet is not taken for deleted by somebody else."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.btp import ServiceInstance
from stellwerk.api.core import ConfigMap
from stellwerk.api.events import Event
from stellwerk.kube.types.model import Unstructured, unstructured
from stellwerk.operators.btp.api import VERSIONS_NAME
from stellwerk.testing.eventually import StillUntrue, eventually
from stellwerk.testing.faults import FaultProxy, Hold, events, requests
from tests.cluster.btp.beginnings import provisioned
from tests.cluster.btp.given import Given
from tests.cluster.btp.modules import Module
from tests.cluster.btp.running import Running
from tests.cluster.btp.then import Then


@pytest.fixture
def login(proxy: FaultProxy) -> Path:
    """The operator is at the end of a slow line."""
    return proxy.kubeconfig


@pytest.mark.req("R-103")
async def test_what_is_written_before_the_certificates_and_seen_after_them_is_written_once(
    running: Running, given: Given, then: Then, proxy: FaultProxy
) -> None:
    await given.required_secret()
    await running.start()
    await running.is_quiet()
    await eventually(lambda: running.keys.ready == 2, within=60, describe="nothing else has to be waited for")
    services, hold = requests("apply", "services"), Hold()
    proxy.on_events(events("", "services"), hold)

    await given.btp_operator()
    await hold.caught()
    with contextlib.suppress(StillUntrue):  # what must not come is waited for a while
        await proxy.history.seen(3, services, within=1.0)
    hold.release()
    await then.shows("Ready", "ReconcileSucceeded")
    await running.is_idle()

    assert proxy.history.count(services) == 2, proxy.history
    told = {one.reason for one in (await given.client.list(Event, "kyma-system")).items}
    assert "Restored" not in told


@pytest.mark.req("R-104")
async def test_a_version_without_the_definition_of_a_kind_spares_it_for_an_instance_that_is_not_seen_yet(
    running: Running, given: Given, then: Then, proxy: FaultProxy, module: Module
) -> None:
    await provisioned(running, given, then)
    instances, hold = ServiceInstance.resource.group_resource, Hold()
    proxy.on_events(events("ADDED", instances), hold)
    await given.service_instance("new")
    await hold.caught()
    assert running.users == 0

    module.remove(CustomResourceDefinition.resource, instances)
    module.set_version("v99.0.0")
    running.wake()

    def has_the_version(seen: Unstructured | None) -> bool:
        return seen is not None and seen.at("data", "currentChartVersion") == "v99.0.0"

    await then.becomes(unstructured(ConfigMap.resource), VERSIONS_NAME, has_the_version, "record the new version")
    definition = await given.client.get(CustomResourceDefinition, instances)
    assert not definition.metadata.is_terminating
    await then.service_instance_survives("new")

    hold.release()
    await given.no_instances()
    running.wake()
    await then.disappears(unstructured(CustomResourceDefinition.resource), instances, "")
