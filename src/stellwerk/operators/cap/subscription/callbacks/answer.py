"""The answer to a registry (pure)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from stellwerk.kube.types.model import UNREADABLE, JsonObject, decode_json
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.tenant import CAPTenantOutput, Operation
from stellwerk.operators.cap.subscription.callbacks.promise import Promise
from stellwerk.operators.cap.subscription.registries import Protocol

MOST_OUTPUT_BYTES = 128 * 1024
"""Of the additional output; a Secret stores it."""
_URLS = {Protocol.SAAS: "subscriptionUrl", Protocol.SMS: "applicationUrl"}
_TITLES = {Operation.PROVISIONING: "Provisioning", Operation.DEPROVISIONING: "Deprovisioning"}
"""Nothing is promised about other operations, so a forged promise about one is never delivered."""


@dataclass(frozen=True, slots=True)
class AdditionalOutput:
    """What an application adds to the answer; None where it cannot be read. `problem`: what was left out, and why."""

    content: JsonObject | None
    problem: str = ""


def additional_output(application: CAPApplication | None, outputs: Iterable[CAPTenantOutput]) -> AdditionalOutput:
    """The annotation of the application, and the outputs of the tenant's Jobs on top of it, by name.

    Each value is encoded once: one that replaces another takes the place of its size.
    """
    text = application.metadata.annotations.get(names.ADDITIONAL_OUTPUT_ANNOTATION, "") if application else ""
    merged = _object(text) if text else {}
    if merged is None:
        return AdditionalOutput(None, f"annotation {names.ADDITIONAL_OUTPUT_ANNOTATION} is not a JSON object")
    sizes = _sizes(merged)
    total = 1 + sum(sizes.values())
    for output in sorted(outputs, key=lambda each: each.metadata.name):
        added = _object(output.spec.subscription_callback_data)
        if added is None:
            return AdditionalOutput(merged, f"{output.ref} has no JSON object in spec.subscriptionCallbackData")
        changed = _sizes(added)
        total += sum(size - sizes.get(name, 0) for name, size in changed.items())
        if total > MOST_OUTPUT_BYTES:
            return AdditionalOutput(merged, f"{output.ref} makes the output larger than {MOST_OUTPUT_BYTES >> 10} KiB")
        merged.update(added)
        sizes.update(changed)
    return AdditionalOutput(merged)


def body(promise: Promise, *, succeeded: bool, output: JsonObject | None = None, domain: str = "") -> str:
    """The answer as JSON. `output` and `domain` are for a tenant that was provisioned."""
    operation = promise.operation
    answer: JsonObject = {
        "status": "SUCCEEDED" if succeeded else "FAILED",
        "message": f"{_TITLES[operation]} {'successful' if succeeded else 'failed'}",
    }
    if operation is Operation.PROVISIONING:
        if output is not None:
            answer["additionalOutput"] = output
        answer[_URLS[promise.protocol]] = f"https://{promise.subdomain}.{domain}"
    return msgspec.json.encode(answer).decode()


def _sizes(content: JsonObject) -> dict[str, int]:
    """How many bytes each name takes with its value, the colon, and the comma or brace after it."""
    return {name: len(msgspec.json.encode({name: value})) - 1 for name, value in content.items()}


def _object(text: str) -> JsonObject | None:
    try:
        return decode_json(text) if len(text) <= MOST_OUTPUT_BYTES else None
    except (*UNREADABLE, UnicodeEncodeError):
        return None
