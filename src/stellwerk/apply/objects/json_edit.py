"""Small changes to a JSON object that leave the given one alone.

Bodies are shared (a cache, a manifest read once and used in every pass), so a change copies the objects on its path and
shares the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stellwerk.kube.types.model import JsonObject, JsonValue, dig


def with_value(body: JsonObject, value: JsonValue, *path: str) -> JsonObject:
    """The object with a value set under a path of keys; missing mappings on the way are made."""
    first, *rest = path
    if not rest:
        return {**body, first: value}
    inner = body.get(first)
    return {**body, first: with_value(inner if isinstance(inner, dict) else {}, value, *rest)}


def without(body: JsonObject, *path: str) -> JsonObject:
    """The object without the value at a path of keys; itself where there is none."""
    first, *rest = path
    inner = body.get(first)
    if rest and isinstance(inner, dict):
        return {**body, first: without(inner, *rest)}
    if rest or first not in body:
        return body
    return {key: value for key, value in body.items() if key != first}


def merged(body: JsonObject, values: Mapping[str, JsonValue], *path: str) -> JsonObject:
    """The object with the keys of `values` added to, or replaced in, the mapping under a path."""
    present = dig(body, *path)
    return with_value(body, {**(present if isinstance(present, dict) else {}), **values}, *path)


def with_labels(body: JsonObject, labels: Mapping[str, str]) -> JsonObject:
    """The object with these labels besides its own."""
    return merged(body, labels, "metadata", "labels") if labels else body


def with_annotations(body: JsonObject, annotations: Mapping[str, str]) -> JsonObject:
    """The object with these annotations besides its own."""
    return merged(body, annotations, "metadata", "annotations") if annotations else body


def without_keys(body: JsonObject, name: str, is_meant: Callable[[str], bool]) -> JsonObject:
    """The object without these keys of its `labels` or `annotations`."""
    present = dig(body, "metadata", name)
    if not isinstance(present, dict) or not any(map(is_meant, present)):
        return body
    kept = {key: value for key, value in present.items() if not is_meant(key)}
    return with_value(body, kept, "metadata", name) if kept else without(body, "metadata", name)


def without_annotations(body: JsonObject, prefix: str) -> JsonObject:
    """The object without the annotations whose keys begin so."""
    return without_keys(body, "annotations", lambda key: key.startswith(prefix))


def with_namespace(body: JsonObject, namespace: str) -> JsonObject:
    """The object in a namespace; in none where it is empty."""
    return with_value(body, namespace, "metadata", "namespace") if namespace else without(body, "metadata", "namespace")
