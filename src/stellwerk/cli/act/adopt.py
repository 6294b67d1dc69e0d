"""`stellwerk adopt`: take over what the original of an operator looks after.

Ours works on the same objects, so a take-over is the end of one program and the start of another. The verb shows with
the code of our operator what that would change, object by object, and stops the original. It refuses to if an object
would be deleted or created again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from stellwerk import assembly
from stellwerk.cli import kinds
from stellwerk.cli.local import obstacles
from stellwerk.cli.objects import installations, previews, wait_for
from stellwerk.cli.objects.check_rules import OperatorDeployment
from stellwerk.cli.objects.cluster import ClusterSession, with_cluster
from stellwerk.cli.objects.wait_for import WaitLimit
from stellwerk.cli.releases import dry_run as dry_runs
from stellwerk.cli.releases.dry_run import DiffLine
from stellwerk.cli.shell import confirm, settings
from stellwerk.cli.shell.errors import Exit, Failure
from stellwerk.cli.shell.text import Style, escaped
from stellwerk.delivery.insight import PreviewFailed
from stellwerk.delivery.operator_spec import OperatorSpec
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.errors import NotFound, NotServed
from stellwerk.kube.types.model import Unstructured, unstructured

_MOST = 50
"""How many objects of a kind are compared in one call; each takes a dry run for each of its own objects."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the next pass of our operator would change for one object."""

    obj: Unstructured
    lines: tuple[DiffLine, ...] = ()
    unchanged: int = 0
    remark: str = ""
    """Why it was not compared."""

    @property
    def loses(self) -> bool:
        """Whether objects would be deleted or created again."""
        return any(line.mark == "-" or "created again" in line.note for line in self.lines)


def adopt(operator: str, dry_run: bool, yes: bool, timeout: float) -> int:
    """Show what would change, and stop the original unless in a dry run. Returns the exit code. Raises Failure."""
    return _adopt(assembly.OPERATORS[operator], dry_run, yes, timeout)


@with_cluster
async def _adopt(cluster: ClusterSession, operator: OperatorSpec, dry_run: bool, yes: bool, timeout: float) -> int:
    found = [
        each
        for some in installations.by_process(operator, await installations.deployments(cluster)).values()
        for each in some
        if each.is_original
    ]
    if not found:
        raise Failure(
            f"no Deployment of the original of the {operator.title} was found",
            cause="none of those that you may list has its name, or each runs this program",
            fix=f"see what runs: stellwerk check {operator.name}",
        )
    compared = await _compared(cluster, operator)
    settings.show(shown(compared, settings.current().style()))
    active = [each for each in found if each.replicas]
    if dry_run:
        settings.show([f"{each.body.ref} would be stopped (dry run)" for each in active])
        return Exit.DIFFERENT if any(each.lines for each in compared) else Exit.DONE
    refuse_losses(compared)
    if active:
        confirm.removal(f"the pods of {', '.join(str(each.body.ref) for each in active)}", yes=yes)
    patience = WaitLimit(timeout)
    for each in active:
        await _stop(cluster, each, patience)
    settings.show([f"{each.body.ref} is stopped" for each in found])
    for line in next_steps(operator, found):
        settings.say(line)
    return Exit.DONE


async def _compared(cluster: ClusterSession, operator: OperatorSpec) -> list[Comparison]:
    """All objects of the operator's kinds, each with what would change. Raises ApiError."""
    found: list[Comparison] = []
    async with previews.requested(cluster) as request:
        for row in (row for row in kinds.OWN if row.operator.name == operator.name):
            previewer = row.insight().previewer
            try:
                objects = sorted(await installations.in_sight(cluster, row.resource), key=lambda obj: obj.key)
            except (NotFound, NotServed):
                continue
            if previewer is None:
                continue
            for obj in objects[:_MOST]:
                try:
                    preview = await previewer().preview(msgspec.convert(obj.body, previewer().kind), request)
                except (PreviewFailed, msgspec.ValidationError) as error:
                    found.append(Comparison(obj, remark=str(error)))
                    continue
                changed, unchanged = await dry_runs.of_preview(cluster.client, preview)
                found.append(Comparison(obj, tuple(changed.lines), unchanged))
            if (more := len(objects) - _MOST) > 0:
                found.append(
                    Comparison(objects[_MOST], remark=f"and so are {more - 1} more: stellwerk diff shows each")
                )
    return found


async def _stop(cluster: ClusterSession, deployment: OperatorDeployment, patience: WaitLimit) -> None:
    """Scale the Deployment to nothing, and return when none of its pods is left. Raises Failure, ApiError."""
    body, resource = deployment.body, installations.DEPLOYMENTS
    patch = MergePatch({"metadata": {"uid": body.metadata.uid}, "spec": {"replicas": 0}})
    latest = await cluster.client.patch(unstructured(resource), body.key.name, body.key.namespace, patch)
    await wait_for.until(
        cluster,
        resource,
        latest,
        lambda seen: seen is None or not seen.at("status", "replicas"),
        wanted="stopped",
        patience=patience,
        was_noticed=lambda _: True,
    )


# ---- pure


def shown(compared: Sequence[Comparison], style: Style) -> list[str]:
    """The lines for people: each object, and below it what would change."""
    lines: list[str] = []
    for each in compared:
        if each.remark:
            lines.append(f"{escaped(str(each.obj.ref))}: not compared, {escaped(each.remark)}")
        elif each.lines:
            lines.append(f"{escaped(str(each.obj.ref))}:")
            lines += [f"  {line}" for line in dry_runs.shown(each.lines, each.unchanged, style)[:-1]]
        else:
            lines.append(f"{escaped(str(each.obj.ref))}: nothing differs, {each.unchanged} unchanged")
    return lines


def refuse_losses(compared: Sequence[Comparison]) -> None:
    """Raise Failure if objects would be deleted or created again."""
    losing = [each.obj for each in compared if each.loses]
    if losing:
        key, kind = losing[0].key, losing[0].gvk.kind.lower()
        raise Failure(
            "the original is not stopped: a take-over would delete objects or create them again",
            cause=f"see the lines of {', '.join(str(obj.ref) for obj in losing)}",
            fix=f"look at each of them: stellwerk diff {kind}/{key.name} -n {key.namespace}; if that is wanted, stop "
            "the original with kubectl scale",
        )


def next_steps(operator: OperatorSpec, found: Sequence[OperatorDeployment]) -> list[str]:
    """How ours is started, and how to go back."""
    back = [
        f"kubectl scale deployment {each.body.key.name} -n {each.body.key.namespace} --replicas={each.replicas or 1}"
        for each in found
    ]
    return [
        f"Next: stellwerk install {operator.name} --image IMAGE (it names what is in its way)",
        f"Then: stellwerk check {operator.name}; the whole way: {obstacles.migration_page(operator)}",
        *(f"Back: {command}" for command in back),
    ]
