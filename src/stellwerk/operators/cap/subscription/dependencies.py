"""The services of an application that a registry subscribes with it (pure)."""

from __future__ import annotations

from stellwerk.kube.types.model import JsonObject, dig
from stellwerk.operators.cap.kinds.application import ServiceInfo, SubscriptionDependency
from stellwerk.operators.cap.subscription import registries

_NAMED_CLASSES = ("destination", "connectivity", "auditlog")
"""Services that a registry knows by their class."""
_LONGEST_NAME = 1_024
"""An answer has one name for each service, and an application may name any number of services."""


def of_service(service: ServiceInfo, entry: JsonObject) -> list[JsonObject]:
    """The dependency that a service as workloads see it is, or none (spec 13).

    A service without a usable xsappname in its credentials is skipped, because a registry cannot subscribe it.
    """
    credentials = registries.credentials_in(entry)
    app_id = _app_id(credentials)
    is_dependency = app_id and _is_dependency(service, str(entry.get("plan") or ""), credentials)
    return [_entry(service.class_name, app_id)] if is_dependency else []


def _is_dependency(service: ServiceInfo, plan: str, credentials: JsonObject) -> bool:
    match service.subscription_dependency:
        case SubscriptionDependency.ALWAYS:
            return True
        case SubscriptionDependency.NEVER:
            return False
        case _ if service.class_name == "auditlog":
            return plan == "oauth2" or _is_enabled(credentials)
        case _:
            return service.class_name in _NAMED_CLASSES or _is_enabled(credentials)


def _is_enabled(credentials: JsonObject) -> bool:
    return credentials.get("saasregistryenabled") is True


def _app_id(credentials: JsonObject) -> str:
    candidates = (credentials.get("xsappname"), dig(credentials, "uaa", "xsappname"))
    return next((name for name in candidates if isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME), "")


def _entry(class_name: str, app_id: str) -> JsonObject:
    if class_name in _NAMED_CLASSES:
        return {"appName": class_name, "appId": app_id}
    return {"xsappname": app_id}
