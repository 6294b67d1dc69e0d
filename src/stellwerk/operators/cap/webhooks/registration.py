"""How the API server learns of the webhooks: two configurations, with the names of the original (pure)."""

from __future__ import annotations

from collections.abc import Sequence

from stellwerk.api.admission import MutatingWebhookConfiguration, ValidatingWebhookConfiguration
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.cap.api_status import API_VERSION, GROUP
from stellwerk.operators.cap.webhooks.judges import MUTATE, VALIDATE

NAME = "cap-operator"
_WEBHOOK = f"{NAME}.{GROUP}"
_SECONDS = 15
_VALIDATED = (
    "capapplications",
    "captenants",
    "capapplicationversions",
    "captenantoutputs",
    "domains",
    "clusterdomains",
)


def service(name: str, namespace: str, port: int, path: str) -> JsonObject:
    """How webhooks are reached at a Service."""
    return {"service": {"name": name, "namespace": namespace, "port": port, "path": path}}


def configurations(validate: JsonObject, mutate: JsonObject) -> Sequence[JsonObject]:
    """Both configurations. The arguments are how each path is reached; the server adds its authority by itself."""
    return (
        _configuration(ValidatingWebhookConfiguration.resource, validate, _VALIDATED, ("CREATE", "UPDATE", "DELETE")),
        _configuration(MutatingWebhookConfiguration.resource, mutate, _VALIDATED[:1], ("CREATE", "UPDATE")),
    )


def paths() -> Sequence[str]:
    """The paths in the order of the arguments of `configurations`."""
    return (VALIDATE, MUTATE)


def _configuration(
    kind: Resource, client: JsonObject, resources: Sequence[str], operations: Sequence[str]
) -> JsonObject:
    rule: JsonObject = {
        "apiGroups": [GROUP],
        "apiVersions": [API_VERSION],
        "operations": [*operations],
        "resources": [*resources],
    }
    webhook: JsonObject = {
        "name": _WEBHOOK,
        "admissionReviewVersions": ["v1"],
        "clientConfig": client,
        "failurePolicy": "Fail",
        "rules": [rule],
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": _SECONDS,
    }
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": NAME}, "webhooks": [webhook]}
