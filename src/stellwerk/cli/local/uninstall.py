"""`stellwerk uninstall`: the end of what `stellwerk install` has applied.

Webhooks go first: while they are registered and no process answers, API servers refuse what they judge. The kinds stay,
and with them the objects of users; so do namespaces, which may hold more than the operator.
"""

from __future__ import annotations

from collections.abc import Sequence

from stellwerk import assembly
from stellwerk.cli import kinds
from stellwerk.cli.objects import installations
from stellwerk.cli.objects.cluster import ClusterSession, with_cluster
from stellwerk.cli.shell import confirm, settings
from stellwerk.cli.shell.errors import Failure
from stellwerk.delivery.operator_spec import OperatorSpec
from stellwerk.kube.types.model import Unstructured


@with_cluster
async def uninstall(cluster: ClusterSession, operators: tuple[str, ...], yes: bool, dry_run: bool) -> None:
    """Delete what was applied for operators; for all of them if none is named. Raises Failure if that is nothing."""
    specs = [assembly.OPERATORS[name] for name in operators or assembly.OPERATORS]
    names = ", ".join(each.name for each in specs)
    found = await installations.installed(cluster, specs)
    if not found:
        raise _nothing(specs, names, await installations.deployments(cluster))
    if not dry_run:
        await _warn(cluster, specs)
        confirm.removal(f"{len(found)} objects of {names}", yes=yes)
    await installations.remove(cluster, found, dry_run=dry_run)


async def _warn(cluster: ClusterSession, operators: Sequence[OperatorSpec]) -> None:
    """State which objects will have nothing that removes their finalizers."""
    names = {each.name for each in operators}
    for row in kinds.OWN:
        if row.operator.name in names:
            left = await cluster.list(row.resource)
            if left:
                settings.say(f"{len(left)} {row.resource.plural} stay: without an operator they cannot be deleted.")


def _nothing(operators: Sequence[OperatorSpec], names: str, deployments: Sequence[Unstructured]) -> Failure:
    ours = [each for operator in operators for each in installations.running(operator, deployments)]
    released = next((each for each in ours if each.release), None)
    fix = f"helm uninstall {released.release} -n {released.body.key.namespace}" if released else "stellwerk check"
    return Failure(f"stellwerk install has not installed {names} in this cluster", fix=fix)
