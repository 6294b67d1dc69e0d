"""An object is changed in the way that its author chose, and nobody's fields are lost by accident."""

from __future__ import annotations

import json

import pytest
from tests.cluster.apply.object_sets import CONFIG_MAPS, KeptSet, Place, R, annotated, joined
from tests.cluster.apply.sets import CONFIG, SECRET

from stellwerk.apply.errors import WriteFailure
from stellwerk.apply.failures import advice_in
from stellwerk.apply.set.plan.plan_input import ApplyOptions
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import unstructured
from stellwerk.testing.eventually import eventually

NEWER = CONFIG.replace('A: "1"', 'A: "9"')


async def data(place: Place, name: str = "config") -> dict[str, object]:
    """What a ConfigMap holds."""
    found = (await place.body("ConfigMap", name)).at("data")
    assert isinstance(found, dict)
    return dict(found)


async def add_field(place: Place, manager: str) -> None:
    """Somebody adds a key of his own to the ConfigMap."""
    key = manager.replace("-", "_")
    patch = MergePatch({"data": {key: "1"}})
    client = place.others.with_field_manager(manager)
    await client.patch(unstructured(CONFIG_MAPS), "config", place.namespace, patch)


async def uid_of(place: Place, kind: str = "ConfigMap", name: str = "config") -> str:
    return (await place.body(kind, name)).metadata.uid


# ---- the four policies


@pytest.mark.parametrize(
    ("policy", "left"),
    [
        ("ssa-override", {"other"}),
        ("ssa-merge", {"kubectl_edit", "helm", "other"}),
        ("replace", set()),
        ("recreate", set()),
    ],
)
async def test_a_policy_tells_whose_fields_survive_a_change(place: Place, policy: str, left: set[str]) -> None:
    kept = place.new_set()
    await kept.rolled_out(annotated(CONFIG, update_policy=policy))
    before = await uid_of(place)
    for manager in ("kubectl-edit", "helm", "other"):
        await add_field(place, manager)
    await kept.rolled_out(annotated(NEWER, update_policy=policy))
    assert await data(place) == {"A": "9", "B": "2", **dict.fromkeys(left, "1")}
    assert (await uid_of(place) != before) is (policy == "recreate")


@pytest.mark.parametrize(
    ("policy", "asked"),
    [
        ("ssa-override", ["patch configmaps config"]),
        ("ssa-merge", ["patch configmaps config"]),
        ("replace", ["update configmaps config"]),
        ("recreate", ["create configmaps config", "delete configmaps config"]),
    ],
)
async def test_a_change_costs_what_its_policy_needs_and_no_read(place: Place, policy: str, asked: list[str]) -> None:
    kept = place.new_set()
    await kept.rolled_out(annotated(CONFIG, update_policy=policy))
    place.audit.mark()
    await kept.rolled_out(annotated(NEWER, update_policy=policy))
    assert place.asked() == asked


@pytest.mark.parametrize("policy", ["ssa-override", "ssa-merge", "replace", "recreate"])
async def test_a_field_that_the_manifest_no_longer_has_goes(place: Place, policy: str) -> None:
    kept = place.new_set()
    await kept.rolled_out(annotated(CONFIG, update_policy=policy))
    await kept.rolled_out(annotated(CONFIG.replace(', B: "2"', ""), update_policy=policy))
    assert await data(place) == {"A": "1"}


@pytest.mark.parametrize("before", ["replace", "recreate", "ssa-merge", "ssa-override"])
@pytest.mark.parametrize("after", ["ssa-merge", "ssa-override", "replace"])
async def test_a_policy_may_be_changed_and_what_was_written_under_the_old_one_goes(
    place: Place, before: str, after: str
) -> None:
    kept = place.new_set()
    await kept.rolled_out(annotated(CONFIG, update_policy=before))
    await kept.rolled_out(annotated(NEWER.replace(', B: "2"', ""), update_policy=after))
    assert await data(place) == {"A": "9"}


async def test_an_object_without_any_record_of_its_writers_is_taken_whole(place: Place) -> None:
    kept = place.new_set()
    await kept.rolled_out(CONFIG)
    place.kubectl("patch", "configmap", "config", "--type=merge", "-p", '{"metadata":{"managedFields":[{}]}}')
    await kept.rolled_out(NEWER.replace(', B: "2"', ""))
    assert await data(place) == {"A": "9"}
    assert [each.manager for each in await place.managers("ConfigMap", "config")] == [R]


async def test_replace_keeps_the_finalizers_of_others(place: Place) -> None:
    kept = place.new_set()
    await kept.rolled_out(annotated(CONFIG, update_policy="replace"))
    hold = MergePatch({"metadata": {"finalizers": ["example.org/hold"]}})
    await place.others.patch(unstructured(CONFIG_MAPS), "config", place.namespace, hold)
    await kept.rolled_out(annotated(NEWER, update_policy="replace"))
    assert (await place.body("ConfigMap", "config")).metadata.finalizers == ("example.org/hold",)
    free = MergePatch({"metadata": {"finalizers": None}})
    await place.others.patch(unstructured(CONFIG_MAPS), "config", place.namespace, free)


async def test_an_immutable_secret_can_be_changed_by_recreating_it(place: Place) -> None:
    kept = place.new_set()
    immutable = annotated(SECRET + "immutable: true\n", update_policy="recreate")
    await kept.rolled_out(immutable)
    before = await uid_of(place, "Secret", "secret")
    await kept.rolled_out(immutable.replace("hunter2", "other"))
    assert await uid_of(place, "Secret", "secret") != before
    assert (await place.body("Secret", "secret")).at("data", "password") == "b3RoZXI="


# ---- reconcile policies

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: job}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: registry.example.org/job:1}]
"""


async def test_a_job_runs_again_when_its_component_changes(place: Place) -> None:
    kept = place.new_set()
    text = annotated(JOB, reconcile_policy="on-object-or-component-change", update_policy="recreate")
    await kept.rolled_out(text)
    first = await uid_of(place, "Job", "job")
    await kept.rolled_out(text)
    assert await uid_of(place, "Job", "job") == first
    kept.set_digest = "s2"
    await kept.rolled_out(text)
    assert await uid_of(place, "Job", "job") != first


@pytest.mark.req("R-101")
async def test_a_job_does_not_run_twice_because_its_creation_was_not_saved(place: Place) -> None:
    kept = place.new_set()
    text = annotated(JOB, update_policy="recreate")
    await kept.apply(text)
    saved = kept.inventory
    await kept.apply(text)
    first = await uid_of(place, "Job", "job")
    kept.restarts()
    kept.inventory = saved
    await kept.rolled_out(text)
    assert await uid_of(place, "Job", "job") == first


async def test_what_is_made_once_is_left_alone_and_made_again_when_it_is_gone(place: Place) -> None:
    kept = place.new_set(options=ApplyOptions(repairs_drift=True))
    await kept.rolled_out(annotated(CONFIG, reconcile_policy="once"))
    place.kubectl("patch", "configmap", "config", "--type=merge", "-p", '{"data":{"A":"mine"}}')
    kept.passes(7200)
    await kept.rolled_out(annotated(NEWER, reconcile_policy="once"))
    assert await data(place) == {"A": "mine", "B": "2"}
    place.kubectl("delete", "configmap", "config")
    await kept.rolled_out(annotated(NEWER, reconcile_policy="once"))
    assert await data(place) == {"A": "9", "B": "2"}


# ---- purge


async def test_a_job_that_has_done_its_work_is_purged_and_not_run_again(place: Place) -> None:
    kept = place.new_set()
    text = annotated(JOB, apply_order="-1", purge_order="-1") + "---" + CONFIG
    await kept.rolled_out(text)
    assert kept.phases() == {"job": "Completed", "config": "Ready"}
    assert await place.find("Job", "job") is None
    place.audit.mark()
    assert (await kept.apply(text)).done
    kept.restarts()
    assert (await kept.apply(text)).done
    assert place.requests() == []
    await kept.deleted()


# ---- drift


@pytest.mark.req("R-110")
async def test_what_somebody_changes_is_told_and_reverted_when_it_is_due(place: Place) -> None:
    kept = place.new_set()
    text = annotated(CONFIG, reapply_interval="30m")
    await kept.rolled_out(text)
    place.kubectl("patch", "configmap", "config", "--type=merge", "-p", '{"data":{"A":"by hand"}}')
    progress = await kept.passing(text)
    assert (progress.done, progress.carried) == (True, ())
    assert [(each.key.name, update.why) for each, update in progress.drifted.items()] == [
        ("config", "changed by kubectl-patch")
    ]
    assert (await data(place))["A"] == "by hand"
    kept.passes(1801)
    progress = await kept.passing(text)
    assert [getattr(each.action, "restores", None) for each in progress.carried] == [True]
    assert (await data(place))["A"] == "1"
    assert (await kept.passing(text)).drifted == {}


@pytest.mark.req("R-110")
async def test_what_somebody_changes_is_reverted_at_once_where_the_operator_says_so_but_not_in_a_loop(
    place: Place,
) -> None:
    kept = place.new_set(options=ApplyOptions(repairs_drift=True))
    await kept.rolled_out(CONFIG)
    place.kubectl("patch", "configmap", "config", "--type=merge", "-p", '{"data":{"A":"1st"}}')
    assert (await kept.passing(CONFIG)).done
    place.kubectl("patch", "configmap", "config", "--type=merge", "-p", '{"data":{"A":"2nd"}}')
    progress = await kept.passing(CONFIG)
    assert (await data(place))["A"] == "2nd"
    assert "kubectl-patch changes it again and again; restored every 10 s only" in str(progress.waits[0])
    kept.passes(10)
    await kept.rolled_out(CONFIG)
    assert (await data(place))["A"] == "1"


@pytest.mark.req("R-110")
async def test_a_secret_that_somebody_changed_is_reverted_unread_when_it_is_due(place: Place) -> None:
    kept = place.new_set()
    await kept.rolled_out(SECRET)
    patch = '{"data":{"password":"c3RvbGVu"}}'
    place.kubectl("patch", "secret", "secret", "--type=merge", "-p", patch, "--field-manager=thief")
    kept.passes(3601)
    await kept.rolled_out(SECRET)
    assert (await place.body("Secret", "secret")).at("data", "password") == "aHVudGVyMg=="


# ---- what the API server has set by itself

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec: {containers: [{name: a, image: example.com/a:1}]}
"""
STATEFUL_SET = DEPLOYMENT.replace("Deployment", "StatefulSet").replace(
    "spec:\n  sel", "spec:\n  serviceName: shop\n  sel"
)


@pytest.mark.parametrize("policy", ["ssa-override", "ssa-merge", "replace"])
@pytest.mark.parametrize(
    ("kind", "manifest", "strategy"),
    [
        ("Deployment", DEPLOYMENT, "strategy: {type: Recreate}"),
        ("Deployment", DEPLOYMENT, "strategy: {type: Recreate, rollingUpdate: null}"),
        ("StatefulSet", STATEFUL_SET, "updateStrategy: {type: OnDelete}"),
        ("DaemonSet", DEPLOYMENT.replace("Deployment", "DaemonSet"), "updateStrategy: {type: OnDelete}"),
    ],
)
async def test_a_default_of_the_server_does_not_hinder_another_strategy(
    place: Place, policy: str, kind: str, manifest: str, strategy: str
) -> None:
    kept = place.new_set()
    await kept.rolled_out(annotated(manifest, update_policy=policy))
    changed = manifest.replace("spec:\n  s", f"spec:\n  {strategy}\n  s", 1)
    await kept.rolled_out(annotated(changed, update_policy=policy))
    found = await place.body(kind, "shop")
    word, _, rest = strategy.partition(":")
    kind_of_strategy = "Recreate" if "Recreate" in rest else "OnDelete"
    assert found.at("spec", word, "type") == kind_of_strategy
    if kind != "DaemonSet":
        assert found.at("spec", word, "rollingUpdate") is None
    place.audit.mark()
    await kept.rolled_out(annotated(changed, update_policy=policy))
    assert not [asked for asked in place.asked() if asked.startswith(("patch", "update"))]


AGGREGATED = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: NAMESPACE-all, labels: {version: one}}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {all: NAMESPACE}}]}
rules: []
"""
PART = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: NAMESPACE-part, labels: {all: NAMESPACE}}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
"""


@pytest.mark.parametrize("policy", ["ssa-override", "ssa-merge", "replace"])
async def test_the_rules_of_an_aggregated_role_belong_to_the_control_plane(place: Place, policy: str) -> None:
    kept, name = place.new_set(), f"{place.namespace}-all"
    await kept.rolled_out(joined(annotated(AGGREGATED, update_policy=policy), PART))

    async def rules() -> bool:
        return bool((await place.body("ClusterRole", name, namespace="")).at("rules"))

    await eventually(rules, describe="rules that the control plane has collected")
    changed = annotated(AGGREGATED.replace("one", "two"), update_policy=policy)
    progress = await kept.rolled_out(joined(changed, PART))
    assert await rules()
    assert not progress.drifted
    found = json.loads(place.kubectl("get", "clusterrole", name, "-o", "json", "--show-managed-fields"))
    assert found["metadata"]["labels"]["version"] == "two"
    owners = {entry["manager"] for entry in found["metadata"]["managedFields"] if "f:rules" in entry["fieldsV1"]}
    assert owners == {"clusterrole-aggregation-controller"}


# ---- what others have set, and ours does not go together with

SERVICE = """
apiVersion: v1
kind: Service
metadata: {name: shop}
spec: {selector: {app: shop}, ports: [{name: web, port: 7070}]}
"""
POD_SPEC = "spec.template.spec"


async def refusal(kept: KeptSet, text: str) -> WriteFailure:
    """The one failure of the first pass that has any."""
    for _ in range(5):
        progress = await kept.apply(text)
        if progress.failures:
            (failure,) = progress.failures
            return failure
    raise AssertionError("nothing was refused")


@pytest.mark.parametrize(
    ("manifest", "theirs", "before", "after", "field"),
    [
        (
            SERVICE,
            {"spec": {"ports": [{"name": "http", "port": 8080}]}},
            "name: web",
            "name: http",
            "spec.ports[port=8080,protocol=TCP]",
        ),
        (
            DEPLOYMENT,
            {"containers": [{"name": "a", "env": [{"name": "LEVEL", "value": "1"}]}]},
            "image: example.com/a:1",
            "image: example.com/a:1, env: [{name: LEVEL, valueFrom: {configMapKeyRef: {name: c, key: level}}}]",
            f"{POD_SPEC}.containers[name=a].env[name=LEVEL].value",
        ),
        (
            DEPLOYMENT,
            {"containers": [{"name": "a", "livenessProbe": {"httpGet": {"port": 80}}}]},
            "image: example.com/a:1",
            "image: example.com/a:1, livenessProbe: {exec: {command: [ok]}}",
            f"{POD_SPEC}.containers[name=a].livenessProbe.httpGet",
        ),
        (
            DEPLOYMENT,
            {"containers": [{"name": "a", "lifecycle": {"preStop": {"httpGet": {"port": 80}}}}]},
            "image: example.com/a:1",
            "image: example.com/a:1, lifecycle: {preStop: {exec: {command: [ok]}}}",
            f"{POD_SPEC}.containers[name=a].lifecycle.preStop.httpGet",
        ),
        (
            DEPLOYMENT,
            {"volumes": [{"name": "v", "configMap": {"name": "c"}}]},
            "spec: {containers",
            "spec: {volumes: [{name: v, secret: {secretName: s}}], containers",
            f"{POD_SPEC}.volumes[name=v].configMap",
        ),
    ],
)
async def test_a_field_of_another_manager_that_hinders_ours_is_named_with_its_manager(
    place: Place, manifest: str, theirs: dict[str, object], before: str, after: str, field: str
) -> None:
    kept = place.new_set()
    await kept.rolled_out(annotated(manifest, update_policy="ssa-merge"))
    patch = theirs if "spec" in theirs else {"spec": {"template": {"spec": theirs}}}
    kind = "service" if manifest == SERVICE else "deployment"
    place.kubectl("patch", kind, "shop", "--type=strategic", "-p", json.dumps(patch), "--field-manager=team-b")
    changed = manifest.replace(before, after)
    failure = await refusal(kept, annotated(changed, update_policy="ssa-merge"))
    assert f"{field}, which the manifest does not have, is from manager team-b" in str(failure)
    assert failure.fix == "have the object replaced by update-policy: replace, or remove that field"
    assert "correct the manifest" not in str(failure)
    assert advice_in(str(failure)) == failure.fix
    kept.passes(600)
    await kept.passing(annotated(changed, update_policy="replace"))


async def test_a_manifest_that_is_wrong_by_itself_is_not_blamed_on_another_manager(place: Place) -> None:
    kept = place.new_set()
    await kept.rolled_out(annotated(SERVICE, update_policy="ssa-merge"))
    place.kubectl("label", "service", "shop", "a=b", "--field-manager=team-b")
    twice = SERVICE.replace("port: 7070}", "port: 7070}, {name: web, port: 7071}")
    failure = await refusal(kept, annotated(twice, update_policy="ssa-merge"))
    assert failure.fix == "correct the manifest"
