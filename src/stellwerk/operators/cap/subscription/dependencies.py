"""The services of an application that a registry subscribes with it (pure)."""

from __future__ import annotations

from collections.abc import Iterable

from stellwerk.kube.types.model import JsonObject, dig
from stellwerk.operators.cap.kinds.application import ServiceInfo, SubscriptionDependency

_NAMED_CLASSES = ("destination", "connectivity", "auditlog")
"""Services that a registry knows by their class."""


def of_services(services: Iterable[tuple[ServiceInfo, str, JsonObject]]) -> list[JsonObject]:
    """The dependencies in the order of the services, each with its plan and credentials (spec 13).

    A service without an xsappname in its credentials is skipped, because a registry cannot subscribe it.
    """
    return [
        _entry(service.class_name, app_id)
        for service, plan, credentials in services
        if _is_dependency(service, plan, credentials) and (app_id := _app_id(credentials))
    ]


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
    return next((name for name in candidates if isinstance(name, str) and name), "")


def _entry(class_name: str, app_id: str) -> JsonObject:
    if class_name in _NAMED_CLASSES:
        return {"appName": class_name, "appId": app_id}
    return {"xsappname": app_id}
