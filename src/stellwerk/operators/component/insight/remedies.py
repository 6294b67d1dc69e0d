"""The step that the message of a Component asks for, with a command that can be copied (pure).

Only the text of the condition is at hand. What is put into a command are names in the letters that Kubernetes allows,
and folders without any letter that a shell reads: a source may be hostile.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress

from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.component.api import Component
from stellwerk.operators.component.errors import InvalidSpec
from stellwerk.operators.component.references import references

_NAME = "[a-z0-9][a-z0-9.-]*"
_OBJECT = rf"(secret|configmap) ({_NAME})/({_NAME}[a-z0-9]|[a-z0-9])"
_OWNED = re.compile(rf"owner conflict; the object is owned by [^/\s]+/({_NAME})/({_NAME})")
_ABSENT = re.compile(rf"(/[\w/]+): error loading {_OBJECT}: not found")
_NO_KEY = re.compile(rf"key ([\w.-]+) not found in {_OBJECT}")
_NO_KEY_OF = re.compile(rf"no matching key found in {_OBJECT} \(looked for ([\w.-]+)")
_FOLDER = re.compile(r"Correct spec\.path: the source has ([\w./-]+)(?=,| and |$)")


def step(component: Component, message: str) -> str:
    """What to do about the message; empty where it asks for nothing that is known here."""
    if found := _OWNED.search(message):
        takes_over = _patched(component, {"adoptionPolicy": "Always"})
        return (
            f"remove the object from the source of this Component or of {Component.resource.kind} {found[1]}/{found[2]}"
            f", or have this one take it over: {takes_over}"
        )
    if found := _ABSENT.search(message):
        place, kind, namespace, name = found.groups()
        return f"create {_KINDS[kind]} {namespace}/{name}: {_creation(component, place, kind, namespace, name)}"
    if found := _NO_KEY.search(message):
        key, kind, namespace, name = found.groups()
        return f"add the key {key}: kubectl -n {namespace} edit {kind} {name}"
    if found := _NO_KEY_OF.search(message):
        kind, namespace, name, key = found.groups()
        return f"add the key {key}: kubectl -n {namespace} edit {kind} {name}"
    if found := _FOLDER.search(message):
        return f"correct spec.path to a folder that exists: {_patched(component, {'path': found[1]})}"
    return ""


_KINDS = {"secret": "Secret", "configmap": "ConfigMap"}
_FILES = {
    references.KUBE_CONFIG: "--from-file={key}=kubeconfig.yaml",
    references.REPOSITORY: "--from-file=username --from-file=password",
    references.DECRYPTION: "--from-file=age.agekey",
}
"""How the object of a place is filled. Others begin with no values under their key, or, without a key, empty."""


def _creation(component: Component, place: str, kind: str, namespace: str, name: str) -> str:
    key = ""
    with suppress(InvalidSpec):
        for each in references.find(component):
            if each.place == place:
                key = each.key or next(iter(each.fallbacks), "")
    files = _FILES.get(place, "--from-literal={key}={{}}" if key else "")
    created = "secret generic" if kind == "secret" else kind
    return f"kubectl -n {namespace} create {created} {name} {files.format(key=key)}".rstrip()


def _patched(component: Component, spec: JsonObject) -> str:
    body = json.dumps({"spec": spec}, separators=(",", ":"))
    return f"kubectl -n {component.key.namespace} patch component {component.key.name} --type merge -p '{body}'"
