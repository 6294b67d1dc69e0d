"""Admission webhooks: how they are registered, and what they are asked (admissionregistration and admission, v1)."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from stellwerk.kube.types.errors import Status
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import Record

GROUP = "admissionregistration.k8s.io"


class ServiceReference(Record, frozen=True, kw_only=True):
    """The Service that a webhook runs behind."""

    namespace: str
    name: str
    path: str = ""
    port: int = 443


class WebhookClientConfig(Record, frozen=True, kw_only=True):
    """How the API server reaches a webhook. `ca_bundle` is base64 text of PEM certificates."""

    url: str = ""
    service: ServiceReference | None = None
    ca_bundle: str = ""


class RuleWithOperations(Record, frozen=True, kw_only=True):
    """Which requests a webhook wants to see."""

    operations: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    api_versions: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    scope: str = "*"


class Webhook(Record, frozen=True, kw_only=True):
    """One webhook of a configuration."""

    name: str
    client_config: WebhookClientConfig = WebhookClientConfig()
    rules: tuple[RuleWithOperations, ...] = ()
    failure_policy: str = "Fail"
    side_effects: str = ""
    timeout_seconds: int = 10


class MutatingWebhookConfiguration(Kind, frozen=True, kw_only=True):
    """Webhooks that may change what is written."""

    resource: ClassVar[Resource] = Resource(
        GROUP, "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", namespaced=False
    )

    webhooks: tuple[Webhook, ...] = ()


class ValidatingWebhookConfiguration(Kind, frozen=True, kw_only=True):
    """Webhooks that may refuse what is written."""

    resource: ClassVar[Resource] = Resource(
        GROUP, "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", namespaced=False
    )

    webhooks: tuple[Webhook, ...] = ()


class GroupVersionKindWords(Record, frozen=True, kw_only=True):
    """A kind, as an AdmissionReview spells it."""

    group: str = ""
    version: str = ""
    kind: str = ""


class GroupVersionResourceWords(Record, frozen=True, kw_only=True):
    """A resource, as an AdmissionReview spells it."""

    group: str = ""
    version: str = ""
    resource: str = ""


class UserInfo(Record, frozen=True, kw_only=True):
    """Who asks."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()


class AdmissionRequest(Record, frozen=True, kw_only=True):
    """A write that waits for an answer. `object` is absent on a delete, `old_object` on a create; both are raw JSON."""

    uid: str
    kind: GroupVersionKindWords = GroupVersionKindWords()
    resource: GroupVersionResourceWords = GroupVersionResourceWords()
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    operation: str = ""
    user_info: UserInfo = UserInfo()
    object: msgspec.Raw = msgspec.Raw(b"null")
    old_object: msgspec.Raw = msgspec.Raw(b"null")
    dry_run: bool = False


class AdmissionResponse(Record, frozen=True, kw_only=True, omit_defaults=False):
    """The answer. `patch` is base64 text of a JSON patch, and `patch_type` then JSONPatch."""

    uid: str
    allowed: bool
    status: Status | msgspec.UnsetType = msgspec.UNSET
    patch: str | msgspec.UnsetType = msgspec.UNSET
    patch_type: str | msgspec.UnsetType = msgspec.UNSET
    warnings: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET


class AdmissionReview(Record, frozen=True, kw_only=True, omit_defaults=False):
    """Question and answer travel in the same envelope."""

    api_version: str = "admission.k8s.io/v1"
    kind: str = "AdmissionReview"
    request: AdmissionRequest | msgspec.UnsetType = msgspec.UNSET
    response: AdmissionResponse | msgspec.UnsetType = msgspec.UNSET
