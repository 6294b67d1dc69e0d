"""Tenants that follow to a version now, and waves that go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from stellwerk.delivery.verb_plans import AwaitedObject, Change, VerbPlan, VerbRefused, VerbRequest
from stellwerk.kube.types import lenient
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.cap import names
from stellwerk.operators.cap.application import staying, waves
from stellwerk.operators.cap.kinds.application import CAPApplication, UpgradePhase
from stellwerk.operators.cap.kinds.status import see_why
from stellwerk.operators.cap.kinds.tenant import CAPTenant, UpgradeStrategy
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion, may_be_of
from stellwerk.operators.cap.verbs import ends
from stellwerk.operators.cap.verbs.declared import APP, RESUME, TENANT, TO
from stellwerk.operators.cap.version.order import latest_ready
from stellwerk.runtime import conditions

_ALWAYS = '{"spec": {"versionUpgradeStrategy": "always"}}'


async def plan(request: VerbRequest) -> VerbPlan:
    """Decide what to change. Raises VerbRefused, ApiError."""
    application = lenient.convert(request.only(APP).body, CAPApplication)
    named = [lenient.convert(obj.body, CAPTenant) for obj in request.objects[TENANT]]
    if RESUME in request.flags:
        if named or request.texts[TO]:
            raise VerbRefused(f"{RESUME} is about the whole upgrade", fix=f"leave out tenants and {TO}")
        return _resumed(application)
    namespace, name = application.metadata.namespace, application.metadata.name
    listed = await request.client.list(CAPApplicationVersion, namespace, skip_unreadable=True)
    hidden = [each.key for each in listed.unreadable if may_be_of(application.key, each.metadata)]
    asked = Asked(
        application=application,
        versions=[version for version in listed.items if version.spec.application == name],
        hidden=hidden,
        tenants=named or (await request.client.list(CAPTenant, namespace, skip_unreadable=True)).items,
        are_named=bool(named),
        number=request.texts[TO],
    )
    return decided(asked, datetime.now(UTC))


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a user wants to have upgraded."""

    application: CAPApplication
    versions: Sequence[CAPApplicationVersion]
    """Those of the application."""
    hidden: Sequence[ObjectKey] = ()
    """Versions that cannot be read and may be of the application."""
    tenants: Sequence[CAPTenant]
    """Those that the user names, or all of the namespace."""
    are_named: bool = False
    number: str = ""
    """The version that the user names; empty for the newest."""


def decided(asked: Asked, now: datetime) -> VerbPlan:
    """What an upgrade changes (pure). Raises VerbRefused."""
    application, versions, hidden = asked.application, asked.versions, asked.hidden
    namespace, name = application.metadata.namespace, application.metadata.name
    newest = latest_ready(versions)
    version = _wanted(application, versions, hidden, asked.number) if asked.number else newest
    if version is None:
        why = f"stellwerk why ca/{name} -n {namespace}"
        raise VerbRefused(f"{application.ref} has no version that is Ready", fix=f"see why: {why}")
    own = [each for each in asked.tenants if each.spec.cap_application_instance == name]
    stay = staying.staying_tenants(own, version, versions, {*hidden})
    choice = _Choice(
        version=version,
        is_newest=version is newest,
        are_named=asked.are_named,
        staying={} if asked.number else {each.key: staying.cause(each, versions) for each in stay},
    )
    for tenant in asked.tenants:
        if tenant.spec.cap_application_instance == name:
            choice.consider(tenant)
        elif asked.are_named:
            raise VerbRefused(f"{tenant.ref} is no tenant of {application.ref}", fix="name tenants of the application")
    by_waves = not asked.are_named and application.spec.tenant_upgrade is not None
    down = {each.key for each in stay}
    follow = [each for each in choice.due if by_waves and each.key not in down]
    if follow:
        choice.notes.append(_waves_note(application))
    moved = [each for each in choice.due if not by_waves or each.key in down]
    if by_waves and moved:
        chosen = {each.key for each in waves.next_wave(application, own, version, now).tenants}
        if later := [each.metadata.name for each in moved if each.key not in chosen]:
            choice.notes.append(
                f"{len(later)} of {len(moved)} tenants above version {version.spec.version} wait for a later wave "
                f"(spec.tenantUpgrade): {conditions.first_of(later)}. Run the command again when those under way are "
                "Ready, or name tenants that do not wait"
            )
        moved = [each for each in moved if each.key in chosen]
    obstacle = ends.standstill(application.key, version.spec.version)
    return VerbPlan(
        writes=[_change(tenant, version) for tenant in moved],
        awaited=[
            *(replace(ends.upgraded(tenant.key, version.metadata.name), obstacle=obstacle) for tenant in follow),
            *(ends.upgraded(tenant.key, version.metadata.name) for tenant in (*moved, *choice.under_way)),
        ],
        notes=choice.notes or ([] if choice.due or choice.under_way else [f"{application.ref} has no tenants"]),
    )


def _wanted(
    application: CAPApplication, versions: Sequence[CAPApplicationVersion], hidden: Sequence[ObjectKey], number: str
) -> CAPApplicationVersion:
    """The version with this number or name. Raises VerbRefused where tenants cannot have it."""
    found = next((each for each in versions if number in (each.spec.version, each.metadata.name)), None)
    namespace = application.metadata.namespace
    if found is None:
        if hidden:
            fix = f"{conditions.first_of(hidden)} cannot be read; {see_why('cav', hidden[0])}"
            raise VerbRefused(f"{application.ref} has no version {number} that can be read", fix=fix)
        known = ", ".join(sorted(each.spec.version for each in versions)) or "none"
        raise VerbRefused(f"{application.ref} has no version {number}", fix=f"choose one of its versions: {known}")
    if latest_ready([found]) is None:
        why = f"stellwerk why cav/{found.metadata.name} -n {namespace}"
        raise VerbRefused(f"{found.ref} is not Ready, or is being deleted", fix=f"see why: {why}")
    return found


@dataclass(slots=True)
class _Choice:
    """The tenants that follow to a version."""

    version: CAPApplicationVersion
    is_newest: bool
    are_named: bool
    staying: Mapping[ObjectKey, str] = field(default_factory=dict[ObjectKey, str])
    """Tenants that have a higher version, each with the cause: they move only where a user names the version."""
    due: list[CAPTenant] = field(default_factory=list)
    under_way: list[CAPTenant] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def consider(self, tenant: CAPTenant) -> None:
        """Take the tenant, or note why not. Raises VerbRefused where the application would take the version back."""
        number, key = self.version.spec.version, tenant.key
        never = tenant.spec.version_upgrade_strategy == UpgradeStrategy.NEVER
        if tenant.status.current_version == self.version.metadata.name and tenant.spec.version == number:
            self.notes.append(f"{tenant.ref} has version {number} already")
        elif tenant.spec.version == number and ends.has_failed(tenant):
            again = f"stellwerk cap retry cat/{key.name} -n {key.namespace}"
            self.notes.append(f"{tenant.ref} has failed to follow to version {number}. Run it again: {again}")
        elif tenant.spec.version == number and not tenant.metadata.is_terminating:
            self.under_way.append(tenant)
            self.notes.append(f"{tenant.ref} is on its way to version {number} already")
        elif never and not tenant.status.current_version and self.are_named:
            self.due.append(tenant)
        elif never:
            always = f"kubectl patch cat {key.name} -n {key.namespace} --type merge -p '{_ALWAYS}'"
            self.notes.append(f"{tenant.ref} never follows a version. Change that with: {always}")
        elif not waves.follows(tenant):
            self.notes.append(f"{tenant.ref} is left out while it is {tenant.status.state or 'being deleted'}")
        elif key in self.staying:
            self.notes.append(
                f"{tenant.ref} stays above version {number}: {self.staying[key]}. Move it with {TO} {number}"
            )
        elif not self.is_newest:
            raise VerbRefused(
                f"{tenant.ref} follows new versions, so the application would bring it back to the newest one",
                fix="leave out --to, or delete the newer versions first",
            )
        else:
            self.due.append(tenant)


def _change(tenant: CAPTenant, version: CAPApplicationVersion) -> Change:
    number = version.spec.version
    return Change(
        resource=CAPTenant.resource,
        key=tenant.key,
        patch={"metadata": {"uid": tenant.metadata.uid}, "spec": {"version": number}},
        done=f"{tenant.ref} follows from version {tenant.spec.version or 'none'} to {number}",
    )


def _waves_note(application: CAPApplication) -> str:
    """Why tenants are not changed here: the application moves them, in the order that its spec asks for."""
    progress = application.status.tenant_upgrade
    shown = f", phase {progress.phase}" if progress is not None else ""
    note = f"the tenants of {application.ref} follow in waves (spec.tenantUpgrade{shown}): name those that do not wait"
    if progress is not None and progress.phase == UpgradePhase.PAUSED:
        note += f". Resume the upgrade: {waves.resume_command(application.key)}"
    return note


def _resumed(application: CAPApplication) -> VerbPlan:
    progress, key = application.status.tenant_upgrade, application.key
    if progress is None or progress.phase != UpgradePhase.PAUSED:
        raise VerbRefused(
            f"no upgrade of {application.ref} is paused",
            fix=f"see how it is doing: stellwerk status ca/{key.name} -n {key.namespace}",
        )
    annotations = {names.RESUME_ANNOTATION: progress.version}
    change = Change(
        resource=CAPApplication.resource,
        key=key,
        patch={"metadata": {"uid": application.metadata.uid, "annotations": {**annotations}}},
        done=f"the upgrade of {application.ref} to version {progress.version} goes on",
    )
    return VerbPlan(writes=[change], awaited=[_rolled_out(application)])


def _rolled_out(application: CAPApplication) -> AwaitedObject[CAPApplication]:
    """An application all of whose tenants have followed, or failed."""

    def has_ended(latest: CAPApplication) -> bool:
        progress, has_failed = latest.status.tenant_upgrade, ends.is_stuck(latest.status)
        return progress is None or has_failed or not (progress.waiting or progress.upgrading)

    def is_good(latest: CAPApplication) -> bool:
        progress, has_failed = latest.status.tenant_upgrade, ends.is_stuck(latest.status)
        return not has_failed and (progress is None or progress.failed <= 0)

    return AwaitedObject(kind=CAPApplication, key=application.key, ended=has_ended, good=is_good)
