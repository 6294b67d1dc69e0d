"""Where the workloads of a module get their images: from the registries of the landscape, with its credentials."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from stellwerk.apply.objects.json_edit import with_value
from stellwerk.kube.types.identifiers import GroupVersionKind
from stellwerk.kube.types.model import JsonObject, JsonValue, dig

PULL_SECRET_VARIABLE = "SKR_IMG_PULL_SECRET"  # noqa: S105  # a name

_KINDS = frozenset({("apps", "Deployment"), ("apps", "StatefulSet")})
_POD = ("spec", "template", "spec")
_WORD = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?:[A-Za-z0-9.-]+(?::[0-9]+)?/)?(?:{_WORD}/)*"
    rf"(?P<name_and_tag>{_WORD}:[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})(?:@[A-Za-z][A-Za-z0-9]*:[0-9a-fA-F]{{32,}})?"
)


class VariableTaken(ValueError):
    """A container has the environment variable already that is to name the pull secret."""


def with_localized_images(body: JsonObject, images: Iterable[str]) -> JsonObject:
    """An object with these images in place of those with the same name and tag, wherever they come from.

    In containers, and in the values of their environment variables. Other kinds than Deployment and StatefulSet stay.
    """
    local = {named: image for image in images if (named := _name_and_tag(image))}
    if not local or not _is_workload(body):
        return body
    return _with_containers(body, lambda container: _localized(container, local))


def with_pull_secret(body: JsonObject, name: str, *, is_manager: bool) -> JsonObject:
    """An object whose pods get their images with this Secret. A manager gets its name, for what it creates itself.

    Other kinds than Deployment and StatefulSet stay. Raises `VariableTaken`.
    """
    if not _is_workload(body):
        return body
    secrets = _list(dig(body, *_POD, "imagePullSecrets"))
    if not any(dig(each, "name") == name for each in secrets):
        body = with_value(body, [*secrets, {"name": name}], *_POD, "imagePullSecrets")
    return _with_containers(body, lambda container: _with_variable(container, name)) if is_manager else body


def _name_and_tag(image: JsonValue) -> str:
    found = _REFERENCE.fullmatch(image) if isinstance(image, str) else None
    return found["name_and_tag"] if found else ""


def _is_workload(body: JsonObject) -> bool:
    gvk = GroupVersionKind.parse(str(body.get("apiVersion") or ""), str(body.get("kind") or ""))
    return (gvk.group, gvk.kind) in _KINDS


def _with_containers(body: JsonObject, change: Callable[[JsonObject], JsonObject]) -> JsonObject:
    for field in ("initContainers", "containers"):
        if containers := _list(dig(body, *_POD, field)):
            changed: list[JsonValue] = [change(each) if isinstance(each, dict) else each for each in containers]
            body = with_value(body, changed, *_POD, field)
    return body


def _localized(container: JsonObject, local: Mapping[str, str]) -> JsonObject:
    changed = dict(container)
    if image := local.get(_name_and_tag(container.get("image"))):
        changed["image"] = image
    if env := _list(container.get("env")):
        changed["env"] = [_localized_variable(each, local) for each in env]
    return changed


def _localized_variable(variable: JsonValue, local: Mapping[str, str]) -> JsonValue:
    image = local.get(_name_and_tag(dig(variable, "value")))
    return {**variable, "value": image} if image and isinstance(variable, dict) else variable


def _with_variable(container: JsonObject, name: str) -> JsonObject:
    env = _list(container.get("env"))
    if any(dig(each, "name") == PULL_SECRET_VARIABLE for each in env):
        raise VariableTaken(
            f"container {container.get('name')} sets the environment variable {PULL_SECRET_VARIABLE} itself: "
            "remove it from the module"
        )
    return {**container, "env": [*env, {"name": PULL_SECRET_VARIABLE, "value": name}]}


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []
