"""How a user acts on a BtpOperator.

It cannot be suspended: the kind has no field for that, and a module without its manager would keep running with
certificates that nothing renews.
"""

from __future__ import annotations

from stellwerk.delivery import reconcile_request
from stellwerk.delivery.insight import Reconcilable, Unstickable
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.model import JsonObject, Unstructured
from stellwerk.operators.btp.api import FORCE_DELETE_LABEL
from stellwerk.operators.btp.insight import why


def _forced(operator: Unstructured) -> JsonObject:
    """Continues a deletion that waits for the users' instances and bindings."""
    return {"metadata": {"labels": {FORCE_DELETE_LABEL: "true"}}}


async def _obstacle(client: Client, operator: Unstructured) -> tuple[str, str] | None:
    """The label counts in one namespace only: in any other one, tenants may edit a BtpOperator.

    Flags of the operator decide as well, and are not seen, so the cause names them.
    """
    home = await why.home_namespace(client)
    if operator.metadata.namespace == home:
        return None
    cause = (
        f"the label {FORCE_DELETE_LABEL} counts only on a BtpOperator in the namespace {home}, if the operator's flags "
        "--cr-selection and --chart-namespace, which are not known here, name no other one"
    )
    return cause, why.WITHOUT_FORCE


RECONCILE = Reconcilable(request=reconcile_request.request, was_handled=reconcile_request.was_handled)
UNSTICK = Unstickable(
    force=_forced,
    consequence=(
        "all service instances and bindings of the cluster are deleted, with the data in the services; where "
        "that takes too long they are only forgotten here"
    ),
    obstacle=_obstacle,
)
