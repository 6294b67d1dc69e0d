"""Gives Deployments new credentials when those of their services have changed (spec section 16).

For applications that ask for it (`spec.rolloutOnCredentialUpdate`), and a while after the change: services are rotated
one after the other, and each restart costs. The order is safe: a new Secret, then the Deployment that reads it, and the
former Secret goes when no pod needs it any more. A Secret whose content is the same costs no restart. Jobs are never
touched: each one reads its credentials when it starts.

A Secret that a Deployment reads may be unknown: early releases of the original put no label on it, or it was deleted by
hand. Where there is no current Secret, the first one gets the label. The other one is created again under its name, so
that pods that start meanwhile have credentials, and counts as outdated: pods that run may have former ones. So the
Deployment restarts once, and reads a Secret of another name then. Where there is a current one, the Deployment reads it
in the place of all others.

Everything is decided from what the caches show, so that a crash between two of these writes is made good by the next
pass. A restart of the operator begins the delay again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from stellwerk.api.apps import Deployment
from stellwerk.api.core import Secret
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import JsonPatch, MergePatch, replace, test
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import (
    JsonObject,
    JsonValue,
    PartialObjectMetadata,
    Unstructured,
    dig,
    metadata_of,
    unstructured,
)
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.version import Workload
from stellwerk.operators.cap.pods import vcap, workload_pods
from stellwerk.operators.cap.pods.credentials import (
    UNKNOWN_VERSIONS,
    CredentialSecrets,
    SecretEnding,
    SecretInTheWay,
    consumed,
    is_named_for,
    mark_of,
)
from stellwerk.operators.cap.pods.vcap import CredentialsUnusable
from stellwerk.operators.cap.version.resources import VersionObjects
from stellwerk.runtime.cache.informer import Informer
from stellwerk.runtime.clock import Clock

ENDING_SECONDS, IN_THE_WAY_SECONDS = 30.0, 600.0
"""How soon to look again at a Secret that is being deleted, or is another's: no watch may show that it goes."""

_CONTAINERS = ("containers", "initContainers")
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class RolloutMemo:
    """What is remembered of a version, by the names of its Deployments."""

    outdated_since: dict[str, float] = field(default_factory=dict[str, float])
    """Since when they are known to have former credentials, in seconds of the monotonic clock."""
    problems: dict[str, str] = field(default_factory=dict[str, str])
    """Why they keep their credentials, as it was logged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialRollout:
    """Keeps the credentials of Deployments as new as those of their services."""

    client: Client
    credentials: CredentialSecrets
    deployments: Informer[Deployment]
    clock: Clock
    delay: timedelta

    async def keep(self, objects: VersionObjects, memo: RolloutMemo) -> tuple[Sequence[str], float | None]:
        """Bring all Deployments of a version one step further.

        Returns the names of those that begin to restart, and in how many seconds another look is due, or None. Raises
        ApiError.
        """
        restarted: list[str] = []
        pauses: list[float] = []
        for _, workload in objects.workloads():
            name = objects.name(workload)
            try:
                pause = await self._keep(objects, workload, name, memo.outdated_since, restarted)
                memo.problems.pop(name, None)
            except CredentialsUnusable as error:
                if memo.problems.get(name) != str(error):
                    _log.warning("Deployment %s keeps its credentials: %s", name, error)
                memo.problems[name] = str(error)
                pause = _pause_after(error)
            if pause is not None:
                pauses.append(pause)
        return restarted, min(pauses, default=None)

    async def _keep(
        self, objects: VersionObjects, workload: Workload, name: str, outdated: dict[str, float], restarted: list[str]
    ) -> float | None:
        version, application = objects.version, objects.application
        namespace = version.metadata.namespace
        secrets = self.credentials.of(version, name)
        deployment = self.deployments.store.get(ObjectKey(namespace, name))
        wanted = self.credentials.versions_shown(application, workload, namespace)
        if not wanted or deployment is None or not deployment.metadata.is_controlled_by(version.metadata):
            return None
        read = {each for each in secrets_read(deployment) if is_named_for(each, name)}
        current = next(
            (each for each in secrets if each.metadata.annotations.get(names.BINDINGS_ANNOTATION) == wanted), None
        )
        if current is not None:
            outdated.pop(name, None)
            former = [each for each in secrets if each is not current]
            outdated_names = {*read, *(each.metadata.name for each in former)} - {current.metadata.name}
            if outdated_names and await self._replace(deployment, current, former, outdated_names):
                restarted.append(name)
            return None
        lost = read - {each.metadata.name for each in secrets}
        try:
            if lost and await self._recover(objects, workload, name, sorted(lost)):
                return 0.0
        except SecretInTheWay:
            if not secrets:
                raise
            # The rollout below brings the Deployment to a Secret of another name.
        if not secrets:
            return None
        now = self.clock.monotonic()
        since = outdated.setdefault(name, now)  # further changes meanwhile do not begin the delay again
        remaining = since + self.delay.total_seconds() - now
        if remaining > 0:
            return remaining
        text = await self.credentials.variable(application, workload, namespace)
        if (same := await self._with_content(secrets, text)) is not None:
            await self._mark(same, {"annotations": {names.BINDINGS_ANNOTATION: wanted}})
        else:
            # Bindings alone may lead to the name of one that was deleted by hand and created again.
            distinction = "".join((wanted, *sorted(each.metadata.uid for each in secrets)))
            await self.credentials.create(version, name, application, workload, text, distinction)
        return 0.0

    async def _recover(self, objects: VersionObjects, workload: Workload, name: str, lost: Sequence[str]) -> bool:
        """Have the label on Secrets that a Deployment reads, or create them again. Returns whether any was written.

        A workload that consumes no service needs none. Raises CredentialsUnusable, as SecretInTheWay where one of that
        name is being deleted or is another's, and ApiError.
        """
        version, application = objects.version, objects.application
        namespace = version.metadata.namespace
        if not consumed(application, workload, namespace):
            return False
        for secret in lost:
            existing = await self.client.find(metadata_of(Secret), secret, namespace)
            if existing is None:
                text = await self.credentials.variable(application, workload, namespace)
                await self.credentials.create(version, name, application, workload, text, lost=secret)
            elif not existing.metadata.is_controlled_by(version.metadata):
                raise SecretInTheWay(f"Secret {existing.key} does not belong to {version.ref}")
            elif existing.metadata.is_terminating:
                raise SecretEnding(f"Secret {existing.key} is being deleted")
            else:
                await self._mark(existing, {"labels": {names.SECRET_OWNER_HASH_LABEL: mark_of(version, name)}})
        return True

    async def _with_content(self, secrets: Sequence[PartialObjectMetadata], text: str) -> PartialObjectMetadata | None:
        """The Secret that has these credentials already."""
        for each in secrets:
            if each.metadata.annotations.get(names.BINDINGS_ANNOTATION) == UNKNOWN_VERSIONS:
                continue
            secret = await self.client.find(Secret, each.metadata.name, each.metadata.namespace)
            if secret is not None and secret.decoded().get(vcap.VARIABLE) == text.encode():
                return each
        return None

    async def _mark(self, secret: PartialObjectMetadata, marks: JsonObject) -> None:
        metadata = secret.metadata
        marked: JsonObject = {"uid": metadata.uid, **marks}
        written = await self.client.patch(
            metadata_of(Secret), metadata.name, metadata.namespace, MergePatch({"metadata": marked})
        )
        self.credentials.cache.expect(secret.key, written.metadata.resource_version)

    async def _replace(
        self,
        deployment: Deployment,
        current: PartialObjectMetadata,
        former: Sequence[PartialObjectMetadata],
        outdated_names: set[str],
    ) -> bool:
        """Have the Deployment read the current Secret in the place of those with `outdated_names`.

        The `former` ones, which are among these and exist, are deleted when no pod needs them. Returns whether the
        Deployment was changed.
        """
        key = deployment.key
        live = await self.client.find(unstructured(Deployment.resource), key.name, key.namespace)
        if live is None or live.metadata.uid != deployment.metadata.uid:
            return False
        patch = reading(live, current.metadata.name, outdated_names)
        if patch is not None:
            written = await self.client.patch(metadata_of(Deployment), key.name, key.namespace, patch)
            self.deployments.expect(key, written.metadata.resource_version)
            return True
        if is_rolled_out(deployment):
            for each in former:
                metadata = each.metadata
                await self.client.delete(metadata_of(Secret), metadata.name, metadata.namespace, uid=metadata.uid)
        return False


def reading(live: Unstructured, name: str, former: set[str]) -> JsonPatch | None:
    """The patch by which all containers read the Secret `name` in the place of `former` (pure); None: they do."""
    changes: list[JsonObject] = []
    for part, index, sources in _sources(live):
        if any(_secret_of(source) in former for source in sources):
            renewed: list[JsonValue] = [
                workload_pods.credentials_of(name) if _secret_of(source) in former else source for source in sources
            ]
            changes.append(replace(("spec", "template", "spec", part, index, "envFrom"), renewed))
    if not changes:
        return None
    return JsonPatch((test("/metadata/resourceVersion", live.metadata.resource_version), *changes))


def secrets_read(deployment: Deployment) -> set[str]:
    """The Secrets that containers of a Deployment have as their environment (pure)."""
    template = deployment.spec.template.spec
    return {
        source.secret_ref.name
        for container in (*template.containers, *template.init_containers)
        for source in container.env_from
        if source.secret_ref is not None
    }


def _pause_after(error: CredentialsUnusable) -> float | None:
    """In how many seconds to look again; None where a watch shows that the cause is gone."""
    if isinstance(error, SecretEnding):
        return ENDING_SECONDS
    return IN_THE_WAY_SECONDS if isinstance(error, SecretInTheWay) else None


def is_rolled_out(deployment: Deployment) -> bool:
    """Whether all pods of a Deployment are those of its present template (pure)."""
    status, wanted = deployment.status, deployment.spec.replicas
    has_been_seen = status.observed_generation >= deployment.metadata.generation
    return has_been_seen and status.updated_replicas == status.replicas == status.available_replicas == wanted


def _sources(live: Unstructured) -> Iterable[tuple[str, int, list[JsonValue]]]:
    """What the containers have as their environment: each list with its place."""
    for part in _CONTAINERS:
        listed = live.at("spec", "template", "spec", part)
        for index, container in enumerate(listed if isinstance(listed, list) else []):
            sources = dig(container, "envFrom")
            if isinstance(sources, list):
                yield part, index, sources


def _secret_of(source: JsonValue) -> str:
    return str(dig(source, "secretRef", "name") or "")
