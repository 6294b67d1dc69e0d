"""Each refusal of the API server becomes what stood in the way and who can remove it."""

from __future__ import annotations

import pytest

from stellwerk.apply.errors import Obstacle, WriteFailed, WriteFailure
from stellwerk.apply.failures import failure_of
from stellwerk.apply.objects.desired import Address
from stellwerk.kube.types.errors import (
    ApiError,
    NotServed,
    Status,
    StatusCause,
    StatusDetails,
    Unreachable,
    refusal,
)
from stellwerk.kube.types.identifiers import ObjectKey, Resource

DEPLOYMENT = Address(Resource("apps", "v1", "Deployment", "deployments", True), ObjectKey("kyma-system", "app"))
SECRET = Address(Resource("", "v1", "Secret", "secrets", True), ObjectKey("kyma-system", "s"))
ROLE = Address(Resource("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", False), ObjectKey("", "r"))


def said(code: int, message: str, reason: str = "", name: str = "", *causes: StatusCause) -> ApiError:
    details = StatusDetails(name=name, causes=causes)
    return refusal(Status(code=code, message=message, reason=reason, details=details))


def cause(reason: str = "", message: str = "", field: str = "") -> StatusCause:
    return StatusCause(reason=reason, message=message, field=field)


TABLE: list[tuple[Address, str, ApiError, Obstacle, str]] = [
    (
        DEPLOYMENT,
        "apply",
        said(
            403, 'deployments.apps "app" is forbidden: User "x" cannot patch resource "deployments" in API group "apps"'
        ),
        Obstacle.FORBIDDEN,
        "cannot apply Deployment kyma-system/app: user x may not patch deployments.apps in namespace kyma-system "
        "(grant verb patch on deployments.apps in namespace kyma-system)",
    ),
    (
        DEPLOYMENT,
        "apply",
        said(403, 'User "x" cannot create resource "deployments"'),
        Obstacle.FORBIDDEN,
        "cannot apply Deployment kyma-system/app: user x may not create deployments.apps",
    ),
    (
        ROLE,
        "delete",
        said(403, "no"),
        Obstacle.FORBIDDEN,
        "cannot delete ClusterRole r: the operator may not delete clusterroles.rbac.authorization.k8s.io in the whole",
    ),
    (
        ROLE,
        "apply",
        said(403, 'clusterroles "r" is forbidden: user "x" is attempting to grant RBAC permissions not currently held'),
        Obstacle.FORBIDDEN,
        "cannot apply ClusterRole r: user x may not grant the rights in ClusterRole r that it does not have",
    ),
    (
        DEPLOYMENT,
        "apply",
        said(403, "forbidden: unable to create new content", "Forbidden", "app", cause("NamespaceTerminating")),
        Obstacle.NAMESPACE_TERMINATING,
        "cannot apply Deployment kyma-system/app: Namespace kyma-system is being deleted",
    ),
    (
        DEPLOYMENT,
        "apply",
        said(403, 'deployments "app" is forbidden: exceeded quota: small, requested: count=1, used: count=1'),
        Obstacle.QUOTA_EXCEEDED,
        "cannot apply Deployment kyma-system/app: ResourceQuota kyma-system/small is used up",
    ),
    (
        DEPLOYMENT,
        "apply",
        said(403, 'admission webhook "policy.example.org" denied the request: no team label'),
        Obstacle.WEBHOOK_REFUSED,
        "cannot apply Deployment kyma-system/app: admission webhook policy.example.org refused it: no team label",
    ),
    (
        DEPLOYMENT,
        "apply",
        said(400, 'admission webhook "policy.example.org" denied the request without explanation'),
        Obstacle.WEBHOOK_REFUSED,
        "cannot apply Deployment kyma-system/app: admission webhook policy.example.org refused it (",
    ),
    (
        DEPLOYMENT,
        "apply",
        said(403, 'pods "app" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true'),
        Obstacle.REFUSED,
        'cannot apply Deployment kyma-system/app: admission refused it: violates PodSecurity "restricted:latest": '
        "runAsNonRoot != true (change the object or the policy that refuses it)",
    ),
    (
        SECRET,
        "apply",
        said(403, 'secrets "s" is forbidden: something about hunter2'),
        Obstacle.REFUSED,
        "cannot apply Secret kyma-system/s: admission refused it (change the object or the policy that refuses it)",
    ),
    (
        DEPLOYMENT,
        "apply",
        said(
            422,
            "deployments.apps \"app\" is forbidden: ValidatingAdmissionPolicy 'small' with binding 'all' "
            "denied request: at most 5 replicas",
        ),
        Obstacle.REFUSED,
        "cannot apply Deployment kyma-system/app: ValidatingAdmissionPolicy small refused it: at most 5 replicas (",
    ),
    (
        DEPLOYMENT,
        "apply",
        said(
            403,
            'deployments.apps "app" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a '
            "resource you can't set finalizers on: , <nil>",
        ),
        Obstacle.FORBIDDEN,
        "cannot apply Deployment kyma-system/app: the operator may not name an owner with blockOwnerDeletion in ",
    ),
    (
        DEPLOYMENT,
        "apply",
        said(500, 'failed calling webhook "policy.example.org": connection refused'),
        Obstacle.WEBHOOK_DOWN,
        "cannot apply Deployment kyma-system/app: admission webhook policy.example.org does not answer",
    ),
    (
        DEPLOYMENT,
        "apply",
        said(404, 'namespaces "kyma-system" not found', "NotFound", "kyma-system"),
        Obstacle.NAMESPACE_MISSING,
        "cannot apply Deployment kyma-system/app: Namespace kyma-system does not exist (create the namespace)",
    ),
    (
        DEPLOYMENT,
        "apply",
        said(404, "the server could not find the requested resource"),
        Obstacle.KIND_NOT_SERVED,
        "cannot apply Deployment kyma-system/app: the API server serves no apps/v1 Deployment",
    ),
    (
        DEPLOYMENT,
        "apply",
        NotServed("no"),
        Obstacle.KIND_NOT_SERVED,
        "cannot apply Deployment kyma-system/app: the API",
    ),
    (
        DEPLOYMENT,
        "reclaim",
        said(404, 'deployments.apps "app" not found', "NotFound", "app"),
        Obstacle.CHANGED,
        "cannot reclaim Deployment kyma-system/app: it was deleted in the meantime",
    ),
    (
        DEPLOYMENT,
        "delete",
        said(409, "Precondition failed: UID in precondition: a, UID in object meta: b", "Conflict"),
        Obstacle.CHANGED,
        "cannot delete Deployment kyma-system/app: it was changed or replaced in the meantime",
    ),
    (
        DEPLOYMENT,
        "apply",
        said(422, "invalid", "Invalid", "app", cause(field="spec.template", message="Required value")),
        Obstacle.INVALID,
        "cannot apply Deployment kyma-system/app: spec.template: Required value (correct the manifest)",
    ),
    (
        DEPLOYMENT,
        "apply",
        said(400, 'strict decoding error: unknown field "spec.a", unknown field "spec.b"'),
        Obstacle.INVALID,
        "cannot apply Deployment kyma-system/app: unknown field spec.a, spec.b (correct the manifest)",
    ),
    (
        DEPLOYMENT,
        "apply",
        said(429, "slow down"),
        Obstacle.OUTAGE,
        "cannot apply Deployment kyma-system/app: slow down",
    ),
    (
        DEPLOYMENT,
        "apply",
        said(500, "etcd is ill"),
        Obstacle.OUTAGE,
        "cannot apply Deployment kyma-system/app: etcd is",
    ),
    (
        DEPLOYMENT,
        "apply",
        said(413, "too large"),
        Obstacle.REFUSED,
        "cannot apply Deployment kyma-system/app: too large",
    ),
    (
        DEPLOYMENT,
        "apply",
        Unreachable("cannot apply Deployment kyma-system/app: https://10.0.0.1:6443 does not answer: cut"),
        Obstacle.OUTAGE,
        "cannot apply Deployment kyma-system/app: https://10.0.0.1:6443 does not answer: cut",
    ),
    (DEPLOYMENT, "apply", Unreachable("refused"), Obstacle.OUTAGE, "cannot apply Deployment kyma-system/app: refused"),
]


@pytest.mark.req("R-206")
@pytest.mark.req("R-208")
@pytest.mark.parametrize(("address", "verb", "error", "obstacle", "sentence"), TABLE)
def test_a_refusal_is_told_in_one_sentence(
    address: Address, verb: str, error: ApiError, obstacle: Obstacle, sentence: str
) -> None:
    found = failure_of(address, verb, error)
    assert found.obstacle is obstacle
    assert str(found).startswith(sentence)
    assert found.error is error


TYPED = "failed to create typed patch object (kyma-system/app; apps/v1, Kind=Deployment): "
CONVERTED = (
    "failed to convert new object (kyma-system/app; apps/v1, Kind=Deployment) to proper version: "
    "unable to convert unstructured object to apps/v1, Kind=Deployment: "
)

# The words of a Kubernetes 1.36; all come as InternalError 500.
MISTYPED = [
    (TYPED + ".spec.other: field not declared in schema", "unknown field spec.other"),
    (
        TYPED + '.spec.template.spec.containers[name="c d"].foo: field not declared in schema',
        'unknown field spec.template.spec.containers[name="c d"].foo',
    ),
    (
        TYPED + ".spec.replicas: expected numeric (int or float), got string",
        "spec.replicas: expected numeric (int or float)",
    ),
    (
        TYPED + '.spec.template.spec.containers[name="c"].command: expected list, got &{hunter2}',
        'spec.template.spec.containers[name="c"].command: expected list',
    ),
    (
        TYPED + '.spec.template.spec.containers[name="c"].env: duplicate entries for key [name="A"]',
        'spec.template.spec.containers[name="c"].env: duplicate entries for key',
    ),
    (
        CONVERTED + "quantities must match the regular expression",
        "its content does not fit apps/v1 Deployment: quantities must match the regular expression",
    ),
]


@pytest.mark.parametrize(("message", "cause"), MISTYPED)
def test_content_that_does_not_fit_the_schema_is_invalid_though_the_server_calls_it_its_fault(
    message: str, cause: str
) -> None:
    found = failure_of(DEPLOYMENT, "apply", said(500, message, "InternalError"))
    assert (found.obstacle, found.cause) == (Obstacle.INVALID, cause)


@pytest.mark.req("R-801")
@pytest.mark.parametrize(
    "error",
    [
        said(
            422, 'Invalid value: "hunter2"', "Invalid", "s", cause(field="data[x]", message='Invalid value: "hunter2"')
        ),
        said(400, 'illegal base64 data: "hunter2"'),
        said(403, 'admission webhook "w" denied the request: hunter2 is weak'),
        said(500, "hunter2"),
        said(500, TYPED + ".data.a: expected string, got &value.valueUnstructured{Value:hunter2}"),
        said(500, CONVERTED + "error decoding from json: hunter2"),
        said(413, "hunter2"),
    ],
)
def test_words_about_a_secret_are_not_passed_on(error: ApiError) -> None:
    found = failure_of(SECRET, "apply", error)
    assert "hunter2" not in f"{found} {found!r} {WriteFailed([found])}"


def test_the_invalid_field_of_a_secret_is_named() -> None:
    error = said(422, "x", "Invalid", "s", cause(field="data[key]", message="x"))
    assert str(failure_of(SECRET, "apply", error)) == (
        "cannot apply Secret kyma-system/s: invalid data[key] (correct the manifest)"
    )


def test_long_words_are_cut() -> None:
    assert len(str(failure_of(DEPLOYMENT, "apply", said(500, "x " * 1000)))) < 400


def test_all_failures_of_a_wave_are_told_and_many_are_counted() -> None:
    failures: list[WriteFailure] = [failure_of(DEPLOYMENT, "apply", said(500, f"reason {n}")) for n in range(7)]
    error = WriteFailed(failures)
    assert "reason 4; and 2 more" in str(error)
    assert len(error.failures) == 7
