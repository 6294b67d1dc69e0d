"""What is shown of callbacks that were given up, until they are acknowledged (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import islice

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.object_meta import rfc3339
from stellwerk.operators.cap import names
from stellwerk.operators.cap.reasons import ApplicationReason
from stellwerk.operators.cap.subscription.callbacks import promise
from stellwerk.operators.cap.subscription.callbacks.promise import PromiseSecret
from stellwerk.runtime import conditions

CALM = ApplicationReason.CallbacksDelivered, "each registry knows the results of its subscriptions"
"""Reason and message once nothing is given up."""
_NEVER = datetime.min.replace(tzinfo=UTC)
_MOST_SHOWN = 2
_LONGEST = 250
"""Of one result, because the message ends with the command."""


def finding(application: ObjectKey, given_up: Sequence[PromiseSecret]) -> tuple[str, str] | None:
    """The reason and the message of the condition of an application; None if nothing is given up."""
    if not given_up:
        return None
    newest = sorted(given_up, key=_age, reverse=True)[:_MOST_SHOWN]
    shown = "; ".join(map(_described, newest))
    rest = len(given_up) - len(newest)
    return ApplicationReason.CallbackGivenUp, (
        f"the registry does not know {_counted(len(given_up))}: {shown}{f'; and {rest} more' if rest else ''}"
        f"; next: repeat the subscription or its end in the SAP BTP cockpit, or state that this is known: "
        f"{acknowledgement(application)}"
    )


def acknowledgement(application: ObjectKey) -> str:
    """The command that acknowledges all results of an application that were given up."""
    chosen = f"{names.CALLBACK_LABEL}={promise.FAILED},{names.OWNER_HASH_LABEL}={names.owner_hash(application)}"
    known = f"{names.CALLBACK_LABEL}={promise.ACKNOWLEDGED}"
    return f"kubectl label secrets -n {application.namespace} -l {chosen} {known} --overwrite"


def is_outnumbered(secret: PromiseSecret, given_up: Iterable[PromiseSecret]) -> bool:
    """Whether so many of the same application are newer that this one does not stay."""
    own = _age(secret)
    newer = (each for each in given_up if _age(each) > own)
    return len([*islice(newer, promise.MOST_GIVEN_UP)]) == promise.MOST_GIVEN_UP


def _age(secret: PromiseSecret) -> tuple[datetime, str]:
    return secret.metadata.creation_timestamp or _NEVER, secret.metadata.name


def _counted(number: int) -> str:
    return "the result of a subscription" if number == 1 else f"{number} results of subscriptions"


def _described(secret: PromiseSecret) -> str:
    """One result. Any user of the namespace may write such a Secret, so its text begins no further part."""
    found = promise.read(secret)
    result = "success" if promise.has_succeeded(found) else "failure"
    since = f" at {rfc3339(found.ended)}" if found.ended is not None else ""
    text = f"{found.operation} of tenant id {found.tenant_id} ({result}), last tried{since}: {found.problem}"
    clean = "".join(each for each in text.replace(";", ",") if each.isprintable())
    return conditions.truncated(clean, _LONGEST)
