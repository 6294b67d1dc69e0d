"""`stellwerk bundle`: an archive for those who help, without secrets.

It holds what the other verbs show: `check`, `why`, Events, logs, metrics, versions, and the custom resources. What may
be a secret is masked by its place: values, variables and patches may hold passwords under any name. No Secret is read.
A part that cannot be read is named in `summary.txt`, and the others are there all the same.
"""

from __future__ import annotations

import io
import os
import re
import tarfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from stellwerk.api.events import Event
from stellwerk.cli import kinds
from stellwerk.cli.look import check, events, logs, stats
from stellwerk.cli.objects import check_rules, findings, health, installations, object_summary
from stellwerk.cli.objects.cluster import ClusterSession, with_cluster
from stellwerk.cli.objects.operator_liveness import OperatorProcesses
from stellwerk.cli.shell import output, settings
from stellwerk.cli.shell.errors import Failure
from stellwerk.cli.shell.own_version import own_version
from stellwerk.cli.shell.text import Style
from stellwerk.kube.concurrency import together
from stellwerk.kube.masking import MASK
from stellwerk.kube.types.errors import ApiError, NotFound, NotServed
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, JsonValue, Unstructured, unstructured
from stellwerk.runtime.telemetry.logs import redacted

_PLAIN = Style(symbols=True)
_MOST_EXPLAINED = 50
_AT_ONCE = 4
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_HIDDEN = frozenset(
    {"values", "substitute", "data", "stringData", "binaryData", "patch", "patches", "subscriptionCallbackData"}
)
"""Fields below which any text may be a secret."""
_NAMED = re.compile(
    r"(?i)(password|passwd|passphrase|token|client_?secret|credentials?|api_?key|private_?key|kubeconfig)$"
)
"""Ends the name of a field whose text is a secret."""

Part = Callable[[ClusterSession], AsyncIterator[tuple[str, str]]]
"""A part of the archive: its files, by name."""


@with_cluster
async def bundle(cluster: ClusterSession, file: Path | None, tail: int) -> None:
    """Write the archive, and print its name. Raises Failure where the file exists or cannot be written."""
    now = datetime.now(UTC)
    target = file or Path(f"stellwerk-bundle-{now:%Y%m%d-%H%M%S}.tar.gz")
    parts: dict[str, Part] = {
        "versions": _versions,
        "check": _check,
        "objects": _objects,
        "installation": _installation,
        "events": _events,
        "logs": lambda session: _logs(session, tail),
        "metrics": _metrics,
    }
    files, left_out = dict[str, str](), list[str]()
    for name, part in parts.items():
        try:
            async for path, text in part(cluster):
                files[path] = text
        except (ApiError, Failure, OSError) as error:
            left_out.append(f"{name}: {redacted(str(error))}")
    lines = [f"stellwerk {own_version()}, {now.isoformat(timespec='seconds')}", "", *sorted(files)]
    files["summary.txt"] = "\n".join([*lines, "", "Left out:", *(left_out or ["nothing"]), ""])
    _write(target, packed(files, now))
    found: JsonObject = {"file": str(target), "files": [*sorted(files)], "leftOut": [*left_out]}
    output.print_result(lambda _: [str(target)], lambda: found)
    for each in left_out:
        settings.say(f"Left out, {each}")
    settings.say("Values, variables and tokens are masked. Look through it before you give it to others: tar -tzf FILE")


def packed(files: dict[str, str], now: datetime) -> bytes:
    """The archive. Pure."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, text in sorted(files.items()):
            content = text.encode(errors="replace")
            entry = tarfile.TarInfo(f"stellwerk-bundle/{name}")
            entry.size, entry.mtime, entry.mode = len(content), int(now.timestamp()), 0o600
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _write(target: Path, content: bytes) -> None:
    try:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise Failure(f"{target} exists", fix="name another file: stellwerk bundle --file FILE") from None
    with os.fdopen(descriptor, "wb") as archive:
        archive.write(content)


# ---- redaction


def without_secrets(value: JsonValue, *, hides: bool = False, key: str = "") -> JsonValue:
    """The value with what may be a secret masked, by its place and by its form. Pure.

    `hides`: each value below is masked; the keys stay, because they explain errors.
    """
    if isinstance(value, dict):
        is_variable = "name" in value and "value" in value
        return {
            name: without_secrets(inner, hides=hides or name in _HIDDEN or (is_variable and name == "value"), key=name)
            for name, inner in value.items()
            if name not in ("managedFields", _LAST_APPLIED)
        }
    if isinstance(value, list):
        return [without_secrets(inner, hides=hides, key=key) for inner in value]
    is_plain = value is None or isinstance(value, bool)
    if not is_plain and (hides or _NAMED.search(key)):
        return MASK
    return redacted(value) if isinstance(value, str) else value


def _masked_lines(text: str) -> str:
    return "".join(f"{redacted(line)}\n" for line in text.splitlines())


def _as_yaml(objects: Sequence[Unstructured]) -> str:
    bodies = (without_secrets(dict(obj.body)) for obj in objects)
    return "".join(f"---\n{output.as_yaml(body)}" for body in bodies if isinstance(body, dict))


# ---- parts


async def _seen(cluster: ClusterSession, resource: Resource) -> list[Unstructured]:
    """Those of the namespace that the user names, else of all, else of the namespace of the context."""
    try:
        if cluster.settings.namespace and resource.namespaced:
            view = unstructured(resource)
            return (await cluster.client.list(view, cluster.settings.namespace, skip_unreadable=True)).items
        return await installations.in_sight(cluster, resource)
    except (NotFound, NotServed):
        return []


async def _versions(cluster: ClusterSession) -> AsyncIterator[tuple[str, str]]:
    versions = await cluster.client.document("/version")
    yield "versions.json", output.as_json({"stellwerk": own_version(), "kubernetes": versions})


async def _check(cluster: ClusterSession) -> AsyncIterator[tuple[str, str]]:
    found = await check.findings(cluster, (), pre=False, no_objects=False, no_rights=False)
    yield "check.txt", _masked_lines("\n".join(check_rules.shown(found, _PLAIN)))


async def _objects(cluster: ClusterSession) -> AsyncIterator[tuple[str, str]]:
    unready = list[Unstructured]()
    for row in kinds.OWN:
        if objects := sorted(await _seen(cluster, row.resource), key=lambda obj: obj.key):
            unready += [obj for obj in objects if health.of(obj).needs_attention]
            yield f"objects/{row.resource.group_resource}.yaml", _as_yaml(objects)
    processes = OperatorProcesses(cluster)
    explain: Callable[[Unstructured], Awaitable[object_summary.ObjectSummary]]
    explain = lambda obj: object_summary.reached(cluster, obj, processes)  # noqa: E731
    summaries = await together(unready[:_MOST_EXPLAINED], explain, _AT_ONCE)
    texts = ("\n".join(findings.told(each, _PLAIN)) for each in summaries)
    yield "why.txt", _masked_lines("\n\n".join(texts) or "no object needs attention")


async def _installation(cluster: ClusterSession) -> AsyncIterator[tuple[str, str]]:
    deployments = await installations.deployments(cluster)
    specs = {row.operator.name: row.operator for row in kinds.OWN}.values()
    found = {each.body.key: each.body for spec in specs for each in installations.running(spec, deployments)}
    if found:
        yield "installation/deployments.yaml", _as_yaml([*found.values()])


async def _events(cluster: ClusterSession) -> AsyncIterator[tuple[str, str]]:
    found = [events.happening(event) for event in await _seen(cluster, Event.resource)]
    found.sort(key=lambda happened: happened.last)
    yield "events.txt", _masked_lines("\n".join(events.table(found)))


async def _logs(cluster: ClusterSession, tail: int) -> AsyncIterator[tuple[str, str]]:
    for source in await logs.sources(cluster):
        lines = (await source.new()).splitlines()
        yield f"logs/{source.name}.log", _masked_lines("\n".join(lines[-tail:] if tail else []))


async def _metrics(cluster: ClusterSession) -> AsyncIterator[tuple[str, str]]:
    async for process, text in stats.metrics_of_processes(cluster):
        yield f"metrics/{process}.txt", text
