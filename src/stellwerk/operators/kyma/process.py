"""A process of the lifecycle manager: what is checked, read and opened before its controllers are added."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field, replace
from pathlib import Path

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.delivery.operator_spec import Launch
from stellwerk.kube.client import conditional
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.conditional import NotAsSeen
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.errors import ApiError
from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.kyma import controllers, labels
from stellwerk.operators.kyma.api_status import GROUP
from stellwerk.operators.kyma.installation import identity
from stellwerk.operators.kyma.module.windows import MOST_BYTES, BadPolicy, Policy
from stellwerk.operators.kyma.settings import Settings, StoredVersion, refuse_contradictions
from stellwerk.operators.kyma.sources.loads import Sources
from stellwerk.render.sources.http import HttpClient
from stellwerk.runtime.clock import Clock, happens_within
from stellwerk.runtime.process import process as processes
from stellwerk.runtime.process.process import Parts
from stellwerk.runtime.settings.process_settings import ProcessSettings
from stellwerk.runtime.supervision.tasks import Closing

CONNECT_SECONDS, SILENCE_SECONDS = 10.0, 60.0
"""How long a registry may take to be reached, and to send the next byte."""

RETRY_SECONDS = 10.0

_log = logging.getLogger(__name__)


def launch(process: ProcessSettings, settings: Settings) -> Launch:
    """Prepare a process of the lifecycle manager. Raises CannotStart."""
    refuse_contradictions(settings)
    processes.configure_logs(replace(process, zap_log_level=settings.more_detailed(process.zap_log_level)), tty=False)

    def add(parts: Parts) -> None:
        manager, dropped = parts.manager, settings.drop_crd_stored_version_map
        http = HttpClient(
            tls=None,
            user_agent=labels.OPERATOR_NAME,
            connect_seconds=CONNECT_SECONDS,
            silence_seconds=SILENCE_SECONDS,
        )
        manager.add_server("modules", Closing(http.close))
        if dropped:
            manager.add_controller(StoredVersions(manager.client, manager.clock, dropped))
        policy = read_policy(Path(settings.maintenance_policy_file))
        made = controllers.install(
            manager,
            settings,
            modules=Sources.of(settings, http, settings.egress),
            connect=parts.connect,
            policy=policy,
            recorder=parts.recorder,
        )
        made.metrics.maintenance_policy(was_read=policy is not None)

    return Launch(identity(settings), add)


def read_policy(file: Path) -> Policy | None:
    """The policy of maintenance windows; None if there is none, or none that can be used: the log names the cause."""
    try:
        with file.open("rb") as opened:
            return Policy.parse(opened.read(MOST_BYTES + 1))
    except FileNotFoundError:
        _log.info("there is no policy of maintenance windows: %s does not exist", file)
    except (OSError, BadPolicy) as error:
        _log.error("the policy of maintenance windows cannot be used: %s: %s", file, error)
    return None


@dataclass(slots=True)
class StoredVersions:
    """Takes versions that no object is stored in from the status of their definitions, once, when the process leads.

    As long as they are there, the API server refuses a definition without them.
    """

    client: Client
    clock: Clock
    dropped: tuple[StoredVersion, ...]
    name: str = "stored versions"
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Return when it is done; what does not succeed is tried again."""
        left = {each.kind for each in self.dropped}
        while left:
            for kind in sorted(left):
                try:
                    if await self._drop(kind):
                        left.discard(kind)
                except ApiError as error:
                    _log.warning("the stored versions of %s stay as they are: %s", _definition_of(kind), error)
            if left and await happens_within(self.clock, RETRY_SECONDS, self._stopping):
                return

    def stop(self) -> None:
        """Begin no further try."""
        self._stopping.set()

    async def _drop(self, kind: str) -> bool:
        """Whether nothing is left to be done."""
        found = await self.client.find(CustomResourceDefinition, _definition_of(kind))
        stored = (found.status.stored_versions or ()) if found is not None else ()
        current = {each.name for each in found.spec.versions if each.storage} if found is not None else set()
        gone = {each.version for each in self.dropped if each.kind == kind} - current
        kept = [each for each in stored if each not in gone]
        if found is None or not kept or len(kept) == len(stored):
            return True
        metadata: JsonObject = {"resourceVersion": found.metadata.resource_version}
        patch = MergePatch({"metadata": metadata, "status": {"storedVersions": [*kept]}})
        name = found.metadata.name
        written = await conditional.patch_if_unchanged(
            self.client, CustomResourceDefinition, name, "", patch, subresource="status"
        )
        return not isinstance(written, NotAsSeen)


def _definition_of(kind: str) -> str:
    return f"{kind.lower()}s.{GROUP}"
