"""How API servers learn of the webhooks: two configurations, with the names of the original (pure).

While a configuration is there and no webhook answers, API servers refuse the writes that it is about. So it is about as
few as possible:

- Deletions are asked about where a rule may refuse one: of the tenant of a provider. The subscriber who leaves, and
  the namespace that goes, wait for no webhook.
- Writes of objects that are being deleted are not asked about unless they change the spec: the removal of a finalizer
  must never be refused, and an object whose deletion is blocked must not get another host, version or application by
  that.
- The namespace of the webhooks is left out: nothing that an operator needs there waits for them.
- An API server waits 5 seconds for an answer, as long as the webhooks take at most; the original lets it wait for 15,
  and the user with it.
"""

from __future__ import annotations

from collections.abc import Sequence

from stellwerk.api.admission import MutatingWebhookConfiguration, ValidatingWebhookConfiguration
from stellwerk.delivery.installation import ClientConfig
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.status import API_VERSION, GROUP
from stellwerk.operators.cap.webhooks.judges import MUTATE, VALIDATE

NAME = "cap-operator"
_WEBHOOK = f"{NAME}.{GROUP}"
_SECONDS = 5
_VALIDATED = (
    "capapplications",
    "captenants",
    "capapplicationversions",
    "captenantoutputs",
    "domains",
    "clusterdomains",
)
_WRITES = ("CREATE", "UPDATE")
_STAYS = 'request.operation == "CREATE" || !has(object.metadata.deletionTimestamp)'
"""A client may send a deletion timestamp when it creates an object, which the API server removes later."""
_HAS_ANOTHER_SPEC = "has(object.spec) && (!has(oldObject.spec) || object.spec != oldObject.spec)"
_CONDITION: JsonObject = {
    "name": "object-is-not-being-deleted-or-has-another-spec",
    "expression": f"{_STAYS} || ({_HAS_ANOTHER_SPEC})",
}


def secret_of(service: str) -> str:
    """The name of the Secret with the certificate of a Service, as with the original: it goes on with that one."""
    return f"{service}-tls"


def configurations(client_config: ClientConfig, namespace: str) -> Sequence[JsonObject]:
    """Both configurations, for webhooks that run in `namespace`. The server adds its authority by itself."""

    def webhook(
        name: str, path: str, operations: Sequence[str], resources: Sequence[str], **selection: JsonValue
    ) -> JsonObject:
        outside: JsonObject = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [namespace]}
        rule: JsonObject = {
            "apiGroups": [GROUP],
            "apiVersions": [API_VERSION],
            "operations": [*operations],
            "resources": [*resources],
        }
        return {
            "name": name,
            "admissionReviewVersions": ["v1"],
            "clientConfig": client_config(path),
            "failurePolicy": "Fail",
            "namespaceSelector": {"matchExpressions": [outside]},
            "rules": [rule],
            "sideEffects": "None",
            "timeoutSeconds": _SECONDS,
            **selection,
        }

    provider: JsonObject = {"matchLabels": {names.TENANT_TYPE_LABEL: names.PROVIDER}}
    validate = webhook(_WEBHOOK, VALIDATE, _WRITES, _VALIDATED, matchConditions=[_CONDITION])
    delete = webhook(f"deletion.{_WEBHOOK}", VALIDATE, ("DELETE",), ("captenants",), objectSelector=provider)
    mutate = webhook(_WEBHOOK, MUTATE, _WRITES, _VALIDATED[:1], matchConditions=[_CONDITION])
    return (
        _configuration(ValidatingWebhookConfiguration.resource, validate, delete),
        _configuration(MutatingWebhookConfiguration.resource, mutate),
    )


def _configuration(kind: Resource, *webhooks: JsonObject) -> JsonObject:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": NAME}, "webhooks": [*webhooks]}
