"""Pods of workloads, of Deployments as well as of Jobs (pure; spec section 7)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.operators.cap.kinds.version import JobDetails, PodDetails

COMMON_FIELDS = PodDetails.__struct_fields__
"""The fields that definitions of Deployments and Jobs have in common."""

VERSION_VARIABLE = "CAPOP_APP_VERSION"
RESERVED_VARIABLES = (VERSION_VARIABLE, "VCAP_SERVICES")
"""Variables that the operator sets; a workload that sets one is refused."""

POD_HASH_KEY = "pod-template-hash"


class ReservedVariable(ValueError):
    """A workload sets a variable of the operator."""


def check_variables(name: str, details: PodDetails) -> None:
    """Raise ReservedVariable where the workload sets a variable of the operator. Init containers may."""
    for variable in details.env:
        if variable.get("name") in RESERVED_VARIABLES:
            raise ReservedVariable(
                f"workload {name} sets the environment variable {variable['name']}, which the operator sets: "
                "leave it out, in another CAPApplicationVersion"
            )


def container(name: str, details: PodDetails, env: Sequence[JsonValue], secret: str) -> JsonObject:
    """The container of a workload, without its command.

    `env` comes before the variables of the workload. `secret` has the credentials of the services that it consumes.
    """
    body: JsonObject = {
        "name": name,
        "image": details.image,
        "env": [*env, *details.env],
        "envFrom": [credentials_of(secret)],
    }
    return body | given(
        imagePullPolicy=details.image_pull_policy,
        volumeMounts=[*details.volume_mounts],
        resources=details.resources,
        securityContext=details.security_context,
        lifecycle=details.lifecycle,
    )


def command(details: PodDetails) -> JsonObject:
    """Command and arguments as the workload has them."""
    return given(command=[*details.command], args=[*details.args])


def init_containers(details: PodDetails, env: Sequence[JsonValue], secret: str) -> list[JsonValue]:
    """The init containers: `env` comes after their variables, and the credentials replace their `envFrom`."""
    return [
        {**each, "env": [*each.get("env", ()), *env], "envFrom": [credentials_of(secret)]}
        for each in details.init_containers
    ]


def pod_spec(
    details: PodDetails,
    main: JsonObject,
    first: list[JsonValue],
    *,
    registry_secrets: Iterable[str],
    labels: Mapping[str, str],
    restart_policy: str,
    spread_by_template: bool = False,
) -> JsonObject:
    """The spec of the pods. `spread_by_template` spreads the pods of each template of a Deployment on their own."""
    body: JsonObject = {"containers": [main]}
    return body | given(
        initContainers=first,
        imagePullSecrets=[{"name": name} for name in registry_secrets],
        restartPolicy=restart_policy,
        volumes=[*details.volumes],
        serviceAccountName=details.service_account_name,
        securityContext=details.pod_security_context,
        nodeName=details.node_name,
        nodeSelector={**(details.node_selector or {})},
        priorityClassName=details.priority_class_name,
        affinity=details.affinity,
        tolerations=[*details.tolerations],
        topologySpreadConstraints=[
            _spread(each, labels, spread_by_template) for each in details.topology_spread_constraints
        ],
        terminationGracePeriodSeconds=details.termination_grace_period_seconds,
    )


def job_spec(details: JobDetails, template: JsonObject) -> JsonObject:
    """The spec of a Job. Limits that the workload leaves out are those of Kubernetes."""
    limits = given(
        backoffLimit=details.backoff_limit,
        ttlSecondsAfterFinished=details.ttl_seconds_after_finished,
        activeDeadlineSeconds=details.active_deadline_seconds,
    )
    return {"template": template, **limits}


def _spread(constraint: JsonObject, labels: Mapping[str, str], by_template: bool) -> JsonObject:
    """A constraint with its selector. One that has a selector stays as it is."""
    if "labelSelector" in constraint:
        return constraint
    chosen: JsonObject = {**constraint, "labelSelector": {"matchLabels": {**labels}}}
    return chosen | ({"matchLabelKeys": [POD_HASH_KEY]} if by_template else {})


def credentials_of(secret: str) -> JsonObject:
    """The entry of `envFrom` by which a container reads a Secret with credentials."""
    return {"secretRef": {"name": secret, "optional": True}}


def given(**fields: JsonValue) -> JsonObject:
    """The fields that have a value: an empty one is the same as none."""
    return {name: value for name, value in fields.items() if value not in (None, "", [], {})}
