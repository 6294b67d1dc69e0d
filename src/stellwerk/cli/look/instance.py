"""`stellwerk instance`: what users of SAP BTP have in the cluster, and what keeps a BtpOperator from being deleted."""

from __future__ import annotations

from stellwerk.api.btp import ServiceBinding, ServiceInstance
from stellwerk.cli.look import object_list
from stellwerk.cli.look.object_list import ObjectQuery
from stellwerk.cli.objects.cluster import ClusterSession, with_cluster
from stellwerk.cli.shell import settings
from stellwerk.cli.shell.errors import Failure


@with_cluster
async def list_instances(cluster: ClusterSession, not_ready: bool) -> None:
    """Print service instances and service bindings. Raises Failure where the cluster does not know the kinds."""
    if ServiceInstance.resource not in await cluster.client.mapper.all():
        raise Failure(
            "there are no service instances: the cluster does not know the kind",
            cause="the SAP BTP service operator is not installed",
            fix="create a BtpOperator, or see why it is not ready: stellwerk get btp -A",
        )
    query = ObjectQuery(("serviceinstances",), not_ready=not_ready)
    wanted = [ServiceInstance.resource, ServiceBinding.resource]
    everything = await object_list.read(cluster, wanted)
    found = object_list.selected(everything, query)
    object_list.print_found(found, cluster, as_list=True)
    if not found:
        settings.say(_nothing(cluster.namespace, looked_at=len(everything)))


def _nothing(namespace: str, *, looked_at: int) -> str:
    place = f"in namespace {namespace}" if namespace else "in the cluster"
    if looked_at:
        return f"Nothing needs attention {place}: {looked_at} looked at."
    again = "\nNext: stellwerk instance list -A" if namespace else ""
    return f"There are no service instances and no service bindings {place}.{again}"
