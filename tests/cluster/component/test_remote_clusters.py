"""Objects may go to another cluster, and a broken one is nobody's trouble but its own Components'."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest
from yarl import URL

from stellwerk.api.core import ConfigMap, Namespace
from stellwerk.api.rbac import RoleBinding
from stellwerk.kube.client.client import Client
from stellwerk.kube.http.transport import LARGEST_FOREIGN_ANSWER_BYTES
from stellwerk.kube.types.errors import AlreadyExists
from stellwerk.kube.types.model import JsonObject, metadata_of
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.component.api import ABANDON_ANNOTATION, CONFIRMED_CLUSTER_ANNOTATION, OWNER_ID
from stellwerk.operators.component.targets import abandon_remote
from stellwerk.runtime import conditions
from stellwerk.testing.eventually import eventually
from stellwerk.testing.faults import ANYTHING, AnswerInstead, CutConnection, Drop, FaultProxy, RequestFault, requests
from tests.cluster.component.given import Given, config_map
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then

ONE = {"one.yaml": config_map("one")}
THERE = {"secretRef": {"name": "there"}}
NOTHING: Mapping[str, object] = {}


def changed(login: str, *, user: Mapping[str, object] = NOTHING, cluster: Mapping[str, object] = NOTHING) -> str:
    """The kubeconfig with other means beside its own."""
    body = json.loads(login)
    body["users"][0]["user"].update(user)
    body["clusters"][0]["cluster"].update(cluster)
    return json.dumps(body)


async def test_objects_go_to_the_other_cluster_and_come_back_from_it(
    given: Given, running: Running, then: Then, remote: Client, login: str
) -> None:
    await given.source(ONE)
    await given.secret("there", **{"value.yaml": login})
    await running.start(default_service_account="nobody-at-home")
    await given.component(kubeConfig=THERE)
    ready = await then.ready()
    assert [(item.namespace, item.name, item.phase) for item in ready.status.inventory] == [
        (then.namespace, "one", "Ready")
    ]
    found = await remote.get(ConfigMap, "one", then.namespace)
    local = await given.client.get(metadata_of(Namespace), "kube-system")
    assert found.metadata.annotations[OWNER_ID] == f"{local.metadata.uid}/{then.namespace}/comp"
    assert not await then.exists(ConfigMap, "one")
    await remote.delete(metadata_of(ConfigMap), "one", then.namespace)
    await eventually(lambda: is_another(remote, found), describe="it is made again")

    await given.secret_deleted("there")
    await then.shows("Pending", "Retrying", saying=f"error loading secret {then.namespace}/there")
    await given.deleted()
    await then.shows(
        "DeletionPending", "DeletionRetrying", saying=f"error loading secret {then.namespace}/there: not found"
    )
    assert await remote.find(metadata_of(ConfigMap), "one", then.namespace) is not None
    await given.secret("there", **{"value.yaml": login})
    await then.gone()
    assert await remote.find(metadata_of(ConfigMap), "one", then.namespace) is None


async def test_what_was_counted_of_a_cluster_goes_with_its_last_component(
    given: Given, running: Running, then: Then, remote: Client, login: str
) -> None:
    """Other clusters come and go without bound, and their series must not stay behind."""
    await given.source(ONE)
    await given.secret("there", **{"value.yaml": login})
    await running.start()
    await given.component(kubeConfig=THERE)
    await then.ready()
    series = f'rest_client_requests_total{{code="200",host="{URL(remote.config.server).authority}"'.encode()
    metrics = running.manager.metrics
    assert series in metrics.exposition()

    await given.deleted()
    await then.gone()
    await eventually(lambda: series not in metrics.exposition(), describe="the series are gone")


@pytest.mark.req("R-503")
async def test_of_a_kubeconfig_only_what_stands_in_it_is_used(
    given: Given, running: Running, then: Then, remote: Client, login: str
) -> None:
    program = {"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/true"}
    token = "/var/run/secrets/kubernetes.io/serviceaccount/token"
    refused = [
        (changed(login, user={"exec": program}), "uses a login program (exec)"),
        (changed(login, user={"auth-provider": {"name": "oidc"}}), "uses auth-provider"),
        (changed(login, user={"tokenFile": token}), "uses paths of files"),
        (changed(login, cluster={"insecure-skip-tls-verify": True}), "uses insecure-skip-tls-verify"),
        (changed(login, user={"client-certificate": "/etc/tls.crt"}), "uses paths of files"),
        (changed(login, cluster={"proxy-url": "http://proxy.example.com"}), "uses proxy-url"),
        (changed(login, cluster={"certificate-authority": "/etc/ca.crt"}), "uses paths of files"),
        (changed(login, cluster={"server": "http://127.0.0.1:1"}), "uses a server that is not https"),
        ("{", "is not valid YAML"),
    ]
    await given.source(ONE)
    await running.start()
    await given.secret("there", value="a: b")
    await given.component(kubeConfig=THERE)
    await then.shows("Error", "Error", saying=f"kubeconfig in secret {then.namespace}/there cannot be used")
    for text, words in refused:
        await given.secret("there", value=text)
        failed = await then.shows("Error", "Error", saying=words)
        stalled = conditions.find(failed.status.conditions, "Stalled")
        assert stalled is not None
        assert stalled.reason == "InvalidKubeConfig"
    assert await remote.find(metadata_of(Namespace), then.namespace) is None
    await given.secret("there", value=login)
    await then.ready()


@asynccontextmanager
async def near_and_far(
    given: Given, running: Running, then: Then, remote_cluster: LocalCluster
) -> AsyncIterator[FaultProxy]:
    """Two Components that are ready: `near` at home, and `far` on another cluster, behind the proxy."""
    await given.source(ONE)
    login = remote_cluster.kubeconfig_for("component-operator-from-afar", ["system:masters"])
    async with FaultProxy(login) as proxy:
        await given.secret("there", value=proxy.kubeconfig.read_text())
        await running.start()
        await given.component("far", kubeConfig=THERE)
        await given.component("near")
        await then.ready("far")
        await then.ready("near")
        yield proxy


@pytest.mark.req("R-210")
async def test_a_cluster_that_breaks_is_named_and_delays_nobody_else(
    given: Given, running: Running, then: Then, remote: Client, remote_cluster: LocalCluster
) -> None:
    async with near_and_far(given, running, then, remote_cluster) as proxy:
        flood = b" " * (LARGEST_FOREIGN_ANSWER_BYTES + 1)
        faults: dict[str, RequestFault] = {
            "the connection was cut": CutConnection(),
            "the answer is not": AnswerInstead(200, raw=b"<html>maintenance</html>"),
            "the answer is larger than 16 MiB": AnswerInstead(200, raw=flood),
            "the fault proxy refuses it": AnswerInstead(503),
        }
        for words, fault in faults.items():
            rule = proxy.on_requests(ANYTHING, fault)
            await given.source({**ONE, "two.yaml": config_map("two", fault=words)}, revision=words)
            await then.ready("near", revision=words)
            failed = await then.shows("Error", "Error", "far", saying=words)
            stalled = conditions.find(failed.status.conditions, "Stalled")
            assert stalled is None, "waiting helps"
            rule.end()
            await running.waits(minutes=20)
            await then.ready("far", revision=words)
    assert await remote.find(metadata_of(ConfigMap), "two", then.namespace) is not None


@pytest.mark.req("R-210")
async def test_a_cluster_that_is_not_who_it_should_be_gets_nothing(
    given: Given, running: Running, then: Then, login: str, component_cluster: LocalCluster
) -> None:
    await given.source(ONE)
    other = json.loads(component_cluster.kubeconfig.read_text())
    authority = other["clusters"][0]["cluster"]["certificate-authority-data"]
    await given.secret("there", value=changed(login, cluster={"certificate-authority-data": authority}))
    await running.start()
    await given.component(kubeConfig=THERE)
    await then.shows("Error", "Error", saying="certificate")
    await given.component("near")
    await then.ready("near")


@pytest.mark.req("R-210")
async def test_a_cluster_that_takes_the_place_of_another_gets_nothing_until_that_is_confirmed(
    given: Given, running: Running, then: Then, remote: Client, login: str, component_cluster: LocalCluster
) -> None:
    other = component_cluster.kubeconfig_for("component-operator-from-afar", ["system:masters"]).read_text()
    await given.source(ONE)
    await given.secret("there", value=login)
    await running.start()
    await given.component(kubeConfig=THERE)
    ready = await then.ready()
    former, found = [
        (await client.get(metadata_of(Namespace), "kube-system")).metadata.uid for client in (remote, given.client)
    ]
    assert ready.status.target_cluster == former

    await given.secret("there", value=other)
    stopped = await then.shows("Error", "Error", saying=f"in the cluster {former}")
    stalled = conditions.find(stopped.status.conditions, "Stalled")
    assert stalled is not None
    assert stalled.reason == "TargetClusterChanged"
    assert not await then.exists(ConfigMap, "one")
    await given.secret("there", value=login)
    await then.ready()

    await given.secret("there", value=other)
    await then.shows("Error", "Error", saying=f"leads to the cluster {found}")
    await given.annotated(**{CONFIRMED_CLUSTER_ANNOTATION: found})
    moved = await then.ready()
    assert moved.status.target_cluster == ""
    assert await then.exists(ConfigMap, "one")
    assert await remote.find(metadata_of(ConfigMap), "one", then.namespace) is not None
    await given.deleted()
    await then.gone()
    assert not await then.exists(ConfigMap, "one")


@pytest.mark.req("R-112")
@pytest.mark.req("R-505")
async def test_what_is_in_a_lost_cluster_is_given_up_when_that_is_asked_for_and_told(
    given: Given, running: Running, then: Then, remote: Client, login: str, caplog: pytest.LogCaptureFixture
) -> None:
    await given.source(ONE)
    await given.secret("there", value=login)
    await running.start()
    await given.component(kubeConfig=THERE)
    ready = await then.ready()
    await given.secret_deleted("there")
    await then.shows("Pending", "Retrying", saying=f"error loading secret {then.namespace}/there")
    await given.deleted()
    asked = f"{ABANDON_ANNOTATION}={ready.metadata.uid}"
    await then.shows("DeletionPending", "DeletionRetrying", saying=f"annotate the component with {asked}")

    await given.annotated(**{ABANDON_ANNOTATION: "true"})
    await running.settled(given.client)
    await running.waits(seconds=11)
    await running.rests()
    await then.shows("DeletionPending", "DeletionRetrying", saying=asked)
    await given.annotated(**{ABANDON_ANNOTATION: ready.metadata.uid})
    await then.gone()
    assert await remote.find(metadata_of(ConfigMap), "one", then.namespace) is not None
    await then.event(abandon_remote.REASON, about="comp", saying=f"ConfigMap {then.namespace}/one")
    assert f"left behind in the other cluster: ConfigMap {then.namespace}/one" in caplog.text


@pytest.mark.req("R-210")
@pytest.mark.req("R-505")
async def test_what_is_in_a_cluster_that_answers_is_deleted_whatever_was_asked_for(
    given: Given, running: Running, then: Then, remote: Client, remote_cluster: LocalCluster
) -> None:
    await given.source(ONE)
    login = remote_cluster.kubeconfig_for("component-operator-from-afar", ["system:masters"])
    async with FaultProxy(login) as proxy:
        await given.secret("there", value=proxy.kubeconfig.read_text())
        await running.start()
        for name in ("answers", "silent"):
            await given.component(name, kubeConfig=THERE, namespace=f"{then.namespace}-{name}")
            ready = await then.ready(name)
            await given.annotated(name, **{ABANDON_ANNOTATION: ready.metadata.uid})
            await then.ready(name)

        await given.deleted("answers")
        await then.gone("answers")
        await is_gone(remote, "one", f"{then.namespace}-answers")

        await running.waits(minutes=2)  # what is known of the cluster is believed for a minute
        proxy.on_requests(ANYTHING, CutConnection())
        await given.deleted("silent")
        await then.gone("silent")
    assert await remote.find(metadata_of(ConfigMap), "one", f"{then.namespace}-silent") is not None
    for name in ("answers", "silent"):
        await remote.delete(metadata_of(Namespace), f"{then.namespace}-{name}")


async def is_gone(remote: Client, name: str, namespace: str) -> None:
    async def absent() -> bool:
        return await remote.find(metadata_of(ConfigMap), name, namespace) is None

    await eventually(absent, describe=f"{namespace}/{name} is gone")


async def is_another(remote: Client, former: ConfigMap) -> bool:
    found = await remote.find(ConfigMap, former.metadata.name, former.metadata.namespace)
    return found is not None and found.metadata.uid != former.metadata.uid


@pytest.mark.req("R-210")
async def test_a_cluster_that_never_answers_leaves_room_for_others(
    given: Given, running: Running, then: Then, remote: Client, remote_cluster: LocalCluster
) -> None:
    await given.source(ONE)
    login = remote_cluster.kubeconfig_for("component-operator-from-afar", ["system:masters"])
    await given.secret("good", value=login.read_text())
    async with FaultProxy(login) as proxy:
        proxy.on_requests(ANYTHING, Drop())
        await given.secret("there", value=proxy.kubeconfig.read_text())
        running.grace_seconds = 0.1
        await running.start(max_concurrent_reconciles=4)
        for number in range(6):
            await given.component(f"far-{number}", kubeConfig=THERE, namespace=f"{then.namespace}-far")
        await proxy.history.seen(2)
        await given.component("near")
        await given.component("good", kubeConfig={"secretRef": {"name": "good"}})
        await then.ready("near")
        await then.ready("good")
        await running.stop()


@pytest.mark.req("R-210")
async def test_another_cluster_is_noticed_where_the_login_may_read_nothing_but_the_namespace_of_its_objects(
    given: Given,
    running: Running,
    then: Then,
    remote: Client,
    remote_cluster: LocalCluster,
    component_cluster: LocalCluster,
) -> None:
    logins = {}
    for client, cluster in ((remote, remote_cluster), (given.client, component_cluster)):
        with contextlib.suppress(AlreadyExists):
            await client.create(Namespace, {"metadata": {"name": then.namespace}})
        subject: JsonObject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "editor"}
        role: JsonObject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
        body: JsonObject = {"metadata": {"name": "editor", "namespace": then.namespace}, "roleRef": role}
        await client.apply(RoleBinding, {**body, "subjects": [subject]})
        logins[cluster] = cluster.kubeconfig_for("editor").read_text()
    await given.source(ONE)
    await given.secret("there", value=logins[remote_cluster])
    await running.start()
    await given.component(kubeConfig=THERE)
    ready = await then.ready()
    former, found = [
        f"{then.namespace}/{(await client.get(metadata_of(Namespace), then.namespace)).metadata.uid}"
        for client in (remote, given.client)
    ]
    assert ready.status.target_cluster == former
    await given.secret("there", value=logins[component_cluster])
    await then.shows("Error", "Error", saying=f"leads to the cluster {found}")
    assert not await then.exists(ConfigMap, "one")
    await given.secret("there", value=logins[remote_cluster])
    await then.ready()


@pytest.mark.req("R-210")
async def test_a_cluster_that_is_gone_for_an_hour_loses_nothing_and_holds_up_nobody(
    given: Given, running: Running, then: Then, remote: Client, remote_cluster: LocalCluster
) -> None:
    async with near_and_far(given, running, then, remote_cluster) as proxy:
        before = await remote.get(metadata_of(ConfigMap), "one", then.namespace)

        rule = proxy.on_requests(ANYTHING, CutConnection())
        for hour in ("first quarter", "second quarter", "third quarter", "fourth quarter"):
            await given.source({**ONE, "two.yaml": config_map("two", hour=hour)}, revision=hour)
            await then.ready("near", revision=hour)
            await running.waits(minutes=16)
            assert not running.ended
        await then.shows("Error", "Error", "far", saying="the connection was cut")
        rule.end()
        await running.waits(minutes=20)
        await then.ready("far", revision="fourth quarter")
    after = await remote.get(metadata_of(ConfigMap), "one", then.namespace)
    assert after.metadata.uid == before.metadata.uid
    assert await remote.find(metadata_of(ConfigMap), "two", then.namespace) is not None


PAGE_BYTES = 1 << 20


def endless_page(objects: int = 8) -> bytes:
    """One page of ConfigMaps, of about PAGE_BYTES, behind which there is always another one."""
    annotations = {"large": "x" * (PAGE_BYTES // objects)}
    items = [
        {"metadata": {"name": f"c-{number}", "namespace": "a", "uid": f"u-{number}", "annotations": annotations}}
        for number in range(objects)
    ]
    return json.dumps({"metadata": {"resourceVersion": "1", "continue": "more"}, "items": items}).encode()


@pytest.mark.req("R-210")
@pytest.mark.req("R-411")
async def test_a_cluster_whose_list_has_no_end_costs_only_its_own_components(
    given: Given, running: Running, then: Then, remote: Client, remote_cluster: LocalCluster
) -> None:
    """Of a list that would come to a gibibyte a part is read, and what has failed is tried again later."""
    page = endless_page()
    await given.source(ONE)
    login = remote_cluster.kubeconfig_for("component-operator-from-afar", ["system:masters"])
    async with FaultProxy(login) as proxy:
        lists = requests("list", "configmaps")
        rule = proxy.on_requests(lists, AnswerInstead(200, raw=page))
        await given.secret("there", value=proxy.kubeconfig.read_text())
        await running.start()
        await given.component("far", kubeConfig=THERE)
        await given.component("near")
        await then.ready("near")
        await then.shows("Error", "Error", "far", saying="the list takes more than 256 MiB of memory")
        assert rule.fired * PAGE_BYTES < 1 << 30
        rule.end()
        await running.waits(minutes=20)
        await then.ready("far")
