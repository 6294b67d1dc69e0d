"""`stellwerk why`: from what is not ready down to the root cause, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from stellwerk.cli.arguments.object_argument import ObjectArgument
from stellwerk.cli.look import object_list
from stellwerk.cli.look.object_list import ObjectQuery
from stellwerk.cli.objects import findings, object_summary
from stellwerk.cli.objects.cluster import ClusterSession, with_cluster
from stellwerk.cli.objects.object_summary import ObjectSummary
from stellwerk.cli.objects.operator_liveness import OperatorProcesses
from stellwerk.cli.shell import settings
from stellwerk.cli.shell.output import print_result, print_values
from stellwerk.kube.concurrency import together
from stellwerk.lazy_imports import lazy_imports
from stellwerk.runtime.insight.diagnosis import Finding

with lazy_imports(__name__):  # no object needs it
    from stellwerk.cli.releases import releasing

_EVERYTHING = ObjectQuery(not_ready=True)
_MOST = 50
"""How many objects are explained in one call."""
_AT_ONCE = 4
"""How many of them at the same time; each takes several requests."""
_OBJECT = re.compile(r"[A-Z]\w+ [\w.-]+(?:/[\w.-]+)?")
"""An object in a sentence: `CAPTenant shop/acme`."""


@with_cluster
async def why(cluster: ClusterSession, subject: ObjectArgument | str | None) -> None:
    """Print the diagnosis of an object, of the release with this name, or of all objects that need attention."""
    if subject is None:
        await _explain_all(cluster)
        return
    if isinstance(subject, str):
        seen = await releasing.judged(cluster, await releasing.found(cluster, subject, "explain"))
    else:
        seen = await object_summary.reached(cluster, await cluster.object(subject, shows_unread=True))
    print_result(lambda style: findings.told(seen, style), lambda: findings.as_json(seen))


async def _explain_all(cluster: ClusterSession) -> None:
    resources = await object_list.resources(cluster, _EVERYTHING)
    everything = await object_list.read(cluster, resources)
    objects = object_list.selected(everything, _EVERYTHING)
    processes = OperatorProcesses(cluster)
    summaries = await together(objects[:_MOST], lambda obj: object_summary.reached(cluster, obj, processes), _AT_ONCE)
    if cluster.settings.output.is_table:
        for position, summary in enumerate(without_causes(summaries)):
            settings.show([*([""] if position else []), *findings.told(summary, cluster.settings.style())])
    else:
        print_values([findings.as_json(each) for each in summaries], cluster.settings.output)
    if not objects:
        settings.say(object_list.nothing_found(cluster, _EVERYTHING, resources, looked_at=len(everything)))
    elif len(objects) > _MOST:
        settings.say(f"{len(objects) - _MOST} more need attention.\nNext: stellwerk get --not-ready -A")


def without_causes(summaries: Sequence[ObjectSummary]) -> list[ObjectSummary]:
    """The summaries without those of objects that another one, which stays, names on the way to its root cause.

    Objects that no other names stay; of objects that name each other, the first one does.
    """
    refs = [str(each.ref) for each in summaries]
    named = [_named(each.diagnosis.findings) - {ref} for each, ref in zip(summaries, refs, strict=True)]
    by_others = set[str]().union(*named)
    kept: list[int] = []
    shown: set[str] = set()
    for position in sorted(range(len(refs)), key=lambda position: refs[position] in by_others):
        if refs[position] not in shown:
            kept.append(position)
            shown |= named[position]
    return [summaries[position] for position in sorted(kept)]


def _named(findings_of_one: Sequence[Finding]) -> set[str]:
    """The objects that a tree of findings names."""
    named: set[str] = set()
    for finding in findings_of_one:
        named |= {found.rstrip(".") for found in _OBJECT.findall(finding.text)} | _named(finding.because)
    return named
