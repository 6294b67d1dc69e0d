"""`stellwerk instance`: what users of SAP BTP have in the cluster, and what keeps a BtpOperator from being deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stellwerk.cli.arguments import options
from stellwerk.cli.shell import settings

if TYPE_CHECKING:
    from stellwerk.cli.objects.cluster import ClusterSession


@click.group("instance")
@options.general
def command() -> None:
    """Look at service instances and bindings."""


@command.command("list")
@click.option("--not-ready", is_flag=True, help="Only those that are not ready, or not yet.")
@options.all_of
def list_command(not_ready: bool) -> None:
    """List service instances and service bindings with their health."""
    from stellwerk.cli.objects.cluster import carry_out

    carry_out(lambda cluster: _list(cluster, not_ready))


async def _list(cluster: ClusterSession, not_ready: bool) -> None:
    from stellwerk.api.btp import ServiceBinding, ServiceInstance
    from stellwerk.cli.shell.errors import Failure
    from stellwerk.cli.verbs import get

    if ServiceInstance.resource not in await cluster.client.mapper.all():
        raise Failure(
            "there are no service instances: the cluster does not know the kind",
            cause="the SAP BTP service operator is not installed",
            fix="create a BtpOperator, or see why it is not ready: stellwerk get btp -A",
        )
    query = get.GetQuery(("serviceinstances",), not_ready=not_ready)
    wanted = [ServiceInstance.resource, ServiceBinding.resource]
    everything = await get.read(cluster, wanted)
    found = get.selected(everything, query)
    get.print_found(found, cluster, as_list=True)
    if not found:
        settings.say(_nothing(cluster.namespace, looked_at=len(everything)))


def _nothing(namespace: str, *, looked_at: int) -> str:
    place = f"in namespace {namespace}" if namespace else "in the cluster"
    if looked_at:
        return f"Nothing needs attention {place}: {looked_at} looked at."
    again = "\nNext: stellwerk instance list -A" if namespace else ""
    return f"There are no service instances and no service bindings {place}.{again}"
