"""The API server's refusals, sorted by the obstacle and who can remove it.

The server distinguishes them only in words and in `details.causes`; the texts looked for here are those of Kubernetes'
own admission plugins and have been the same for years. What matches none of them is `REFUSED`, with the server's words.

Messages of the server may quote values out of the object ("Invalid value: ..."). Of Secrets, and wherever a value can
stand, only field names are passed on.
"""

from __future__ import annotations

import re

from stellwerk.apply.errors import Obstacle, WriteFailure
from stellwerk.apply.objects.desired import Address
from stellwerk.kube.types import errors
from stellwerk.kube.types.errors import ApiError, StatusError, is_refused_by_admission, user_in

_WEBHOOK = re.compile(r'admission webhook "([^"]+)" denied the request(?:: (.*))?', re.DOTALL)
_POLICY = re.compile(r"ValidatingAdmissionPolicy '([^']+)' with binding '[^']+' denied request(?:: )?(.*)", re.DOTALL)
_QUOTA = re.compile(r"exceeded quota: ([^,]+)")
_NO_NAMESPACE = re.compile(r'namespaces "([^"]+)" not found')
_UNKNOWN_FIELD = re.compile(r'unknown field "([^"]+)"')
_MISTYPED = re.compile(r"failed to create typed patch object|unable to convert unstructured object")
_MISTYPED_FIELD = re.compile(
    r"\.((?:\[[^\]]*\]|[^\s:\[])+): (field not declared in schema|expected [^,\n]+|duplicate entries for key)"
)
"""Server-side apply compares with the schema before validation does. What follows these words quotes the value."""
_IMMUTABLE = re.compile(
    r"\bimmutable\b|may not (?:be changed|change)\b|cannot change roleRef|updates to \w+ are forbidden|"
    r"Forbidden: updates to \w+ spec for fields other than"
)
_RESTORE = "restore the former value, or have the object recreated by update-policy: recreate"
REPLACE = "have the object replaced by update-policy: replace, or remove that field"
"""What helps against fields of other managers."""
_ATTEMPTED = re.compile(r"^cannot \w+ [^:]+: ")
"""The request, as the server's failures begin. Our own messages contain it."""
_MAX_WORDS = 300

_VERBS = {"apply": "patch", "reclaim": "patch", "delete": "delete"}
"""Our verbs as RBAC spells them. Creating by server-side apply needs `create` and `patch`."""

_Reading = tuple[Obstacle, str, str]
"""Obstacle, cause, fix."""


def failure_of(address: Address, verb: str, error: ApiError) -> WriteFailure:
    """What stood in the way of a write."""
    obstacle, cause, fix = _read(address, verb, error)
    return WriteFailure(address.ref, verb, obstacle, cause, fix, error)


_FIXES = re.compile(
    r" \(((?:install its CustomResourceDefinition|create the namespace|grant (?:it those rights|verb )|wait until the|"
    r"raise the quota|change the object|repair the service|correct the manifest|restore the former value|"
    r"have the object replaced)[^()]*)\)"
)
"""How the fixes of this file begin, as a `WriteFailure` writes them into its sentence."""


def advice_in(sentence: str) -> str:
    """The first fix that a sentence about failures carries; empty where it has none.

    For programs that have only the text of a condition; the operator that wrote it has the `WriteFailure`.
    """
    match = _FIXES.search(sentence)
    return match.group(1) if match else ""


def _read(address: Address, verb: str, error: ApiError) -> _Reading:
    match error:
        case errors.NotServed():
            return _not_served(address)
        case errors.Forbidden():
            return _admission(address, error) or _policy(address, error) or _forbidden(address, verb, error)
        case errors.NotFound():
            return _not_found(address, error)
        case errors.Conflict():
            return Obstacle.CHANGED, "it was changed or replaced in the meantime", ""
        case errors.Invalid() | errors.BadRequest():
            read = _admission(address, error) or _policy(address, error)
            return read or _mistyped(address, error) or _invalid(address, error)
        case errors.TooManyRequests() | errors.ServerFault():
            return (
                _admission(address, error)
                or _mistyped(address, error)
                or (Obstacle.OUTAGE, _server_words(address, error), "")
            )
        case StatusError():
            return _admission(address, error) or (Obstacle.REFUSED, _server_words(address, error), "")
        case _:
            said = _ATTEMPTED.sub("", str(error))
            return Obstacle.OUTAGE, _short(said) or "the API server did not answer", ""


def _not_served(address: Address) -> _Reading:
    cause = f"the API server serves no {address.resource.gvk}"
    return Obstacle.KIND_NOT_SERVED, cause, "install its CustomResourceDefinition or correct apiVersion and kind"


def _not_found(address: Address, error: StatusError) -> _Reading:
    if match := _NO_NAMESPACE.search(error.status.message):
        return Obstacle.NAMESPACE_MISSING, f"Namespace {match.group(1)} does not exist", "create the namespace"
    if error.status.details.name:
        return Obstacle.CHANGED, "it was deleted in the meantime", ""
    return _not_served(address)


def _forbidden(address: Address, verb: str, error: StatusError) -> _Reading:
    """RBAC names the right that is missing; an escalation check of roles comes under the same code.

    Who lacks it need not be the operator: writes may go out in another's name.
    """
    resource, namespace, who = address.resource.group_resource, address.key.namespace, _who(error)
    if "attempting to grant" in error.status.message:
        cause = f"{who} may not grant the rights in {address} that it does not have itself"
        return Obstacle.FORBIDDEN, cause, f"grant it those rights, or verb escalate or bind on {resource}"
    if "cannot set blockOwnerDeletion" in error.status.message:  # OwnerReferencesPermissionEnforcement
        cause = f"{who} may not name an owner with blockOwnerDeletion in {address}"
        return Obstacle.FORBIDDEN, cause, "grant verb update on the subresource finalizers of the owner's resource"
    where = f"in namespace {namespace}" if namespace else "in the whole cluster"
    right = f"{_verb(verb, error)} {resource} {where}"
    return Obstacle.FORBIDDEN, f"{who} may not {right}", f"grant verb {_verb(verb, error)} on {resource} {where}"


def _who(error: StatusError) -> str:
    return user_in(error) or "the operator"


def _verb(verb: str, error: StatusError) -> str:
    match = re.search(r"cannot (\w+) resource", error.status.message)
    return match.group(1) if match else _VERBS.get(verb, verb)


def _admission(address: Address, error: StatusError) -> _Reading | None:
    """A refusal by an admission plugin or webhook, whatever code it came under."""
    status = error.status
    namespace = address.key.namespace
    if any(cause.reason == "NamespaceTerminating" for cause in status.details.causes):
        fix = "wait until the namespace is gone and create it again"
        return Obstacle.NAMESPACE_TERMINATING, f"Namespace {namespace} is being deleted", fix
    if match := _QUOTA.search(status.message):
        cause = f"ResourceQuota {namespace}/{match.group(1)} is used up"
        return Obstacle.QUOTA_EXCEEDED, cause, "raise the quota or free some of it"
    if match := _WEBHOOK.search(status.message):
        said = "" if address.is_secret else _short(match.group(2) or "")
        cause = f"admission webhook {match.group(1)} refused it" + (f": {said}" if said else "")
        return Obstacle.WEBHOOK_REFUSED, cause, "change the object or the rules of that webhook"
    if webhook := errors.silent_webhook(error):
        cause = f"admission webhook {webhook} does not answer"
        return Obstacle.WEBHOOK_DOWN, cause, "repair the service behind the webhook or remove its configuration"
    return None


def _policy(address: Address, error: StatusError) -> _Reading | None:
    """A refusal by a policy of the cluster, or by an admission plugin that has no obstacle of its own."""
    message = error.status.message
    if match := _POLICY.search(message):
        said = "" if address.is_secret else _short(match.group(2))
        cause = f"ValidatingAdmissionPolicy {match.group(1)} refused it" + (f": {said}" if said else "")
    elif is_refused_by_admission(error):
        said = "" if address.is_secret else _short(message.partition(" is forbidden: ")[2])
        cause = "admission refused it" + (f": {said}" if said else "")
    else:
        return None
    return Obstacle.REFUSED, cause, "change the object or the policy that refuses it"


def _invalid(address: Address, error: StatusError) -> _Reading:
    status = error.status
    fields = dict.fromkeys(_UNKNOWN_FIELD.findall(status.message))
    if fields:
        return Obstacle.INVALID, f"unknown field {', '.join(fields)}", "correct the manifest"
    if address.is_secret:
        named = ", ".join(dict.fromkeys(cause.field for cause in status.details.causes if cause.field))
        return Obstacle.INVALID, f"invalid {named}" if named else "invalid content", "correct the manifest"
    causes = (f"{cause.field}: {_short(cause.message)}" for cause in status.details.causes if cause.field)
    said = "; ".join(dict.fromkeys(causes))  # two rules of a field may have one message
    fix = _RESTORE if _IMMUTABLE.search(status.message) else "correct the manifest"
    return Obstacle.INVALID, said or _server_words(address, error), fix


def _mistyped(address: Address, error: StatusError) -> _Reading | None:
    """Content that the schema does not know."""
    message = error.status.message
    if not _MISTYPED.search(message):
        return None
    found = [
        f"unknown field {path}" if why.startswith("field not") else f"{path}: {why}"
        for path, why in _MISTYPED_FIELD.findall(message)
    ]
    tail = "" if address.is_secret or found else f": {_short(message.rpartition('Kind=')[2].partition(': ')[2])}"
    cause = ", ".join(dict.fromkeys(found)) or f"its content does not fit {address.resource.gvk}{tail}"
    return Obstacle.INVALID, cause, "correct the manifest"


def _server_words(address: Address, error: StatusError) -> str:
    words = _short(error.status.message)
    return words if words and not address.is_secret else f"HTTP {error.code} {error.status.reason}".strip()


def _short(words: str) -> str:
    line = " ".join(words.split())
    return line if len(line) <= _MAX_WORDS else f"{line[: _MAX_WORDS - 3]}..."
