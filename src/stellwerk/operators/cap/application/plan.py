"""What an application needs next (pure; spec section 5).

The checks come in an order: each one that is not met is reported and waited for, and the first one that asks for a
write decides the pass. An application for which all are met is consistent.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeAlias

import msgspec

from stellwerk.apply.objects.desired import Desired
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import HasMetadata, JsonObject, PartialObjectMetadata
from stellwerk.kube.types.object_meta import Condition, kubernetes_time
from stellwerk.operators.cap import names, preparation
from stellwerk.operators.cap.application import staying
from stellwerk.operators.cap.application.inline_domains import DomainConversion
from stellwerk.operators.cap.application.progress import use_of_version
from stellwerk.operators.cap.application.refusals import Tried
from stellwerk.operators.cap.application.waves import (
    Wave,
    described,
    follows,
    has_failed_at_its_version,
    is_canary,
    next_wave,
    resume_command,
)
from stellwerk.operators.cap.domain import naming
from stellwerk.operators.cap.domain.naming import AnyDomain
from stellwerk.operators.cap.kinds import bounds, references
from stellwerk.operators.cap.kinds.application import (
    ALL_TENANTS_READY,
    LATEST_VERSION_READY,
    SECRETS_AVAILABLE,
    ApplicationState,
    ApplicationStatus,
    CAPApplication,
    DomainKind,
    DomainRef,
    UpgradePhase,
    UpgradeProgress,
)
from stellwerk.operators.cap.kinds.domain import DomainState
from stellwerk.operators.cap.kinds.status import GRANT_SECRETS, READY, condition, observed, see_why
from stellwerk.operators.cap.kinds.tenant import CAPTenant, TenantState, UpgradeStrategy, hidden_message
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion, JobType, hidden_versions_message
from stellwerk.operators.cap.names import go_json
from stellwerk.operators.cap.reasons import ApplicationReason
from stellwerk.operators.cap.routing.targets import how_to_serve
from stellwerk.operators.cap.tenant.subscription_objects import provider_tenant
from stellwerk.operators.cap.version.order import latest, latest_ready
from stellwerk.runtime import conditions
from stellwerk.runtime.reconciler import Notice, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationSnapshot:
    """What the caches show of an application and around it."""

    application: CAPApplication
    versions: Sequence[CAPApplicationVersion] = ()
    tenants: Sequence[CAPTenant] = ()
    """All that name the application, or carry its label."""
    hidden_tenants: Sequence[ObjectKey] = ()
    """Tenants of the namespace that could not be read so far: they may belong to the application."""
    refused_tenants: Mapping[ObjectKey, str] = field(default_factory=dict[ObjectKey, str])
    """Those for which a change is not tried now because it was refused, and that change."""
    hidden_versions: Sequence[ObjectKey] = ()
    """Versions that could not be read so far and may be of the application: one of them may be its newest."""
    domains: Mapping[DomainRef, AnyDomain] = field(default_factory=dict[DomainRef, AnyDomain])
    """Those that the application refers to and that exist."""
    offered_domains: Sequence[DomainRef] = ()
    """Those that it could refer to, where one to which it refers does not exist."""
    hidden_domains: Sequence[DomainRef] = ()
    """Those that exist and could not be read so far."""
    missing_secrets: Sequence[str] = ()
    """Secrets of services that do not exist."""
    unknown_secrets: str = ""
    """Why it is not known which Secrets exist; empty where it is."""
    ending_secrets: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """Secrets of services that are being deleted, each with the finalizers that still hold it."""
    held_secrets: Sequence[PartialObjectMetadata] = ()
    """Secrets of the namespace with the finalizer that the first releases of the original gave them."""
    conversion: DomainConversion | None = None
    """What becomes of domains that are written into the application."""
    unowned_context: HasMetadata | None = None
    """The Secret with the payload of the provider's tenant, where the tenant does not own it yet."""
    lost_context: Desired | None = None
    """The Secret with that payload, where it does not exist and the tenant needs it."""


_DELETING = "the application is being deleted"
_NO_HOSTS = "{}"
"""What the status shows of an application without domains."""


# ---- what may be decided


@dataclass(frozen=True, slots=True)
class Prepare:
    """Labels, annotations or the finalizer are absent: write them."""

    lacking: JsonObject


@dataclass(frozen=True, slots=True)
class ReleaseSecrets:
    """Secrets carry a finalizer that nothing removes any more, so that none of them could be deleted."""

    secrets: Sequence[PartialObjectMetadata]


@dataclass(frozen=True, slots=True)
class ConvertDomains:
    """Domains that are written into the application have to become objects."""

    conversion: DomainConversion


@dataclass(frozen=True, slots=True)
class CreateProvider:
    """The tenant of the provider, and the Secret with the payload of its subscription, have to be created."""

    version: CAPApplicationVersion


@dataclass(frozen=True, slots=True)
class OwnContext:
    """The tenant of the provider has to own the Secret with its payload, so that the Secret goes with it."""

    tenant: CAPTenant
    secret: HasMetadata


@dataclass(frozen=True, slots=True)
class RestoreContext:
    """The Secret with the payload of the provider is gone before the tenant was provisioned: create it again."""

    secret: Desired


@dataclass(frozen=True, slots=True)
class DeleteTenants:
    """The tenants of the provider have to be deleted; on request, all."""

    tenants: Sequence[CAPTenant]


@dataclass(frozen=True, slots=True)
class SetVersions:
    """Tenants have to follow to a version."""

    tenants: Sequence[CAPTenant]
    version: str


@dataclass(frozen=True, slots=True)
class Release:
    """No tenant is left: remove the finalizer."""


Write: TypeAlias = (
    Prepare
    | ReleaseSecrets
    | ConvertDomains
    | CreateProvider
    | OwnContext
    | RestoreContext
    | DeleteTenants
    | SetVersions
    | Release
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to write, and what to report after it."""

    write: Write | None = None
    status: ApplicationStatus | None = None
    notices: tuple[Notice, ...] = ()
    again: bool = False
    """Whether another pass is due at once."""
    again_seconds: float | None = None
    """When another pass is due though nothing changes."""
    exposes: CAPApplicationVersion | None = None
    """The version whose service exposures have to be reached."""
    has_failed: bool = False
    """Whether the pass counts as a failed one, although there is nothing to repeat."""
    change: str = ""
    """What `due` tenants need, as `moved to version 2`; empty where the pass did not come so far."""
    due: Sequence[CAPTenant] = ()
    """All tenants that need the change, also those for which it is not tried now."""


def decide(seen: ApplicationSnapshot, now: datetime) -> Decision:
    """Decide what the application needs next."""
    plan = _Plan(seen, now)
    if seen.application.metadata.is_terminating:
        return plan.held_secrets() or plan.deletion()
    return (
        plan.identity()
        or plan.size()
        or plan.metadata()
        or plan.held_secrets()
        or plan.inline_domains()
        or plan.begin()
        or plan.secrets()
        or plan.domains()
        or plan.domain_hosts()
        or plan.versions()
    )


@dataclass(frozen=True, slots=True)
class _Plan:
    seen: ApplicationSnapshot
    now: datetime

    @property
    def application(self) -> CAPApplication:
        return self.seen.application

    # ---- before anything else

    def identity(self) -> Decision | None:
        spec = self.application.spec
        if spec.provider_subaccount_id or spec.global_account_id:
            return None
        message = (
            f"{self.application.ref} has no spec.providerSubaccountId: set it to the id of the provider's subaccount"
        )
        return self._report(ApplicationState.ERROR, ApplicationReason.MissingProviderSubaccountId, message)

    def size(self) -> Decision | None:
        problem = bounds.problem_of_size(self.application)
        if not problem:
            return None
        message = f"{self.application.ref}: {problem}"
        notice = Notice(ApplicationReason.SpecTooLarge, message, Severity.WARNING, ApplicationReason.SpecTooLarge)
        return self._report(ApplicationState.ERROR, ApplicationReason.SpecTooLarge, message, notice)

    def metadata(self) -> Decision | None:
        spec = self.application.spec
        labels, annotations = names.application_labels(spec), names.application_annotations(spec)
        lacking = preparation.absent(
            self.application, names.APPLICATION_FINALIZER, labels, annotations, former=names.former_identity(spec)
        )
        return Decision(write=Prepare(lacking), again=True) if lacking is not None else None

    def held_secrets(self) -> Decision | None:
        held = self.seen.held_secrets
        return Decision(write=ReleaseSecrets(held), again=True) if held else None

    def inline_domains(self) -> Decision | None:
        conversion = self.seen.conversion
        return Decision(write=ConvertDomains(conversion), again=True) if conversion is not None else None

    def begin(self) -> Decision | None:
        status, generation = self.application.status, self.application.metadata.generation
        if status.state == ApplicationState.UNKNOWN:
            reason, message = ApplicationReason.ApplicationProcessing, "the application is new"
        elif status.state == ApplicationState.CONSISTENT and status.observed_generation != generation:
            reason, message = ApplicationReason.ResourceDefinitionChanged, "the spec of the application has changed"
        else:
            return None
        decision = self._report(ApplicationState.PROCESSING, reason, message, again=True)
        if self.application.spec.domain_refs or status.domain_spec_hash:
            return decision
        assert decision.status is not None
        return replace(decision, status=msgspec.structs.replace(decision.status, domain_spec_hash=_NO_HOSTS))

    # ---- what the application refers to

    def secrets(self) -> Decision | None:
        if self.seen.unknown_secrets:
            reason = ApplicationReason.ProcessingSecretsError
            message = f"{self.seen.unknown_secrets}. {GRANT_SECRETS}"
            notice = Notice(reason, message, Severity.WARNING, ApplicationReason.ProcessingSecrets)
            return replace(self._report(ApplicationState.ERROR, reason, message, notice), has_failed=True)
        missing = self.seen.missing_secrets
        if not missing:
            return None
        namespace = self.application.metadata.namespace
        listed = conditions.first_of(missing)
        message = f"waiting for secrets in namespace {namespace}: {listed}. Create the service bindings that write them"
        notice = Notice(
            ApplicationReason.MissingSecrets, message, Severity.WARNING, ApplicationReason.ProcessingSecrets
        )
        state = ApplicationState(self.application.status.state)
        return self._report(state, ApplicationReason.ProcessingSecrets, message, notice)

    def domains(self) -> Decision | None:
        reason, domains = ApplicationReason.ProcessingDomainReferences, self.seen.domains
        missing = [each for each in self.application.spec.domain_refs if each not in domains]
        hidden = {*self.seen.hidden_domains}
        if absent := [each for each in missing if each not in hidden]:
            message = f"waiting for domains: {self._absent(absent)}"
            notice = Notice(ApplicationReason.MissingDomainReferences, message, Severity.WARNING, reason)
            return self._report(ApplicationState.PROCESSING, reason, message, notice)
        for domain in domains.values():
            if domain.status.state == DomainState.ERROR:
                shown = conditions.find(domain.status.conditions, READY)
                message = shown.message if shown is not None else f"{domain.ref} is in state Error"
                return self._report(ApplicationState.ERROR, reason, message)
        for reference, domain in domains.items():
            if domain.status.state != DomainState.READY:
                message = f"waiting for {_domain_name(reference)}, which is not Ready; {self._why(reference)}"
                return self._report(ApplicationState.PROCESSING, reason, message)
        if missing:
            named = ", ".join(map(_domain_name, missing))
            return self._unread(reason, f"waiting for domains that cannot be read: {named}; {self._why(missing[0])}")
        return None

    def _absent(self, absent: Sequence[DomainRef]) -> str:
        """Which domains do not exist, which ones do, and how to see them."""
        namespace, named = self.application.metadata.namespace, conditions.first_of([*map(_domain_name, absent)])
        verb = "does" if len(absent) == 1 else "do"
        which = f"{named}, which {verb} not exist"
        commands = [f"kubectl get domains -n {namespace}"]
        if cluster_wide := [each for each in absent if each.kind == DomainKind.CLUSTER_DOMAIN]:
            which += f" or {verb} not serve namespace {namespace}"
            commands = [*(commands if len(cluster_wide) < len(absent) else ()), "kubectl get clusterdomains"]
        text = (
            f"{which} ({references.there_are(map(_domain_name, self.seen.offered_domains))}): create it, or correct "
            f"spec.domainRefs. See them with: {', '.join(commands)}"
        )
        return f"{text}. {how_to_serve(cluster_wide[0].name)}" if cluster_wide else text

    def _why(self, domain: DomainRef) -> str:
        if domain.kind == DomainKind.CLUSTER_DOMAIN:
            return see_why("cdom", ObjectKey("", domain.name))
        return see_why("dom", ObjectKey(self.application.metadata.namespace, domain.name))

    def domain_hosts(self) -> Decision | None:
        """The hosts that were last acted on. Routes and DNS records follow the domains by themselves."""
        hosts: JsonObject = {naming.owner_id(each): each.spec.domain for each in self.seen.domains.values()}
        text = go_json(hosts, sorts=True)
        if text == (self.application.status.domain_spec_hash or _NO_HOSTS):
            return None
        return Decision(status=msgspec.structs.replace(self.application.status, domain_spec_hash=text), again=True)

    # ---- versions and tenants

    def versions(self) -> Decision:
        version = latest_ready(self.seen.versions)
        if version is not None:
            stay = staying.staying_tenants(self.seen.tenants, version, self.seen.versions, {*self.seen.hidden_versions})
            return self._services_only(version) or self._provider(version, stay) or self._tenants(version, stay)
        if self.seen.hidden_versions:
            message = hidden_versions_message(self.seen.hidden_versions)
            return self._unread(ApplicationReason.WaitingForReadyCAPApplicationVersion, message)
        reason = ApplicationReason.WaitingForReadyCAPApplicationVersion
        namespace = self.application.metadata.namespace
        message = (
            f"waiting for a CAPApplicationVersion of {self.application.ref} that is Ready; "
            f"next: stellwerk get cav -n {namespace}"
        )
        waits = self._condition(LATEST_VERSION_READY, False, reason, message)
        return self._report(ApplicationState.PROCESSING, reason, message, more=(waits,))

    def _exposed(self, version: CAPApplicationVersion, stay: Sequence[CAPTenant]) -> CAPApplicationVersion | None:
        """The version whose service exposures have to be reached; None: they stay as they are."""
        if self.seen.hidden_versions:
            return None
        return staying.highest_of(stay, self.seen.versions) or version

    def _remarks(self, version: CAPApplicationVersion, stay: Sequence[CAPTenant]) -> str:
        """What does not follow to the version, as the end of a message; empty where all does."""
        hidden, remarks = self.seen.hidden_versions, list[str]()
        if stays := staying.described(self.application, stay, version, self.seen.versions):
            remarks.append(stays)
        if hidden:
            remarks.append(f"Service exposures stay as they are: {hidden_versions_message(hidden)}")
        if unknown := self._unknown_canaries():
            remarks.append(unknown)
        return "".join(f". {remark}" for remark in remarks)

    def _unknown_canaries(self) -> str:
        """The canaries that are no tenants, next to others that are: if none of them is, the upgrade pauses."""
        policy = self.application.spec.tenant_upgrade
        if policy is None or self.seen.hidden_tenants:
            return ""
        canaries = frozenset(policy.canary_tenants)  # there may be a thousand of them, and many more tenants
        is_known = any(is_canary(each, canaries) for each in self.seen.tenants)
        return references.problem_of_canaries(self.application, self.seen.tenants) if is_known else ""

    def _unread(self, reason: ApplicationReason, message: str) -> Decision:
        """Nothing is decided by what cannot be read: an application that is Ready stays so."""
        if not conditions.is_true(self.application.status.conditions, READY):
            return self._report(ApplicationState.PROCESSING, reason, message)
        return self._report(ApplicationState.CONSISTENT, ApplicationReason.VersionExists, message, is_ready=True)

    def _services_only(self, version: CAPApplicationVersion) -> Decision | None:
        wanted, status = is_services_only(self.application, version), self.application.status
        if status.services_only is None:
            return Decision(status=msgspec.structs.replace(status, services_only=wanted), again=True)
        if status.services_only == wanted:
            return None
        kinds = {True: "services only", False: "tenants"}
        message = (
            f"{version.ref} is for {kinds[wanted]}, and {self.application.ref} began with a version for "
            f"{kinds[status.services_only]}: that cannot be changed. Use another CAPApplication"
        )
        reason = ApplicationReason.LatestVersionNotReady
        refusal = self._condition(LATEST_VERSION_READY, False, reason, message)
        notice = Notice(reason, message, Severity.WARNING, "CheckForVersion")
        notices = (notice,) if self._is_news(LATEST_VERSION_READY, reason, message) else ()
        return Decision(status=self._with(refusal), notices=notices, has_failed=True)

    def _provider(self, version: CAPApplicationVersion, stay: Sequence[CAPTenant]) -> Decision | None:
        provider = self.application.spec.provider
        if self.application.status.services_only or provider is None or provider.is_empty:
            return None
        tenant = provider_tenant(self.application, self.seen.tenants)
        reason = ApplicationReason.ProviderTenantProcessing
        if tenant is None:
            name = f"{self.application.metadata.namespace}.{names.provider_name(self.application)}"
            message = f"provider tenant {name} is created"
            notice = Notice(ApplicationReason.ProviderTenantCreated, message, action=reason)
            decision = self._report(ApplicationState.PROCESSING, reason, message, notice)
            return replace(decision, write=CreateProvider(version))
        if self.seen.unowned_context is not None:
            return Decision(write=OwnContext(tenant, self.seen.unowned_context), again=True)
        if self.seen.lost_context is not None:
            return Decision(write=RestoreContext(self.seen.lost_context))  # the new Secret wakes the application
        if tenant not in stay and tenant.spec.version != version.spec.version and follows(tenant):
            return None  # it follows like all others, also from a version that it could not reach
        # One that never follows serves at the version that it has: no later version could end the wait for it.
        is_pinned = tenant.spec.version_upgrade_strategy == UpgradeStrategy.NEVER and tenant.status.current_version
        if has_failed_at_its_version(tenant) and not is_pinned:
            shown = conditions.find(tenant.status.conditions, READY)
            message = shown.message if shown is not None else f"{tenant.ref} is in state {tenant.status.state}"
            return self._report(ApplicationState.ERROR, ApplicationReason.ProviderTenantError, message)
        if not conditions.is_true(tenant.status.conditions, READY):
            message = f"waiting for provider {tenant.ref}, which is not Ready; {see_why('cat', tenant.key)}"
            return self._report(ApplicationState.PROCESSING, reason, message)
        return None

    def _tenants(self, version: CAPApplicationVersion, stay: Sequence[CAPTenant]) -> Decision:
        """The application is consistent; its tenants follow to the latest version that is Ready."""
        if self.application.status.services_only:
            return self._consistent(version, None, stay)
        change = f"moved to version {version.spec.version}"
        refused = self._refused(change)
        wave = next_wave(
            self.application,
            self.seen.tenants,
            version,
            self.now,
            staying={each.key for each in stay},
            refused=refused,
        )
        if due := [*wave.tenants, *(each for each in wave.due if each.key in refused)]:
            reason = ApplicationReason.NewCAVTriggeredTenantUpgrade
            follow = "tenant follows" if len(due) == 1 else "tenants follow"
            named = conditions.first_of([tenant.metadata.name for tenant in due])
            message = f"{len(due)} {follow} to version {version.spec.version}: {named}{self._remarks(version, stay)}"
            notice = Notice(reason, message, action="CheckForVersion")
            far = described(wave.progress) if wave.progress is not None else message
            waits = self._condition(ALL_TENANTS_READY, False, ApplicationReason.NotAllTenantsReady, far)
            news = (notice,) if wave.tenants else ()
            decision = self._report(ApplicationState.PROCESSING, reason, message, *news, more=(waits,))
            write = SetVersions(wave.tenants, version.spec.version) if wave.tenants else None
            decision = replace(decision, write=write, exposes=self._exposed(version, stay))
        else:
            decision = self._consistent(version, wave, stay)
        assert decision.status is not None
        status = msgspec.structs.replace(decision.status, tenant_upgrade=wave.progress)
        notices = (*decision.notices, *self._pause(wave))
        return replace(
            decision,
            status=status,
            notices=notices,
            again_seconds=wave.again_seconds,
            change=change,
            due=wave.due,
        )

    def _refused(self, change: str) -> Collection[ObjectKey]:
        return {key for key, each in self.seen.refused_tenants.items() if each == change}

    def _pause(self, wave: Wave) -> Sequence[Notice]:
        """The Event about an upgrade that has just paused."""
        before, progress = self.application.status.tenant_upgrade, wave.progress
        if progress is None or not wave.pause_cause:
            return ()
        if before is not None and (before.phase, before.version) == (UpgradePhase.PAUSED, progress.version):
            return ()
        message = self._paused(progress, wave.pause_cause)
        return (Notice(ApplicationReason.UpgradePaused, message, Severity.WARNING, "CheckForVersion"),)

    def _paused(self, progress: UpgradeProgress, cause: str) -> str:
        return f"the upgrade to version {progress.version} is paused: {self._resume(cause)}"

    def _resume(self, cause: str) -> str:
        return f"{cause}. Resume it with: {resume_command(self.application.key)}"

    def _consistent(self, version: CAPApplicationVersion, wave: Wave | None, stay: Sequence[CAPTenant]) -> Decision:
        """`wave` is None for an application that has no tenants.

        While a version cannot be read, it is not known which one is the newest.
        """
        more = list[Condition]()
        if not self.seen.hidden_versions:
            newest = latest(self.seen.versions) or version
            is_ready = conditions.is_true(newest.status.conditions, READY)
            reason = ApplicationReason.LatestVersionReady if is_ready else ApplicationReason.LatestVersionNotReady
            message = f"{newest.ref} is {'' if is_ready else 'not '}Ready"
            more.append(self._condition(LATEST_VERSION_READY, is_ready, reason, message))
        if wave is not None:
            more.append(self._tenants_ready(version, wave, stay))
        reason, message = ApplicationReason.VersionExists, self._use(version, wave) + self._remarks(version, stay)
        decision = self._report(ApplicationState.CONSISTENT, reason, message, more=more, is_ready=True)
        return replace(decision, exposes=self._exposed(version, stay))

    def _use(self, version: CAPApplicationVersion, wave: Wave | None) -> str:
        """How many tenants have the version that all are to have, and why no further one gets it."""
        tenants = self.seen.tenants if wave is not None else ()
        have = sum(each.status.current_version == version.metadata.name for each in tenants)
        message = use_of_version(version.spec.version, have, len(tenants))
        if wave is None or wave.progress is None or not wave.pause_cause:
            return message
        return f"{message}; {self._paused(wave.progress, wave.pause_cause)}"

    def _tenants_ready(self, version: CAPApplicationVersion, wave: Wave, stay: Sequence[CAPTenant]) -> Condition:
        tenants, hidden = self.seen.tenants, self.seen.hidden_versions
        # A version that is being deleted gets no tenants, and a hidden one may: then none is known to be awaited.
        offered = [each for each in self.seen.versions if not each.metadata.is_terminating]
        awaited = (version if hidden else latest(offered) or version).spec.version
        stay_too = {each.key for each in stay}
        are_ready = all(_is_ready(each) and (each.key in stay_too or _is_settled(each, awaited)) for each in tenants)
        reason = ApplicationReason.AllTenantsReady if are_ready else ApplicationReason.NotAllTenantsReady
        far = f"{sum(map(_is_ready, tenants))}/{len(tenants)} tenants are ready"
        if wave.progress is not None:
            far += f"; {described(wave.progress)}"
            far += f". {self._resume(wave.pause_cause)}" if wave.pause_cause else ""
        return self._condition(ALL_TENANTS_READY, are_ready, reason, far)

    # ---- deletion

    def deletion(self) -> Decision:
        metadata, status = self.application.metadata, self.application.status
        if names.APPLICATION_FINALIZER not in metadata.finalizers:
            return Decision()
        if status.state != ApplicationState.DELETING:
            return self._report(ApplicationState.DELETING, ApplicationReason.DeleteTriggered, _DELETING, again=True)
        if status.services_only or not (self.seen.tenants or self.seen.hidden_tenants):
            return Decision(write=Release())
        if not self.seen.tenants:
            message = hidden_message(self.seen.hidden_tenants)
            return self._report(ApplicationState.DELETING, ApplicationReason.TenantsExist, message)
        takes_all = metadata.annotations.get(names.DELETE_TENANTS_ANNOTATION, "").lower() == "true"
        due = [
            tenant
            for tenant in self.seen.tenants
            if (takes_all or tenant.metadata.labels.get(names.TENANT_TYPE_LABEL) == names.PROVIDER)
            and not tenant.metadata.is_terminating
        ]
        total = len(self.seen.tenants)
        count = "1 tenant" if total == 1 else f"{total} tenants"
        message = f"waiting for {count} to be deleted: stellwerk get cat -n {metadata.namespace}"
        decision = self._report(ApplicationState.DELETING, ApplicationReason.TenantsExist, message)
        change = "deleted"
        refused = self._refused(change)
        tried = [tenant for tenant in due if tenant.key not in refused]
        return replace(decision, write=DeleteTenants(tried) if tried else None, change=change, due=due)

    # ---- changes of tenants that are refused

    def refused(self, decision: Decision, message: str, tried: Tried, again_seconds: float) -> Decision:
        before, reason = self.application.status, ApplicationReason.TenantChangeRefused
        former, shown = conditions.find(before.conditions, READY), decision.status or before
        is_in_vain = tried.is_refused and not tried.is_changed
        if is_in_vain and former is not None and former.reason == reason:
            shown = before  # the decision counts the tenants as under way
        is_terminating = self.application.metadata.is_terminating
        status = msgspec.structs.replace(
            observed(self.application, shown, self.now, self._condition(READY, False, reason, message)),
            state=ApplicationState.DELETING if is_terminating else ApplicationState.ERROR,
            last_full_reconciliation_time=before.last_full_reconciliation_time,
        )
        moved = ApplicationReason.NewCAVTriggeredTenantUpgrade
        notices = [each for each in decision.notices if not (is_in_vain and each.reason == moved)]
        if self._is_news(READY, reason, message):
            notices.append(Notice(reason, message, Severity.WARNING, reason))
        delays = [each for each in (decision.again_seconds, again_seconds) if each is not None]
        return replace(
            decision,
            status=status,
            notices=tuple(notices),
            again=tried.is_refused,
            again_seconds=min(delays),
            has_failed=tried.is_refused,
        )

    def refused_before(self, decision: Decision, message: str) -> Decision:
        """No tenant is tried now: what was refused is no error until one is."""
        shown = decision.status
        far = conditions.find(shown.conditions, ALL_TENANTS_READY) if shown is not None else None
        if shown is None or far is None:
            return decision
        far = msgspec.structs.replace(far, message=f"{far.message}; {message}")
        return replace(decision, status=observed(self.application, shown, self.now, far))

    # ---- the status

    def _report(
        self,
        state: ApplicationState,
        reason: ApplicationReason,
        message: str,
        *notices: Notice,
        more: Sequence[Condition] = (),
        again: bool = False,
        is_ready: bool = False,
    ) -> Decision:
        """Report this. The state does not decide whether the application is Ready: it may stay while a check fails."""
        before = self.application.status
        at_risk, warnings = self._secrets_in_use()
        status = msgspec.structs.replace(
            self._with(self._condition(READY, is_ready, reason, message), *more, *at_risk),
            state=state,
            observed_subdomains=observed_subdomains(self.seen),
        )
        if is_ready and (before.state != state or not conditions.is_true(before.conditions, READY)):
            status = msgspec.structs.replace(status, last_full_reconciliation_time=kubernetes_time(self.now))
        news = notices if self._is_news(READY, reason, message) else ()
        return Decision(status=status, notices=(*news, *warnings), again=again)

    def _is_news(self, type_: str, reason: ApplicationReason, message: str) -> bool:
        """Whether a condition does not show as much already: then it is worth an Event."""
        shown = conditions.find(self.application.status.conditions, type_)
        return shown is None or (shown.reason, shown.message) != (reason, conditions.truncated(message))

    def _secrets_in_use(self) -> tuple[Sequence[Condition], Sequence[Notice]]:
        """The condition about Secrets of services that are being deleted, and an Event when that is news.

        An application of which no Secret was ever deleted does not show the condition.
        """
        ending, shown = self.seen.ending_secrets, self.application.status.conditions
        if not ending:
            reason = ApplicationReason.SecretsAvailable
            over = self._condition(SECRETS_AVAILABLE, True, reason, "no Secret is being deleted")
            return ((over,) if conditions.find(shown, SECRETS_AVAILABLE) is not None else ()), ()
        listed = conditions.first_of([f"{name} (held by {', '.join(by)})" for name, by in sorted(ending.items())])
        message = (
            f"Secrets that the services of {self.application.ref} use are being deleted: {listed}. Pods that start "
            "without them have no credentials: create the service bindings again when the Secrets are gone"
        )
        reason = ApplicationReason.SecretBeingDeleted
        risk = self._condition(SECRETS_AVAILABLE, False, reason, message)
        is_news = self._is_news(SECRETS_AVAILABLE, reason, message)
        return (risk,), ((Notice(reason, message, Severity.WARNING, reason),) if is_news else ())

    def _with(self, *changed: Condition) -> ApplicationStatus:
        return observed(self.application, self.application.status, self.now, *changed)

    def _condition(self, type_: str, holds: bool, reason: ApplicationReason, message: str) -> Condition:
        return condition(self.application, holds, reason, message, type=type_)


def with_refusals(
    seen: ApplicationSnapshot,
    decision: Decision,
    message: str,
    now: datetime,
    tried: Tried,
    *,
    again_seconds: float | None,
) -> Decision:
    """The decision where changes of tenants were refused, as the message shows.

    `again_seconds`: when the next of them may be tried again; None where all may be, and wait for a window or room.
    After a refusal another pass is due at once, because the room of the tenant is that of others.
    """
    plan = _Plan(seen, now)
    if again_seconds is None and seen.refused_tenants:
        again_seconds = 0.0  # this pass left them out, and their time has come meanwhile
    if again_seconds is None:
        return plan.refused_before(decision, message)
    return plan.refused(decision, message, tried, again_seconds)


def is_services_only(application: CAPApplication, version: CAPApplicationVersion) -> bool:
    """Whether the application has no tenants: no provider, and no job for tenants."""
    provider = application.spec.provider
    jobs = (workload.job for workload in version.spec.workloads)
    has_tenant_jobs = any(job is not None and job.type != JobType.CONTENT for job in jobs)
    return not has_tenant_jobs and (provider is None or provider.is_empty)


def observed_subdomains(seen: ApplicationSnapshot) -> tuple[str, ...]:
    """The subdomains of all tenants and service exposures, sorted.

    Former ones stay while a tenant or version cannot be read: the DNS entry of a subdomain that is absent is deleted.
    """
    found = {exposure.sub_domain for version in seen.versions for exposure in version.spec.service_exposures}
    found |= {tenant.spec.sub_domain for tenant in seen.tenants}
    if seen.hidden_tenants or seen.hidden_versions:
        found |= {*seen.application.status.observed_subdomains}
    return tuple(sorted(found))


def _domain_name(reference: DomainRef) -> str:
    return f"{reference.kind} {reference.name}"


def _is_ready(tenant: CAPTenant) -> bool:
    """Whether a tenant is at rest. The condition Ready stays where an upgrade runs or has failed: it still serves."""
    return tenant.status.state == TenantState.READY and conditions.is_true(tenant.status.conditions, READY)


def _is_settled(tenant: CAPTenant, version: str) -> bool:
    """Whether a tenant awaits no other version than it has, where `version` is the newest."""
    return tenant.spec.version_upgrade_strategy != UpgradeStrategy.ALWAYS or tenant.spec.version == version
