"""The CA-bundle probe: does the token endpoint's certificate verify against the CA bundle that pods are given?

The answer is found by a Job with an image of its own, because only a pod sees what pods see. We run the Job now and
then, read what it wrote on the BtpOperator, and restart the operand when the bundle changed and is good again. A cycle
that fails changes nothing that the next one does not find: the last hash that was acted on is remembered on the CR.

Off unless PROBE_IMAGE is set and the interval is above zero. The interval is read once, when we begin to lead: by then
the ConfigMap with tunables has been read.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from stellwerk.api.batch import Job
from stellwerk.api.core import Pod
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.errors import ApiError
from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.btp import api
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.operators.btp.credentials.credentials import pods_to_restart
from stellwerk.operators.btp.settings import Settings
from stellwerk.runtime.clock import happens_within
from stellwerk.runtime.supervision.tasks import Border

JOB_NAME = "btp-manager-ca-bundle-probe"
SERVICE_ACCOUNT = "btp-manager-ca-bundle-probe"
STEP_SECONDS = 2.0
PATIENCE_SECONDS = 300.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ProbeSettings:
    """From the environment: PROBE_IMAGE, PROBE_TOKENURL_OVERRIDE, PROBE_FORCE_HASH."""

    image: str
    token_url: str = ""
    force_hash: str = ""

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> ProbeSettings | None:
        """The settings; None where no image is named, and so there is no probe."""
        image = environment.get("PROBE_IMAGE", "")
        override, force = environment.get("PROBE_TOKENURL_OVERRIDE", ""), environment.get("PROBE_FORCE_HASH", "")
        return cls(image, override, force) if image else None


@dataclass(frozen=True, slots=True)
class ProbeFinding:
    """What the probe wrote on the CR."""

    status: str
    hash: str
    last_hash: str
    updated_at: str

    @classmethod
    def on(cls, operator: BtpOperator) -> ProbeFinding:
        """Read the annotations; absent ones are empty."""
        notes = operator.metadata.annotations
        return cls(
            notes.get(api.PROBE_STATUS_ANNOTATION, ""),
            notes.get(api.PROBE_HASH_ANNOTATION, ""),
            notes.get(api.PROBE_LAST_HASH_ANNOTATION, ""),
            notes.get(api.PROBE_UPDATED_AT_ANNOTATION, ""),
        )

    @property
    def alerts(self) -> bool:
        """Whether the certificate did not verify."""
        return self.status == "alert"

    @property
    def restarts_operand(self) -> bool:
        """Whether the bundle changed since the operand read it, and is good."""
        return self.status == "ok" and bool(self.last_hash) and self.hash != self.last_hash


class Probe:
    """Runs the cycle at start and at each interval. Only the leader does."""

    name = "ca-bundle-probe"

    def __init__(
        self,
        client: Client,
        probing: ProbeSettings,
        settings: Callable[[], Settings],
        border: Border,
        *,
        leader: Callable[[], BtpOperator | None],
        report: Callable[[bool], None],
    ) -> None:
        self._client = client
        self._probing = probing
        self._settings = settings
        self._border = border
        self._clock = border.clock
        self._leader = leader
        self._report = report
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Probe until stopped, or not at all. A failed cycle is logged and the next one tries again."""
        interval = self._settings().probe_interval
        while interval > timedelta() and not self._stopping.is_set():
            await self._border.once(self.name, "the CA-bundle probe", self._try)
            await happens_within(self._clock, interval.total_seconds(), self._stopping)

    async def _try(self) -> None:
        try:
            await self.cycle()
        except (ApiError, TimeoutError) as error:
            _log.warning("the CA-bundle probe failed: %s", error)

    def stop(self) -> None:
        """Begin no further cycle."""
        self._stopping.set()

    async def cycle(self) -> None:
        """One probe: a fresh Job, its finding, and what follows from it.

        Nothing happens without a leading CR in the standard namespace.
        """
        operator = self._leader()
        if operator is None or operator.metadata.namespace != api.STANDARD_NAMESPACE:
            return  # the Job writes on CRs in its own namespace; elsewhere tenants would write the finding
        before = ProbeFinding.on(operator)
        await self._run_job()
        now = await self._client.get(BtpOperator, operator.metadata.name, operator.metadata.namespace)
        found = ProbeFinding.on(now)
        if found.updated_at == before.updated_at:
            return
        self._report(found.alerts)
        if not found.hash:
            return
        if found.restarts_operand:
            await self._restart_operand()
        await self._remember(now, found.hash)

    async def _run_job(self) -> None:
        namespace = api.STANDARD_NAMESPACE
        former = await self._client.find(Job, JOB_NAME, namespace)
        if former is not None:
            await self._client.delete(Job, JOB_NAME, namespace, uid=former.metadata.uid, propagation="Background")
            await self._follow(former, lambda job: job.metadata.uid != former.metadata.uid)
        await self._follow(await self._client.create(Job, job(self._probing, namespace)), lambda job: job.has_ended)

    async def _follow(self, job: Job, is_reached: Callable[[Job], bool]) -> None:
        """Watch the Job until it is gone or in the wanted state. Raises TimeoutError after PATIENCE_SECONDS.

        After a watch that ended or was refused, the Job is read instead: a role from before the watch still suffices.
        """
        current: Job | None = job
        async with asyncio.timeout(PATIENCE_SECONDS):
            while current is not None and not is_reached(current):
                if await self._watch(current, is_reached):
                    return
                await self._clock.sleep(STEP_SECONDS)
                current = await self._client.find(Job, JOB_NAME, api.STANDARD_NAMESPACE)

    async def _watch(self, job: Job, is_reached: Callable[[Job], bool]) -> bool:
        """Whether one watch saw that the Job is gone or in the wanted state."""
        events = self._client.watch(
            Job,
            api.STANDARD_NAMESPACE,
            resource_version=job.metadata.resource_version,
            fields=f"metadata.name={JOB_NAME}",
        )
        with contextlib.suppress(ApiError):
            async with contextlib.aclosing(events):
                async for event in events:
                    if event.type == "DELETED" or (isinstance(event.object, Job) and is_reached(event.object)):
                        return True
        return False

    async def _restart_operand(self) -> None:
        namespace = self._settings().chart_namespace  # elsewhere, pods of others may carry the label
        listed = await self._client.list(Pod, namespace, labels=api.OPERAND_POD_SELECTOR)
        for pod in pods_to_restart(listed.items, namespace, failing_only=False):
            await self._client.delete(Pod, pod.key.name, pod.key.namespace, uid=pod.metadata.uid)

    async def _remember(self, operator: BtpOperator, value: str) -> None:
        metadata: JsonObject = {
            "uid": operator.metadata.uid,
            "annotations": {api.PROBE_LAST_HASH_ANNOTATION: value},
        }
        name, namespace = operator.metadata.name, operator.metadata.namespace
        await self._client.patch(BtpOperator, name, namespace, MergePatch({"metadata": metadata}))


def job(settings: ProbeSettings, namespace: str) -> JsonObject:
    """The Job that probes once."""
    values = {
        "PROBE_NAMESPACE": namespace,
        "PROBE_TOKENURL_OVERRIDE": settings.token_url,
        "PROBE_FORCE_HASH": settings.force_hash,
    }
    inject_off: JsonObject = {"sidecar.istio.io/inject": "false"}
    container: JsonObject = {
        "name": "probe",
        "image": settings.image,
        "env": [{"name": name, "value": value} for name, value in values.items() if value],
    }
    pod: JsonObject = {"serviceAccountName": SERVICE_ACCOUNT, "restartPolicy": "Never", "containers": [container]}
    template: JsonObject = {"metadata": {"labels": inject_off, "annotations": inject_off}, "spec": pod}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": JOB_NAME, "namespace": namespace},
        "spec": {"backoffLimit": 0, "template": template},
    }
