"""The registries that call: which services of an application they are, and what their credentials contain (pure)."""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Collection, Sequence
from datetime import timedelta
from enum import StrEnum

import msgspec

from stellwerk.kube.types.model import UNREADABLE, JsonObject, JsonValue, dig, encode_json
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import CAPApplication, ServiceInfo
from stellwerk.operators.cap.pods.vcap import CredentialsUnusable

DEFAULT_TIMEOUT = timedelta(minutes=15)
"""Where the credentials set none that can be used."""
LONGEST_TIMEOUT = timedelta(days=7)


class Protocol(StrEnum):
    """Which registry asks: the SaaS registry, or the Subscription Management Service."""

    SAAS = "saas"
    SMS = "sms"


_CLASSES = {Protocol.SAAS: "saas-registry", Protocol.SMS: "subscription-manager"}
_TIMEOUTS = {
    Protocol.SAAS: ("appUrls", "callbackTimeoutMillis"),
    Protocol.SMS: ("app_urls", "subscriptionCallbacks", "async", "timeoutInMillis"),
}
_URLS = {Protocol.SAAS: "saas_registry_url", Protocol.SMS: "subscription_manager_url"}
_MOST_TEXT = 64 * 1024
"""Characters of the texts of a service that are kept; certificates with their chains have about ten thousand."""
_OF_CALLERS = (
    *("uaadomain", "clientid", "xsappname", "url", "callback_certificate_issuer", "callback_certificate_subject"),
    *_URLS.values(),
)
_OF_CALLBACKS = (
    *("url", "certurl", "clientid", "clientsecret", "credential-type", "certificate", "key"),
    *_URLS.values(),
)
_OF_PROOFS = (
    *("uaadomain", "xsappname", "url", "certurl", "clientid", "clientsecret"),
    *("credential-type", "certificate", "key"),
)


_VERSION_KEY = secrets.token_bytes(32)


def version_of(entry: JsonObject) -> bytes:
    """What changes with the credentials by which a service gets tokens, and shows nothing of them."""
    texts = _texts(entry, _OF_PROOFS)
    return hashlib.blake2b(encode_json(texts), key=_VERSION_KEY, digest_size=16).digest()


def service_of(application: CAPApplication, protocol: Protocol) -> ServiceInfo | None:
    """The service of a registry: the first of its class."""
    return _first(application.spec.btp.services, _CLASSES[protocol])


def services_for_callback(
    application: CAPApplication | None, protocol: Protocol, name: str, secret: str
) -> list[ServiceInfo]:
    """The services whose bindings may deliver a callback, best first; `name` and `secret` are those of the request.

    The binding of the request may have been replaced meanwhile, so that the application decides as it is now. Its
    service of the request comes before the first of the class, which may be another registry instance.
    """
    listed = application.spec.btp.services if application is not None else ()
    found = [each for each in listed if each.class_name == _CLASSES[protocol]]
    best = [
        next((each for each in found if each.name == name), None),
        next((each for each in found if each.secret == secret), None),
        *found[:1],
        ServiceInfo(name=name, class_name=_CLASSES[protocol], secret=secret),
    ]
    by_secret: dict[str, ServiceInfo] = {}
    for service in best:
        if service is not None:
            by_secret.setdefault(service.secret, service)
    return list(by_secret.values())


def xsuaa_of(application: CAPApplication) -> ServiceInfo | None:
    """The XSUAA whose scopes callers need: the one that the annotation names, else the first."""
    services = application.spec.btp.services
    chosen = application.metadata.annotations.get(names.PRIMARY_XSUAA_ANNOTATION, "")
    named = [each for each in services if each.class_name == "xsuaa" and each.name == chosen]
    return named[0] if named else _first(services, "xsuaa")


def _first(services: Sequence[ServiceInfo], class_name: str) -> ServiceInfo | None:
    return next((each for each in services if each.class_name == class_name), None)


def registry_url(protocol: Protocol, credentials: JsonObject) -> str:
    """Where the end of a request is reported to, without the path."""
    return text(credentials, _URLS[protocol])


def callback_timeout(protocol: Protocol, credentials: JsonObject) -> timedelta:
    """How long a registry waits. A number, or a number as text; what is neither, or not above zero, is the default."""
    key, *path = _TIMEOUTS[protocol]
    milliseconds = _number(_within(credentials.get(key), *path))
    if not math.isfinite(milliseconds) or milliseconds <= 0:
        return DEFAULT_TIMEOUT
    return min(timedelta(milliseconds=min(milliseconds, 1e12)), LONGEST_TIMEOUT)


def credentials_in(entry: JsonObject) -> JsonObject:
    """The credentials of a service, which each of its entries (`vcap.entry`) has."""
    found = entry["credentials"]
    assert isinstance(found, dict)
    return found


def text(credentials: JsonObject, key: str) -> str:
    """A value that is a text; empty where it is absent or something else."""
    value = credentials.get(key)
    return value if isinstance(value, str) else ""


def texts_for_callers(entry: JsonObject) -> JsonObject:
    """The texts of a service that decide who may call. Raises CredentialsUnusable where they are too long."""
    return _texts(entry, _OF_CALLERS)


def texts_for_proofs(entry: JsonObject) -> JsonObject:
    """The texts of a registry by which its binding gets a token. Raises CredentialsUnusable where they are too long."""
    return _texts(entry, _OF_PROOFS)


def texts_for_callbacks(entry: JsonObject) -> JsonObject:
    """The texts of a registry that a callback needs. Raises CredentialsUnusable where they are too long."""
    return _texts(entry, _OF_CALLBACKS)


def _texts(entry: JsonObject, keys: Collection[str]) -> JsonObject:
    credentials = credentials_in(entry)
    texts = {key: value for key in keys if (value := text(credentials, key))}
    if sum(map(len, texts.values())) > _MOST_TEXT:
        raise CredentialsUnusable(f"the credentials have more than {_MOST_TEXT} characters in {', '.join(texts)}")
    return {**texts}


def _within(value: JsonValue, *path: str) -> JsonValue:
    """A value within an object, which credentials have as JSON text or as it is."""
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except UNREADABLE:
            return None
    return dig(value, *path)


def _number(value: JsonValue) -> float:
    try:
        return float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        return math.nan
