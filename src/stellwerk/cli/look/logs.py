"""`stellwerk logs`: what the operators logged, all of it or about one object.

The operators of the local system write files; those of a cluster are the pods of the Deployments that `stellwerk check`
finds, whatever labels the values of a chart give them. A user may be allowed to read pods and their logs alone: then
those of our operators are found by their command. Both forms of lines are read, JSON and the one for terminals,
and printed in one form: those of all processes together in the order of their times, each with the name of its process.
"""

from __future__ import annotations

import asyncio
import heapq
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from stellwerk import assembly
from stellwerk.api.core import Pod
from stellwerk.cli.arguments.object_argument import ObjectArgument
from stellwerk.cli.objects import installations, served_addresses
from stellwerk.cli.objects.cluster import ClusterSession, with_cluster
from stellwerk.cli.shell import settings
from stellwerk.cli.shell.errors import Failure
from stellwerk.cli.shell.output import print_value
from stellwerk.cli.shell.text import escaped
from stellwerk.delivery import deployed_process, workloads
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import BadRequest, Forbidden, NotFound, ServerFault, TooManyRequests
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, Unstructured
from stellwerk.local.cluster import at_address

LEVELS = ("debug", "info", "warning", "error")
_PAUSE_SECONDS = 1.0
_METRICS_PORT, _METRICS_SECONDS = 8080, 5.0
"""The port of a pod by default, and for how long it is asked."""
_MOST_BYTES = 16 << 20
_MOST_LINES = 100_000
"""Of one file and of one pod; what is older is left out."""
_LABELLED = "app.kubernetes.io/name,app.kubernetes.io/instance"
"""The labels that the chart gives to every pod; values change their texts."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a log. `kind`, `namespace` and `name` are the object that it is about; empty where it has none."""

    time: str
    level: str
    message: str
    kind: str = ""
    namespace: str = ""
    name: str = ""
    more: str = ""
    """Further details, and the lines of a stack."""
    source: str = ""
    """The process, or the pod, that wrote it."""

    def __str__(self) -> str:
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        about = f"{self.kind} {place}: " if self.name else ""
        return f"{self.time} {self.level.upper():<7} [{self.source}] {about}{self.message}{self.more}"


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Which lines are printed."""

    level: str = "info"
    kind: str = ""
    namespace: str = ""
    name: str = ""

    def takes(self, line: LogLine) -> bool:
        """Whether the line is printed."""
        level = "warning" if line.level == "warn" else line.level
        return (
            (level not in LEVELS or LEVELS.index(level) >= LEVELS.index(self.level))
            and self.kind in ("", line.kind)
            and self.namespace in ("", line.namespace)
            and self.name in ("", line.name)
        )


@with_cluster
async def logs(
    cluster: ClusterSession, subject: ObjectArgument | None, level: str, tail: int | None, follow: bool
) -> None:
    """Print the log lines of the operators; with `follow`, new ones until interrupted."""
    wanted, output = await _wanted(cluster, subject, level), cluster.settings.output
    found = await sources(cluster)
    written = await _new(found, wanted)
    _print(merged(lines if tail is None else lines[len(lines) - min(tail, len(lines)) :] for lines in written), output)
    if not any(written) and not follow:
        settings.say("No line is about that; the log of an operator begins with its start.")
    while follow:
        await asyncio.sleep(_PAUSE_SECONDS)
        _print(merged(await _new(found, wanted)), output)


async def _new(sources: Sequence[File | LoggedPod], wanted: LogFilter) -> list[list[LogLine]]:
    """What each has written since the last call. Raises Forbidden where the user may read the log of none."""
    found = [
        [line for line in parsed((await source.new()).splitlines(), source.name) if wanted.takes(line)]
        for source in sources
    ]
    _require_one(sources)
    return found


def merged(logs: Iterable[Sequence[LogLine]]) -> Iterator[LogLine]:
    """The lines of several logs by their times; those of one log stay in their order. Pure."""
    return heapq.merge(*logs, key=lambda line: line.time)


def _require_one(sources: Sequence[File | LoggedPod]) -> None:
    """Raise Forbidden where the user may read the log of none."""
    refusals = [source.forbidden for source in sources if isinstance(source, LoggedPod)]
    if refusals and refusals[0] is not None and None not in refusals:
        raise refusals[0]


async def _wanted(cluster: ClusterSession, subject: ObjectArgument | None, level: str) -> LogFilter:
    if subject is None:
        return LogFilter(level, namespace=cluster.settings.namespace or "")
    resource = await cluster.resource(subject.kind)
    key = resource.key(subject.key.namespace or cluster.namespace, subject.key.name)
    return LogFilter(level, resource.kind, key.namespace, key.name)


def _print(lines: Iterable[LogLine], output: settings.Output) -> None:
    if output.is_table:
        settings.show(escaped(part) for line in lines for part in str(line).splitlines())
        return

    for line in lines:
        print_value(_as_json(line), output)


def _as_json(line: LogLine) -> JsonObject:
    about: JsonObject = {"kind": line.kind, "namespace": line.namespace, "name": line.name}
    fields: JsonObject = {"time": line.time, "level": line.level, "source": line.source, "message": line.message}
    return {**fields, **about, "more": line.more.strip()}


# ---- reading lines

_CONSOLE = re.compile(
    r"(?P<time>\d\d:\d\d:\d\d\.\d{3}) (?P<level>[A-Z]+) +"
    r"(?:(?P<kind>[A-Z]\w*) (?:(?P<namespace>[a-z0-9-]+)/)?(?P<name>[a-z0-9.-]+): )?(?P<message>.*)"
)
_KNOWN = ("ts", "level", "logger", "msg", "kind", "namespace", "name", "reconcileID", "stack")


def parsed(lines: Iterable[str], source: str = "") -> Iterator[LogLine]:
    """The lines of the log of a process; what has no form of its own belongs to the line before."""
    pending: LogLine | None = None
    for text in lines:
        line = _of_json(text) or _of_console(text)
        if line is None and pending is not None:
            pending = replace(pending, more=f"{pending.more}\n{text}")
            continue
        if pending is not None:
            yield pending
        pending = replace(line or LogLine("", "", text), source=source)
    if pending is not None:
        yield pending


def _of_json(text: str) -> LogLine | None:
    if not text.startswith("{"):
        return None
    try:
        found = msgspec.json.decode(text, type=dict[str, object])
    except (msgspec.MsgspecError, RecursionError):
        return None
    words = {name: str(found.get(name) or "") for name in _KNOWN}
    details = "".join(f" {name}={value}" for name, value in found.items() if name not in _KNOWN)
    stack = f"\n{words['stack']}" if words["stack"] else ""
    about = (words["kind"], words["namespace"], words["name"])
    return LogLine(_moment(words["ts"]), words["level"], words["msg"], *about, more=details + stack)


def _moment(written: str) -> str:
    """Seconds since 1970, as operators write them to be read by programs, as a moment in UTC; others as they are."""
    try:
        moment = datetime.fromtimestamp(float(written), UTC)
    except (ValueError, OverflowError, OSError):
        return written
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def _of_console(text: str) -> LogLine | None:
    match = _CONSOLE.fullmatch(text)
    if match is None:
        return None
    words = {name: value or "" for name, value in match.groupdict().items()}
    return LogLine(**{**words, "level": words["level"].lower()})


# ---- where they are


async def sources(cluster: ClusterSession) -> Sequence[File | LoggedPod]:
    """The logs of the operators; `new` returns the whole lines that were written since the last call."""
    files = [File(path) for path in _local_files(cluster.client.config.server)]
    found = files or await _pods(cluster)
    if not found:
        raise Failure(
            "no log of an operator was found",
            cause="you see no pod that runs one in this cluster, and it is no local system",
            fix="see whether the operators run: stellwerk check",
        )
    return found


def _local_files(server: str) -> list[Path]:
    """The log files of the operators of a local system, also of ended ones, where `server` is its API server."""
    if (system := at_address(server)) is None:
        return []
    ours = {served_addresses.process_name(program) for program in assembly.PROCESSES}
    return [
        component.log
        for component in system.status().components
        if component.name in ours or served_addresses.served(component.arguments) is not None
    ]


@dataclass(frozen=True, slots=True)
class LoggedDeployment:
    """Where the pods of an operator are, and which of their containers is the operator: others may be injected."""

    namespace: str
    labels: str
    container: str


def logged(deployments: Sequence[Unstructured]) -> list[LoggedDeployment]:
    """The Deployments among these that run a process of an operator, ours or that of the original. Pure."""
    found = [
        each.body
        for spec in assembly.OPERATORS.values()
        for some in installations.by_process(spec, deployments).values()
        for each in some
    ]
    return sorted(
        {
            LoggedDeployment(body.key.namespace, labels, _container(body))
            for body in found
            if (labels := workloads.selector(body))  # without any, it would be all pods of the namespace
        },
        key=lambda each: (each.namespace, each.labels),
    )


def _container(deployment: Unstructured) -> str:
    """The container of the operator: the one with our program, else the default of the pod, `manager`, or the first."""
    processes = [*deployed_process.of_deployment(deployment)]
    names = [each.container for each in processes]
    default = deployment.at("spec", "template", "metadata", "annotations", "kubectl.kubernetes.io/default-container")
    preferred = [*(each.container for each in processes if each.runs()), default, "manager", *names]
    return next((str(name) for name in preferred if name in names), "")


async def _pods(cluster: ClusterSession) -> list[LoggedPod]:
    """Raises Forbidden where the user may list no pods."""
    deployments = logged(await installations.deployments(cluster))
    pods = {
        pod.key: LoggedPod(cluster.client, pod.key, each.container)
        for each in deployments
        for pod in await cluster.list(Pod.resource, each.namespace, labels=each.labels)
    }
    if not pods:
        pods = {
            pod.key: LoggedPod(cluster.client, pod.key, process.container)
            for pod in await installations.in_sight(cluster, Pod.resource, labels=_LABELLED)
            for process in deployed_process.of_pod(pod)
            if process.runs()
        }
    return [pod for _, pod in sorted(pods.items())]


@dataclass
class File:
    """A file that a process of this machine appends to."""

    path: Path
    _read: int | None = None

    @property
    def name(self) -> str:
        """The process."""
        return self.path.stem

    async def new(self) -> str:
        """What was appended. A file that was begun again is read from its start."""
        size = self.path.stat().st_size
        start = max(0, size - _MOST_BYTES) if self._read is None or self._read > size else self._read
        with self.path.open("rb") as log:
            log.seek(start)
            data = log.read(size - start)
        whole = data[: data.rfind(b"\n") + 1]
        self._read = start + len(whole)
        return whole.decode(errors="replace")


@dataclass
class LoggedPod:
    """A pod of a cluster, asked again and again from the time of its last line on."""

    client: Client
    key: ObjectKey
    container: str = ""
    """Without a name, a pod with several containers has no log."""
    forbidden: Forbidden | None = None
    """The answer to the last call, where the user may not read the log."""
    _last: str = ""
    _refused: str = ""

    @property
    def name(self) -> str:
        """The pod."""
        return self.key.name

    async def metrics(self) -> str:
        """What it measures, through the API server. Raises ApiError."""
        path = f"/api/v1/namespaces/{self.key.namespace}/pods/{self.key.name}:{_METRICS_PORT}/proxy/metrics"
        async with asyncio.timeout(_METRICS_SECONDS):
            return (await self.client.raw("GET", path, accept="*/*")).decode(errors="replace")

    async def new(self) -> str:
        """What it wrote since the last call. Where this pod's log cannot be read, a message reports it once."""
        self.forbidden = None
        path = f"/api/v1/namespaces/{self.key.namespace}/pods/{self.key.name}/log"
        params = {"timestamps": "true", "tailLines": str(_MOST_LINES)}
        params |= {"container": self.container} if self.container else {}
        params |= {"sinceTime": self._last} if self._last else {}
        try:
            answer = await self.client.raw("GET", path, params=params, accept="*/*")
        except NotFound:  # the pod is gone, and so is its log
            return ""
        except (BadRequest, Forbidden, ServerFault, TooManyRequests) as error:
            # Its container has not started, or its node does not answer, or rights end at namespaces: others have logs.
            self.forbidden = error if isinstance(error, Forbidden) else None
            if (refused := str(error)) != self._refused:
                settings.say(f"Left out, Pod {self.key}: {escaped(refused)}")
            self._refused = refused
            return ""
        self._refused = ""
        stamped = [line.partition(" ") for line in answer.decode(errors="replace").splitlines()]
        fresh = [(stamp, text) for stamp, _, text in stamped if stamp > self._last]
        self._last = fresh[-1][0] if fresh else self._last
        return "".join(f"{text}\n" for _, text in fresh)
