"""What the registries send: the bodies of both protocols as one value (pure).

The SaaS registry and the Subscription Management Service (SMS) name the same facts differently. Ids become values of
labels, so a value that no label can have is refused here, before anything is read or written for it. Keys are matched
as Go's decoder does: exactly, else regardless of upper and lower case.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from stellwerk.kube.types.model import JsonObject, JsonValue

_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_HOST_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_LONGEST_NAME = 256


class PayloadInvalid(ValueError):
    """A request of a registry lacks a value or has an unusable one. The message never quotes the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """A subscription as a registry describes it."""

    guid: str
    tenant_id: str
    subdomain: str
    provider_subaccount_id: str
    app_name: str
    global_account_id: str = ""
    domain: str = ""
    """The domain that the subscriber chose for its URL, or empty."""


def saas_subscription(body: bytes) -> Subscription:
    """The body of PUT and DELETE of the SaaS registry. Raises PayloadInvalid."""
    root = _Reader(_object(body), "")
    return Subscription(
        guid=root.label("subscriptionGUID"),
        tenant_id=root.label("subscribedTenantId"),
        subdomain=root.subdomain("subscribedSubdomain"),
        provider_subaccount_id=root.text("providerSubaccountId"),
        app_name=root.text("subscriptionAppName"),
        global_account_id=root.optional_text("globalAccountGUID"),
        domain=root.optional("subscriptionParams").optional_text("subscriptionDomain"),
    )


def sms_subscription(body: bytes) -> Subscription:
    """The body of PUT of the SMS. Raises PayloadInvalid."""
    root = _Reader(_object(body), "")
    subscriber, application = root.required("subscriber"), root.required("rootApplication")
    return Subscription(
        guid=subscriber.label("subscriptionGUID"),
        tenant_id=subscriber.label("app_tid"),
        subdomain=subscriber.subdomain("subaccountSubdomain"),
        provider_subaccount_id=application.text("providerSubaccountId"),
        app_name=application.text("appName"),
        global_account_id=subscriber.optional_text("globalAccountId"),
        domain=application.optional("subscriptionParams").optional_text("subscriptionDomain"),
    )


def check_subscriber(tenant_id: str, subdomain: str) -> None:
    """Raises PayloadInvalid where the SaaS registry could not have a subscriber like this."""
    values = _Reader({"subscribedTenantId": tenant_id, "subscribedSubdomain": subdomain}, "")
    values.label("subscribedTenantId")
    values.subdomain("subscribedSubdomain")


def sms_end(query: Mapping[str, str], path_tail: str) -> tuple[str, str]:
    """The id of a subscription and the tenant id in the DELETE of the SMS. Raises PayloadInvalid."""
    values = _Reader({"subscriptionGUID": query.get("subscriptionGUID"), "app_tid": path_tail}, "")
    return values.label("subscriptionGUID"), values.label("app_tid")


@dataclass(frozen=True, slots=True)
class _Reader:
    """Values of a JSON object; `path` is where it is in the body, for messages."""

    content: JsonObject
    path: str

    def text(self, key: str) -> str:
        value = self.optional_text(key)
        if not value:
            raise PayloadInvalid(f"{self.path}{key} is missing")
        return value

    def optional_text(self, key: str) -> str:
        value = self._value(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise PayloadInvalid(f"{self.path}{key} must be a string")
        if len(value) > _LONGEST_NAME:
            raise PayloadInvalid(f"{self.path}{key} must have at most {_LONGEST_NAME} characters")
        return value

    def label(self, key: str) -> str:
        return self._matching(key, _LABEL_VALUE, "letters, digits, '-', '_' and '.'")

    def subdomain(self, key: str) -> str:
        return self._matching(key, _HOST_LABEL, "letters, digits and '-'")

    def _matching(self, key: str, form: re.Pattern[str], characters: str) -> str:
        value = self.text(key)
        if not form.fullmatch(value):
            raise PayloadInvalid(
                f"{self.path}{key} must have at most 63 {characters}, and begin and end with a letter or digit"
            )
        return value

    def required(self, key: str) -> _Reader:
        if self._value(key) is None:
            raise PayloadInvalid(f"{self.path}{key} is missing")
        return self.optional(key)

    def optional(self, key: str) -> _Reader:
        value = self._value(key)
        if value is not None and not isinstance(value, dict):
            raise PayloadInvalid(f"{self.path}{key} must be an object")
        return _Reader(value or {}, f"{self.path}{key}.")

    def _value(self, key: str) -> JsonValue:
        if key in self.content:
            return self.content[key]
        return next((value for name, value in self.content.items() if name.lower() == key.lower()), None)


def _object(body: bytes) -> JsonObject:
    try:
        content: JsonValue = msgspec.json.decode(body)
    except (ValueError, RecursionError):  # also bytes that are not UTF-8, and nesting without end
        raise PayloadInvalid("the body is not valid JSON") from None
    if not isinstance(content, dict):
        raise PayloadInvalid("the body must be a JSON object")
    return content
