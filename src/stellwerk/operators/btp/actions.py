"""What a person may ask of a BtpOperator, as a patch, and how the operator shows that it has looked.

There is no suspension: the kind has no field for it, and a module without its manager would run on with certificates
that nobody renews.
"""

from __future__ import annotations

import msgspec

from stellwerk.kube.client.client import Client
from stellwerk.kube.types.model import JsonObject, Unstructured
from stellwerk.operators import requests
from stellwerk.operators.btp import why
from stellwerk.operators.btp.api import FORCE_DELETE_LABEL, BtpOperator, BtpOperatorStatus
from stellwerk.operators.requests import request as request
from stellwerk.operators.requests import was_handled as was_handled


def answered(operator: BtpOperator, status: BtpOperatorStatus | None) -> BtpOperatorStatus | None:
    """What a pass answers, with the request that it was. None stays None where there is nothing to say."""
    asked = requests.asked(operator.metadata)
    shown = status or operator.status
    if shown is None or shown.last_handled_reconcile_at == asked:
        return status
    return msgspec.structs.replace(shown, last_handled_reconcile_at=asked)


UNSTICK_CONSEQUENCE = (
    "all service instances and bindings of the cluster are deleted, with the data that lies in the services; where "
    "that takes too long they are only forgotten here"
)


def unstuck(operator: Unstructured) -> JsonObject:
    """Lets a deletion go on that waits for the users' instances and bindings."""
    return {"metadata": {"labels": {FORCE_DELETE_LABEL: "true"}}}


async def unstick_obstacle(client: Client, operator: Unstructured) -> tuple[str, str] | None:
    """Why force has no effect on this BtpOperator, and what helps instead; None where it has one. Raises ApiError.

    The label counts only in the module's own namespace: in any other one, tenants may edit a BtpOperator.
    """
    home = await why.module_namespace(client)
    if operator.metadata.namespace == home:
        return None
    return f"the label {FORCE_DELETE_LABEL} counts only on a BtpOperator in the namespace {home}", why.WITHOUT_FORCE
