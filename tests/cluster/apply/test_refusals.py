"""What the API server refuses is told as what stands in the way."""

from __future__ import annotations

import pytest
from tests.cluster.apply.base_objects import Ground
from tests.cluster.apply.sets import CONFIG, DEPLOYMENT, SECRET

from stellwerk.apply.errors import InvalidSet, Obstacle, WriteFailure
from stellwerk.apply.objects.desired import Desired
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import Resource
from stellwerk.testing.eventually import eventually


async def failure(ground: Ground, desired: tuple[Desired, ...]) -> WriteFailure:
    """The one failure of a pass."""
    report = await ground.keep(desired)
    (found,) = report.failures
    return found


async def refused(ground: Ground, desired: tuple[Desired, ...], obstacle: Obstacle) -> WriteFailure:
    """The failure, once there is one: quotas and webhooks reach the API server's memory a moment later."""

    async def refusal() -> WriteFailure | None:
        report = await ground.keep(desired)
        if not report.failures:
            await ground.delete(await ground.live(desired))
            ground.forget()  # a set that is made again and again is throttled
        return next((found for found in report.failures if found.obstacle is obstacle), None)

    found = await eventually(refusal, describe="a refusal")
    assert found is not None
    return found


@pytest.mark.req("R-406")
async def test_an_unknown_kind_is_refused_before_the_first_write(ground: Ground) -> None:
    with pytest.raises(InvalidSet, match=r"serves no example\.org/v1 Strange"):
        await ground.wanted(f"{CONFIG}---\n{{apiVersion: example.org/v1, kind: Strange, metadata: {{name: a}}}}")
    assert ground.writes() == []


async def test_a_kind_that_is_no_longer_served_is_named(ground: Ground) -> None:
    (one,) = await ground.wanted(CONFIG)
    gone = Resource("example.org", "v1", "Strange", "stranges", True)
    body = {**one.body, "apiVersion": "example.org/v1", "kind": "Strange"}
    strange = Desired(type(one.address)(gone, one.key), body)
    found = await failure(ground, (strange,))
    assert found.obstacle is Obstacle.KIND_NOT_SERVED
    assert "serves no example.org/v1 Strange" in str(found)


async def test_an_unknown_field_is_named(ground: Ground) -> None:
    desired = await ground.wanted(DEPLOYMENT.replace("spec:\n  replicas", "spec:\n  surprise: 1\n  replicas"))
    found = await failure(ground, desired)
    assert found.obstacle is Obstacle.INVALID
    assert "unknown field spec.surprise" in str(found)


@pytest.mark.parametrize(
    ("right", "wrong", "why"),
    [
        ("replicas: 1", "replicas: many", "spec.replicas: expected numeric"),
        ("args: [--zap-log-level=info]", "args: hunter2", '.containers[name="manager"].args: expected list'),
        ("memory: 64Mi", "memory: lots", "does not fit apps/v1 Deployment: a quantity must be a number"),
    ],
)
async def test_a_value_of_the_wrong_type_is_named_and_not_shown(
    ground: Ground, right: str, wrong: str, why: str
) -> None:
    found = await failure(ground, await ground.wanted(DEPLOYMENT.replace(right, wrong)))
    assert found.obstacle is Obstacle.INVALID
    assert why in str(found)
    assert "hunter2" not in str(found)


async def test_an_invalid_value_is_named_with_its_field(ground: Ground) -> None:
    found = await failure(
        ground, await ground.wanted(DEPLOYMENT.replace("image: registry.example.org/manager:1", "image: ''"))
    )
    assert found.obstacle is Obstacle.INVALID
    assert "spec.template.spec.containers[0].image: Required value" in str(found)


@pytest.mark.req("R-801")
async def test_an_invalid_secret_is_told_without_its_content(ground: Ground) -> None:
    found = await failure(ground, await ground.wanted(SECRET.replace("password:", "'pass word':")))
    assert found.obstacle is Obstacle.INVALID
    assert "data[pass word]" in str(found)
    assert "hunter2" not in str(found)
    assert "aHVudGVyMg" not in str(found)


@pytest.mark.req("R-801")
async def test_a_secret_of_the_wrong_shape_is_told_without_its_content(ground: Ground) -> None:
    """The server quotes the whole value here, and calls it an internal error."""
    text = "{apiVersion: v1, kind: Secret, metadata: {name: s}, data: {key: {hunter2: hunter2}}}"
    found = await failure(ground, await ground.wanted(text))
    assert found.obstacle is Obstacle.INVALID
    assert str(found).endswith("data.key: expected string (correct the manifest)")
    assert "hunter2" not in repr(found)


@pytest.mark.req("R-206")
async def test_a_missing_right_is_named_with_verb_resource_and_namespace(ground: Ground) -> None:
    user = f"nobody of {ground.namespace}"
    async with Client.connect(ClusterConfig.load(ground.cluster.kubeconfig_for(user))) as nobody:
        desired = await ground.wanted(CONFIG)
        report = await ground.set_of({}, nobody).apply(desired)
    (found,) = report.failures
    assert found.obstacle is Obstacle.FORBIDDEN
    assert f"may not patch configmaps in namespace {ground.namespace}" in str(found)


@pytest.mark.req("R-208")
async def test_a_terminating_namespace_is_named(ground: Ground) -> None:
    ground.kubectl("create", "configmap", "holder")
    ground.kubectl(
        "patch", "configmap", "holder", "--type=merge", "-p", '{"metadata":{"finalizers":["example.org/x"]}}'
    )
    ground.kubectl("delete", "namespace", ground.namespace, "--wait=false")
    try:
        found = await failure(ground, await ground.wanted(CONFIG))
        assert found.obstacle is Obstacle.NAMESPACE_TERMINATING
        assert f"Namespace {ground.namespace} is being deleted" in str(found)
    finally:
        ground.kubectl("patch", "configmap", "holder", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')


async def test_a_missing_namespace_is_named(ground: Ground) -> None:
    found = await failure(
        ground, await ground.wanted(CONFIG.replace("name: config", "name: config, namespace: nowhere-x"))
    )
    assert found.obstacle is Obstacle.NAMESPACE_MISSING
    assert "Namespace nowhere-x does not exist" in str(found)


@pytest.mark.req("R-208")
async def test_a_used_up_quota_is_named(ground: Ground) -> None:
    ground.kubectl("create", "quota", "small", "--hard=count/secrets=0")
    await eventually(
        lambda: "count/secrets" in ground.kubectl("get", "quota", "small", "-o", "jsonpath={.status.hard}"),
        describe="the quota to be counted",
    )
    found = await refused(ground, await ground.wanted(SECRET), Obstacle.QUOTA_EXCEEDED)
    assert f"ResourceQuota {ground.namespace}/small is used up" in str(found)


HOOK = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: NAMESPACE-down}
webhooks:
- name: down.example.org
  clientConfig: {url: "https://127.0.0.1:1/"}
  admissionReviewVersions: [v1]
  sideEffects: None
  timeoutSeconds: 1
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [secrets]}]
"""


@pytest.mark.req("R-208")
async def test_a_webhook_that_is_down_is_named(ground: Ground) -> None:
    await ground.kept(await ground.wanted(HOOK))
    found = await refused(ground, await ground.wanted(SECRET), Obstacle.WEBHOOK_DOWN)
    assert "admission webhook down.example.org does not answer" in str(found)


POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: NAMESPACE-small}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  validations: [{expression: "object.data.size() < 2", message: at most one key REASON}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: NAMESPACE-small}
spec:
  policyName: NAMESPACE-small
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}}
"""


@pytest.mark.parametrize("reason", ["", ", reason: Forbidden"])
async def test_a_policy_that_refuses_an_object_is_named_and_no_right_is_called_missing(
    ground: Ground, reason: str
) -> None:
    await ground.kept(await ground.wanted(POLICY.replace(" REASON", reason)))
    found = await refused(ground, await ground.wanted(CONFIG), Obstacle.REFUSED)
    assert f"ValidatingAdmissionPolicy {ground.namespace}-small refused it: at most one key (" in str(found)


async def test_a_pod_that_the_standard_of_its_namespace_refuses_is_no_missing_right(ground: Ground) -> None:
    ground.kubectl("label", "namespace", ground.namespace, "pod-security.kubernetes.io/enforce=restricted")
    ground.kubectl("create", "serviceaccount", "robot")
    spec = "{serviceAccountName: robot, containers: [{name: c, image: c}]}"
    pod = f"{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {spec}}}"
    found = await refused(ground, await ground.wanted(pod), Obstacle.REFUSED)
    assert 'admission refused it: violates PodSecurity "restricted:latest": ' in str(found)


async def test_neighbours_of_a_failure_are_written_and_later_waves_are_not(ground: Ground) -> None:
    broken = CONFIG.replace("name: config", "name: broken").replace('A: "1"', '"not a key": "1"')
    desired = await ground.wanted("---".join([broken, CONFIG, DEPLOYMENT]))
    report = await ground.keep(desired)
    assert [failed.ref.key.name for failed in report.failures] == ["broken"]
    assert [result.address.key.name for result in report.carried] == ["config"]


async def test_all_failures_of_a_wave_are_told(ground: Ground) -> None:
    broken = "---".join(
        CONFIG.replace("name: config", f"name: broken-{n}").replace('A: "1"', '"not a key": "1"') for n in range(3)
    )
    report = await ground.keep(await ground.wanted(broken))
    assert len(report.failures) == 3


async def test_what_is_no_refusal_is_raised(ground: Ground) -> None:
    class LostLeadership(Exception):
        pass

    def fence() -> None:
        raise LostLeadership

    config = ClusterConfig.load(ground.cluster.kubeconfig)
    (one,) = await ground.wanted(CONFIG)
    async with Client.connect(config, before_write=fence) as client:
        with pytest.raises(LostLeadership):
            await ground.set_of({}, client).apply([one])
    assert await ground.find(one.address) is None


RBAC = "rbac.authorization.k8s.io"


@pytest.mark.parametrize(
    ("manifest", "before", "after"),
    [
        (
            f"apiVersion: {RBAC}/v1\nkind: RoleBinding\nmetadata: {{name: rb}}\n"
            f"roleRef: {{apiGroup: {RBAC}, kind: Role, name: r1}}\n",
            "r1",
            "r2",
        ),
        (
            f"apiVersion: {RBAC}/v1\nkind: ClusterRoleBinding\nmetadata: {{name: NAMESPACE-rb}}\n"
            f"roleRef: {{apiGroup: {RBAC}, kind: ClusterRole, name: r1}}\n",
            "r1",
            "r2",
        ),
        (
            "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: NAMESPACE-pc}\nvalue: 10\n",
            "value: 10",
            "value: 20",
        ),
        (
            "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: NAMESPACE-pv}\n"
            "spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /a}}\n",
            "/a",
            "/b",
        ),
        (
            "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: pvc}\n"
            "spec: {storageClassName: absent, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n",
            "ReadWriteOnce",
            "ReadWriteMany",
        ),
        (
            "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: NAMESPACE-sc}\n"
            "provisioner: example.com/a\n",
            "com/a",
            "com/b",
        ),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\nimmutable: true\ndata: {a: b}\n", "a: b", "a: c"),
    ],
)
async def test_a_change_that_the_api_server_never_takes_comes_with_the_way_out(
    ground: Ground, manifest: str, before: str, after: str
) -> None:
    await ground.keep(await ground.wanted(manifest))
    found = await failure(ground, await ground.wanted(manifest.replace(before, after)))
    assert "restore the former value, or have the object recreated by update-policy: recreate" in str(found)
