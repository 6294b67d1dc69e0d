"""An edited Secret or ConfigMap that a Component refers to counts within seconds, wherever it is referred to."""

from __future__ import annotations

import time

from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.component.api import Blueprint
from stellwerk.testing.faults import AnswerInstead, FaultProxy, requests
from tests.cluster.component.given import Given
from tests.cluster.component.manifests import config
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then

TEMPLATE = config("one", "{{ .value }} ${NAME}")
SOON_SECONDS = 15.0
"""Far from the hour after which it would be looked at anyway."""


async def test_edited_values_and_variables_are_rolled_out_at_once(given: Given, running: Running, then: Then) -> None:
    await given.source({"one.yaml": TEMPLATE})
    await given.secret("values", values="value: a")
    await given.config("names", NAME="anna")
    await given.component(
        valuesFrom=[{"name": "values"}],
        postBuild={"substituteFrom": [{"kind": "ConfigMap", "name": "names"}]},
        requeueInterval="1h",
    )
    await running.start()
    first = await then.ready()
    await then.config_holds("one", {"value": "a anna"})
    began = time.monotonic()
    await given.secret("values", values="value: b")
    await then.config_holds("one", {"value": "b anna"})
    await given.config("names", NAME="berta")
    await then.config_holds("one", {"value": "b berta"})
    assert time.monotonic() - began < 2 * SOON_SECONDS
    await then.counts(first.status.revision + 2)
    assert "Restarting" in then.reasons()


async def test_a_secret_that_is_taken_away_leaves_the_objects_and_one_that_comes_back_goes_on(
    given: Given, running: Running, then: Then
) -> None:
    await given.source({"one.yaml": config("one", "{{ .value }}")})
    await given.secret("values", values="value: a")
    await given.component(valuesFrom=[{"name": "values"}], requeueInterval="1h", retryInterval="1h")
    await running.start()
    await then.ready()
    await given.secret_deleted("values")
    await then.shows("Pending", "Retrying", saying=f"error loading secret {then.key('values')}")
    await then.config_holds("one", {"value": "a"})
    await given.secret("values", values="value: c")
    await then.config_holds("one", {"value": "c"})
    await then.ready()


async def test_a_missing_secret_and_a_missing_source_are_named_at_once(
    given: Given, running: Running, then: Then
) -> None:
    await running.start()
    await given.component(valuesFrom=[{"name": "values"}])
    source = f"/sourceRef/fluxGitRepository: GitRepository {then.key('source')} not found"
    secret = f"/valuesFrom/0: error loading secret {then.key('values')}: not found"
    await then.shows("Pending", "Retrying", saying=f"error resolving references: {secret}; {source}")
    await given.source({"one.yaml": config("one", "{{ .value }}")})
    await then.shows("Pending", "Retrying", saying=f"error resolving references: {secret}")
    await given.secret("values", values="value: a")
    await then.ready()


async def test_a_blueprint_that_cannot_be_read_hides_no_missing_secret(
    proxy: FaultProxy, behind: Running, given: Given, then: Then
) -> None:
    metadata: JsonObject = {"name": "print", "namespace": given.namespace}
    files: JsonObject = {"one.yaml": config("one", "{{ .value }}")}
    await given.client.apply(Blueprint, {"metadata": metadata, "spec": {"files": files}}, force=True)
    with proxy.on_requests(requests("get", Blueprint.resource.group_resource), AnswerInstead(403)):
        await behind.start()
        await given.component(valuesFrom=[{"name": "values"}], sourceRef={"blueprint": {"name": "print"}})
        secret = f"/valuesFrom/0: error loading secret {then.key('values')}: not found"
        await then.shows("Pending", "Retrying", saying=f"error resolving references: {secret}")
        assert "Error" not in {page.state for page in then.history.pages["comp"]}
    await given.secret("values", values="value: a")
    await then.ready()


async def test_others_secrets_wake_nobody(given: Given, running: Running, then: Then) -> None:
    await given.source({"one.yaml": config("one", "{{ .value }}")})
    await given.secret("values", values="value: a")
    await given.component(valuesFrom=[{"name": "values"}])
    await running.start()
    await given.secret("others", values="value: a")
    await then.ready()
    await running.settled(given.client)
    passes = running.passes
    await given.secret("others", values="value: b")
    await running.settled(given.client)
    assert running.passes == passes
    await given.secret("values", values="value: b")
    await then.config_holds("one", {"value": "b"})
