"""What Kubernetes takes for a name, a label or an annotation. Pure.

The API server would refuse such an object itself, but only when its turn comes: by then a part of the set is written.
Checked here is what holds for every kind. Names have more rules, which differ from kind to kind; kinds that come with
Kubernetes want a DNS subdomain, with few exceptions, and those are left to the server.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from stellwerk.kube.types.model import JsonObject, JsonValue

LONGEST_NAME = 253
LONGEST_PART = 63
MOST_ANNOTATIONS = 256 * 1024
"""How many bytes the annotations of one object may have together."""

_PART = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_OWN_GROUPS = frozenset({"", "apps", "batch", "autoscaling", "policy"})
_FREELY_NAMED = frozenset({"rbac.authorization.k8s.io"})
_SHOWN = 60


def is_namespace(text: str) -> bool:
    """Whether a namespace can have this name."""
    return _NAMESPACE.fullmatch(text) is not None


def is_subdomain(text: str) -> bool:
    """Whether an object of the core group, a Secret for example, can have this name (RFC 1123 subdomain)."""
    return len(text) <= LONGEST_NAME and _DOMAIN.fullmatch(text) is not None


def of_namespace(namespace: str) -> str:
    """Why no namespace can have this name; empty where one can. A name with a `/` would lead a request elsewhere."""
    if is_namespace(namespace):
        return ""
    return f"metadata.namespace {_cut(namespace)} must have at most {LONGEST_PART} lower-case letters, digits and '-'"


def complaints(api_version: str, metadata: JsonObject) -> Iterator[str]:
    """Why the API server would not take this metadata, one clause each. Only texts are looked at."""
    name = metadata.get("name")
    if isinstance(name, str) and name:
        yield from _of_name(name, api_version.rpartition("/")[0])
    labels, annotations = metadata.get("labels"), metadata.get("annotations")
    if isinstance(labels, dict):
        yield from (why for key, value in labels.items() for why in _of_label(key, value))
    if isinstance(annotations, dict):
        yield from (f"metadata.annotations[{_cut(key)}]: {why}" for key in annotations if (why := _of_key(key.lower())))
        if _bytes(annotations) > MOST_ANNOTATIONS:
            yield f"metadata.annotations have more than {MOST_ANNOTATIONS} bytes"


def _of_name(name: str, group: str) -> Iterator[str]:
    if len(name) > LONGEST_NAME:
        yield f"metadata.name has {len(name)} characters; {LONGEST_NAME} are allowed"
    elif name in (".", "..") or "/" in name or "%" in name:
        yield f"metadata.name {_cut(name)} must not be '.' or '..', nor contain '/' or '%'"
    elif _is_domain_named(group) and not _DOMAIN.fullmatch(name):
        yield f"metadata.name {_cut(name)} must consist of lower-case letters, digits, '-' and '.'"


def _is_domain_named(group: str) -> bool:
    return group in _OWN_GROUPS or (group.endswith(".k8s.io") and group not in _FREELY_NAMED)


def _of_label(key: str, value: JsonValue) -> Iterator[str]:
    if why := _of_key(key):
        yield f"metadata.labels[{_cut(key)}]: {why}"
    if isinstance(value, str) and value and not _PART.fullmatch(value):
        yield (
            f"metadata.labels[{_cut(key)}]: the value must have at most {LONGEST_PART} letters, digits, '-', '_' and "
            "'.', and begin and end with a letter or digit"
        )


def _of_key(key: str) -> str:
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > LONGEST_NAME or not _DOMAIN.fullmatch(prefix)):
        return "what is before the '/' must be a domain such as example.com"
    if not _PART.fullmatch(name):
        return f"the key must have at most {LONGEST_PART} letters, digits, '-', '_' and '.'"
    return ""


def _bytes(annotations: JsonObject) -> int:
    pairs = ((key, value) for key, value in annotations.items() if isinstance(value, str))
    return sum(len(key.encode()) + len(value.encode()) for key, value in pairs)


def _cut(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
