"""What a user may request of a BtpOperator, as a patch.

There is no suspension: the kind has no field for it, and a module without its manager would run on with certificates
that nobody renews.
"""

from __future__ import annotations

from stellwerk.delivery.reconcile_request import request as request
from stellwerk.delivery.reconcile_request import was_handled as was_handled
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.model import JsonObject, Unstructured
from stellwerk.operators.btp.api import FORCE_DELETE_LABEL
from stellwerk.operators.btp.insight import why

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
