"""Brings the module into the cluster and keeps it there: what a plan of `resources` needs is written, nothing else.

A call waits for nothing but keys that are being made. It writes what is not as wanted and returns how far the module
is; the watches of what was written wake the next pass. On a module that is as wanted it sends no request at all.

Where the objects come from (`source`) makes no difference, but for one question: a module from a chart that a client
has changed is shown before it is mended, because that is what the published reasons promise (`inspect`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeGuard

from stellwerk.api.apps import Deployment
from stellwerk.api.core import Secret
from stellwerk.apply.errors import ApplyError
from stellwerk.apply.objects.desired import Address, Desired, Document, desired_set, kinds_of
from stellwerk.apply.readiness.readiness import Readiness, assess, by_conditions
from stellwerk.apply.set.model.confirmation import FIGHT_SECONDS, Live
from stellwerk.apply.set.model.owner import LabelOwner
from stellwerk.apply.set.object_set import SetProgress
from stellwerk.apply.set.observed_state import ObservedState
from stellwerk.apply.set.plan.actions import Action, Create, Remove, Update
from stellwerk.apply.set.plan.stage import Throttled, Unready
from stellwerk.apply.set.untracked_set import UntrackedSet
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import ApiError
from stellwerk.kube.types.identifiers import ObjectKey, ObjectRef
from stellwerk.kube.types.model import PartialObjectMetadata, Unstructured, metadata_of
from stellwerk.operators.btp import api
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.operators.btp.btpoperator import history, resources
from stellwerk.operators.btp.btpoperator.history import VersionHistory
from stellwerk.operators.btp.btpoperator.observe import Observer
from stellwerk.operators.btp.btpoperator.plan import SetStatus, network_policies_wanted
from stellwerk.operators.btp.btpoperator.resources import Running, Values
from stellwerk.operators.btp.btpoperator.webhooks import NO_CERTIFICATES, OperandCertificates, Webhooks
from stellwerk.operators.btp.credentials.credentials import BtpCredentials
from stellwerk.operators.btp.errors import (
    ApplyFailed,
    ModuleUnreadable,
    OutdatedNotDeleted,
    RemovalFailed,
    or_fail,
)
from stellwerk.operators.btp.module import version_record
from stellwerk.operators.btp.module.chart import ReleaseSupplier
from stellwerk.operators.btp.module.release import ModuleRelease
from stellwerk.operators.btp.reasons import Reason
from stellwerk.runtime import conditions

OWNER = LabelOwner(api.OPERATOR_NAME, {api.MANAGED_BY_LABEL: api.OPERATOR_NAME})
OPERAND_CONDITIONS = ("Available", "Progressing")
"""Both must be True: the original's rule for a Deployment, stricter than kstatus about a missing Progressing."""
NAMED_CHANGES = 5
"""How many changed objects of a chart a message names."""


def module_set(client: Client, observer: Observer, memory: ObservedState) -> UntrackedSet:
    """The module as the caches show it now."""
    return UntrackedSet(
        client=client,
        owner=OWNER,
        memory=memory,
        live=observer.module(),
        now=observer.clock.now(),
        clock=observer.clock.monotonic(),
    )


@dataclass(frozen=True, slots=True)
class ModuleProgress:
    """How far the module is. `written`: something was sent, so the caches do not show the last state yet."""

    release: ModuleRelease
    written: bool
    unready: Unready | None
    """The first object of the module that is not ready."""
    changed: bool = False
    """Whether something was written that is no mere restoration of what others had changed or deleted."""
    held_until: float | None = None
    """When an object that others keep changing may be restored again, on the clock's seconds."""
    fights: tuple[str, ...] = ()
    """What others keep changing, and who; a sentence each."""
    renewed: str = ""
    """Why certificates were renewed, as a clause; empty where none were."""
    restarted: str = ""
    """Why the operand's pods are replaced, as a sentence; empty where it runs with the same credentials."""
    restored: tuple[str, ...] = ()
    """What others had changed or deleted, and was put back; with the managers that changed it, where they are known."""
    outdated: tuple[ObjectRef, ...] = ()
    """What former releases had, and was deleted by its name."""


@dataclass(slots=True)
class Provisioner:
    """The module's objects in the cluster. `image` answers with the operand's, from the environment."""

    client: Client
    observer: Observer
    webhooks: Webhooks
    image: Callable[[], str]
    source: ReleaseSupplier
    history: VersionHistory
    users_have_nothing: Callable[[], Awaitable[bool]]
    """Whether the API server knows no service instance and no binding. Raises ApiError, and RemovalFailed."""
    on_throttled: Callable[[int], None]
    """Called with the number of objects that others change again and again."""
    memory: ObservedState = field(default_factory=ObservedState)
    _memory_of: str = ""
    """The uid of the BtpOperator for which it was filled."""
    _absent: dict[ObjectRef, float] = field(default_factory=dict)
    """Outdated objects that were looked for and are not there, and when, on the clock's seconds."""
    _absent_for: str = ""
    """The version of the module for which they were looked for."""
    _restarted: str = ""
    """The next `ModuleProgress.restarted`. It outlives a pass that failed after the Deployment was written."""

    async def inspect(self, operator: BtpOperator, credentials: BtpCredentials) -> SetStatus | None:
        """What a Ready module from a chart shows before anything is written; None where it is as it should be.

        Only what others did is shown. A new image, password or certificate is ours to bring, and no inconsistency.
        """
        if not self.source.is_chart:
            return None
        release = await self.source.current(operator, credentials)
        record = await self.history.record()
        if record is not None and record.current_version != release.version:
            return SetStatus(Reason.UpdateCheck)
        certificates = NO_CERTIFICATES if await self.webhooks.are_due() else await self.webhooks.settled()
        wanted = await self._wanted(release, operator, credentials, certificates)
        changed = [action.desired for action in self._set().plan(wanted).actions if _restores(action)]
        if not changed:
            return None
        named = conditions.first_of([each.key for each in changed], NAMED_CHANGES)
        return SetStatus(Reason.InconsistentChart, f"Chart is inconsistent. Reconciliation initialized {named}")

    async def bring_up(self, operator: BtpOperator, credentials: BtpCredentials) -> ModuleProgress:
        """Write what is not as wanted. Raises ModuleFailed with the object and the cause."""
        return await or_fail(self._bring_up(operator, credentials), ApplyFailed)  # of what was only to be read

    async def _bring_up(self, operator: BtpOperator, credentials: BtpCredentials) -> ModuleProgress:
        if (
            operator.metadata.uid != self._memory_of
        ):  # what happened to the objects of another one is no fight over ours
            self.memory.confirmations.clear()
            self._memory_of = operator.metadata.uid
        release = await self.source.current(operator, credentials)
        await self.history.foresee(release, credentials.namespace)
        outdated = await self._delete_outdated(release, credentials.namespace)
        early = await self._apply_early(release, operator, credentials) if await self.webhooks.are_due() else None
        certificates = await self.webhooks.settled()
        if early is not None:
            await self.observer.caches.show(early)
        wanted = await self._wanted(release, operator, credentials, certificates)
        authority = await self._apply_authority(wanted) if certificates.has_new_authority else None
        progress = await self._apply(
            wanted if authority is None else [desired for desired in wanted if not _is_authority(desired)]
        )
        self.on_throttled(len(progress.throttled))
        if why := self.observer.unseen():
            raise ApplyFailed(why)
        self.memory.keep_only({desired.address for desired in wanted})
        policies = await self._drop_network_policies(operator)
        restarted, self._restarted = self._restarted, ""
        carried = [result for part in (early, authority, progress) if part is not None for result in part.carried]
        return ModuleProgress(
            release,
            bool(carried or outdated) or policies,
            self._first_unready(wanted),
            changed=any(_changes(each.action) for each in carried),
            held_until=min((each.until for each in progress.throttled), default=None),
            fights=tuple(map(_fight, progress.throttled)),
            renewed=certificates.renewed,
            restarted=restarted,
            restored=tuple(_restored(each.action) for each in progress.carried if _restores(each.action)),
            outdated=outdated,
        )

    async def finish(self, release: ModuleRelease, credentials: BtpCredentials) -> tuple[bool, tuple[ObjectRef, ...]]:
        """The module is ready: delete what older versions left, and record its version.

        Returns whether another version was there before, and what was deleted of it.
        In this order, so that a crash in between is followed by another look. Raises StepFailed.
        """
        leftovers = await self.history.leftovers(release, wanted=self.memory.confirmations.keys())
        stale = {address: live for address, live in leftovers.items() if not await self._must_stay(address)}
        if stale:
            await self._delete(stale)
        written = self.observer.present_credentials(credentials.namespace)
        return await self.history.applied(release, written), tuple(address.ref for address in stale)

    def forget(self) -> None:
        """The module is gone: what was confirmed does not hold for the next one."""
        self.memory.clear()
        self._absent.clear()
        self.history.forget()
        self.webhooks.forget()

    # What is wanted

    async def _wanted(
        self,
        release: ModuleRelease,
        operator: BtpOperator,
        credentials: BtpCredentials,
        certificates: OperandCertificates,
    ) -> tuple[Desired, ...]:
        settings = self.observer.settings()
        values = Values(
            settings=settings,
            credentials=credentials,
            image=self.image(),
            network_policies=network_policies_wanted(operator, settings.home_namespace),
            ca_bundle=certificates.authority,
            running=await self._running(credentials.namespace),
        )
        documents = (*resources.prepared(release, values), *certificates.documents)
        try:
            served = await history.served(self.client, kinds_of(documents))
            return desired_set(documents, served, namespace=settings.chart_namespace)
        except ApplyError as error:
            raise ApplyFailed(str(error)) from error

    async def _running(self, namespace: str) -> Running | None:
        """What the operand runs with. Its Secret is read only while no checksum identifies its content."""
        observer, caches = self.observer, self.observer.caches
        key = ObjectKey(observer.chart_namespace, observer.settings().deployment_name)
        deployment = caches.resources[Deployment.resource].store.get(key)
        if deployment is None:
            return None
        running = Running.of(deployment.body, observer.operand_config(), {})
        if running.template_checksum or running.known_checksum:
            return running
        secret = await observer.secrets.read(caches.secrets.get(ObjectKey(namespace, api.OPERAND_SECRET_NAME)))
        return replace(running, secret=secret.data if secret else {})

    # Writing

    def _set(self) -> UntrackedSet:
        return module_set(self.client, self.observer, self.memory)

    async def _apply_early(
        self, release: ModuleRelease, operator: BtpOperator, credentials: BtpCredentials
    ) -> SetProgress:
        """Apply what has nothing to do with certificates, while their keys are made."""
        wanted = await self._wanted(release, operator, credentials, NO_CERTIFICATES)
        return await self._apply(
            [desired for desired in wanted if desired.resource.kind not in resources.NEED_CERTIFICATES]
        )

    async def _apply_authority(self, wanted: Sequence[Desired]) -> SetProgress:
        """Apply a new CA before what it has signed.

        Raises ApplyFailed where it cannot be written now: the webhooks go on with the certificates that they have.
        """
        progress = await self._apply([desired for desired in wanted if _is_authority(desired)])
        if progress.waits:
            raise ApplyFailed(str(progress.waits[0]), progress.waits[0].ref)
        return progress

    async def _apply(self, wanted: Sequence[Desired]) -> SetProgress:
        """Write what is not as wanted."""
        await self.observer.caches.cover(desired.resource for desired in wanted)
        module = self._set()
        progress = await module.apply(wanted)
        self.observer.caches.expect(progress)
        for result in progress.carried:
            if _restarts_operand(result.action, module.live):
                secret = ObjectKey(self.observer.chart_namespace, self.observer.settings().secret_name)
                self._restarted = (
                    f"the pods of {result.address.ref} are replaced: the credentials in Secret {secret}, or the "
                    "configuration of the operand, have changed"
                )
        self._keep_certificates(wanted, progress)
        if progress.failures:
            raise ApplyFailed("; ".join(map(str, progress.failures)), progress.failures[0].ref)
        return progress

    def _keep_certificates(self, wanted: Sequence[Desired], progress: SetProgress) -> None:
        """What was just written to the certificates' Secrets need not be read back."""
        certificates = {
            desired.address: desired.body.get("data")
            for desired in wanted
            if desired.address.is_secret and desired.key.name in api.CERTIFICATE_SECRETS
        }
        for result in progress.carried:
            data = certificates.get(result.address)
            if isinstance(data, dict) and result.live is not None:
                texts = {key: str(value) for key, value in data.items()}
                self.observer.secrets.keep(result.address.key, Secret(metadata=result.live.metadata, data=texts))

    async def _delete_outdated(self, release: ModuleRelease, credentials_namespace: str) -> tuple[ObjectRef, ...]:
        """Delete by name what former releases had; returns what there was.

        The caches do not show an object that lacks our labels. So each is read once for each version, and again after
        `ReadyStateRequeueInterval`, because it may come back: from a backup, or by another tool.
        """
        if release.version != self._absent_for:
            self._absent, self._absent_for = {}, release.version
        failed, deleted = [], []
        settings = self.observer.settings()
        for document in resources.to_delete(release, settings):
            address = await self._address(document)
            if address is None or self._is_known_absent(address):
                continue
            if resources.is_applied(address, release, settings, credentials_namespace):
                continue
            try:
                if not await self._is_spared(address) and await self._delete_by_name(address):
                    deleted.append(address.ref)
            except (ApiError, RemovalFailed) as error:
                failed.append((address.ref, str(error)))
        if failed:
            raise OutdatedNotDeleted(failed)
        return tuple(deleted)

    async def _is_spared(self, address: Address) -> bool:
        """Whether an outdated object is the definition of a kind that users have objects of.

        With it all services of the cluster would go, so the caches alone must not decide that there are none. Raises
        ApiError, and RemovalFailed, where that is unknown.
        """
        if address.ref not in version_record.USERS_DEFINITIONS:
            return False
        return self.observer.users_may_have_objects() or not await self.users_have_nothing()

    async def _must_stay(self, address: Address) -> bool:
        """`_is_spared` of one leftover. Raises OutdatedNotDeleted where that is unknown."""
        try:
            return await self._is_spared(address)
        except (ApiError, RemovalFailed) as error:
            raise OutdatedNotDeleted([(address.ref, str(error))]) from error

    async def _address(self, document: Document) -> Address | None:
        """Where the object would be; None for a kind that is not served, of which nothing can be left."""
        served = await history.served(self.client, kinds_of([document]))
        try:
            namespace = self.observer.chart_namespace
            return next((one.address for one in desired_set([document], served, namespace=namespace)), None)
        except ApplyError as error:
            if not served:
                return None
            raise ModuleUnreadable(f"{document.origin}: {error}") from error

    def _is_known_absent(self, address: Address) -> bool:
        looked_at = self._absent.get(address.ref)
        if looked_at is None or address in self.observer.module():
            return False
        interval = self.observer.settings().ready_state_requeue_interval.total_seconds()
        return self.observer.clock.monotonic() - looked_at < interval

    async def _delete_by_name(self, address: Address) -> bool:
        target, key = metadata_of(address.resource), address.key
        found = await self.client.find(target, key.name, key.namespace)
        goes = found is not None and not found.metadata.is_terminating
        if found is not None and goes:
            await self.client.delete(target, key.name, key.namespace, uid=found.metadata.uid, propagation="Background")
        self._absent[address.ref] = self.observer.clock.monotonic()
        return goes

    async def _drop_network_policies(self, operator: BtpOperator) -> bool:
        """Where the user opted out, delete every network policy of ours. Returns whether there were any."""
        settings = self.observer.settings()
        if network_policies_wanted(operator, settings.home_namespace):
            return False
        namespace = settings.chart_namespace
        unwanted = {
            address: live
            for address, live in self.observer.module().items()
            if address.resource.kind == "NetworkPolicy" and address.key.namespace == namespace
        }
        return bool((await self._delete(unwanted)).carried)

    async def _delete(self, unwanted: Mapping[Address, Live]) -> SetProgress:
        progress = await self._set().delete(unwanted, at_once=True)
        if progress.failures:
            raise OutdatedNotDeleted([(failure.ref, failure.cause) for failure in progress.failures])
        return progress

    # Readiness

    def _first_unready(self, wanted: Sequence[Desired]) -> Unready | None:
        live, now = self.observer.module(), self.observer.clock.now()
        for desired in wanted:
            verdict = _readiness(live.get(desired.address), now)
            if not verdict.is_ready:
                return Unready(desired.ref, str(verdict))
        return None


def _is_authority(desired: Desired) -> bool:
    return desired.address.is_secret and desired.key.name == api.CA_SECRET_NAME


def _readiness(live: Live | None, now: datetime) -> Readiness:
    if isinstance(live, Unstructured) and live.gvk == Deployment.resource.gvk:
        return by_conditions(live, OPERAND_CONDITIONS)
    return assess(Unstructured({}, live.metadata) if isinstance(live, PartialObjectMetadata) else live, now=now)


def _restores(action: Action) -> TypeGuard[Create | Update]:
    """Whether an action restores what another client changed."""
    return isinstance(action, Create | Update) and action.restores


def _changes(action: Action) -> bool:
    """Whether an action makes an object other than it was, instead of restoring it."""
    return isinstance(action, Create | Update | Remove) and not action.restores


def _restored(action: Create | Update) -> str:
    if isinstance(action, Update) and action.claimed:
        return f"{action.desired.ref} (changed by {', '.join(action.claimed)})"
    return str(action.desired.ref)


def _restarts_operand(action: Action, before: Mapping[Address, Live]) -> bool:
    """Whether the operand's pods ran with other credentials or configuration than are wanted now."""
    if not isinstance(action, Update) or action.restores:
        return False
    running = before.get(action.address)
    return isinstance(running, Unstructured) and resources.restarts(running.body, action.desired.body)


def _fight(held: Throttled) -> str:
    """Which object is changed again and again, and by which client, as far as the object itself records that."""
    pause = f"again and again, so it is restored every {FIGHT_SECONDS:.0f} s only"
    if not held.managers:
        unknown = "the object does not record by which client; the audit log of the API server may"
        return f"{held.ref} is changed or deleted {pause}; {unknown}"
    who = ", ".join(held.managers)
    return f"{held.ref} is changed by {who} {pause}. Have {who} leave it alone"
