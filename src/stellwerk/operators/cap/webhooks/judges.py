"""Decides about writes of users with what the caches show.

A cache may not show yet what was just created, so what is missing there is asked for once before a write is refused.
No judge writes: it is asked before others have admitted the object, and callers of its port prove nothing. The path
that mutates objects with the original changes nothing: a configuration of the original may still call it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from stellwerk.apply.objects import name_validation
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import HasMetadata, PartialObjectMetadata
from stellwerk.operators.cap import duplicates
from stellwerk.operators.cap.application import inline_domains
from stellwerk.operators.cap.domain import hosts
from stellwerk.operators.cap.domain.naming import AnyDomain
from stellwerk.operators.cap.duplicates import BY_SPEC_ID
from stellwerk.operators.cap.kinds import references
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.domain import ClusterDomain, Domain
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOutput
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.webhooks import rules, version
from stellwerk.operators.cap.webhooks.former import has_changed
from stellwerk.runtime.cache.informer import Informer
from stellwerk.runtime.serving.webhook import Admission, Allowed, Decide, Decision, Denied, Judge, Webhook

T = TypeVar("T", bound=HasMetadata)

VALIDATE, MUTATE = "/validate", "/mutate"
_DEPRECATED = "CAPApplication Spec.Domains is deprecated, use Spec.DomainRefs instead"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judges:
    """The webhooks of all kinds."""

    client: Client
    applications: Informer[CAPApplication]
    tenants: Informer[CAPTenant]
    domains: Informer[Domain]
    cluster_domains: Informer[ClusterDomain]
    namespaces: Informer[PartialObjectMetadata]
    derives_tenant_jobs: bool = False
    """Whether versions without a job for tenants may be created, as with the first releases."""
    allowed_headers: Collection[str] = ()
    """As of `headers.of_annotations`."""

    def webhooks(self) -> tuple[Judge, ...]:
        """One for each path and kind."""
        return (
            _webhook(VALIDATE, CAPApplication, self.application),
            _webhook(VALIDATE, CAPApplicationVersion, self.version),
            _webhook(VALIDATE, CAPTenant, self.tenant),
            _webhook(VALIDATE, CAPTenantOutput, self.output),
            _webhook(VALIDATE, Domain, self.domain),
            _webhook(VALIDATE, ClusterDomain, self.domain),
            _webhook(MUTATE, CAPApplication, lambda _: Allowed()),
        )

    # ---- validation

    async def application(self, admission: Admission[CAPApplication]) -> Decision:
        """May this application be created or changed? Its controller converts the domains that are written into it."""
        if admission.new is None:
            return Allowed()
        old, new = admission.old, admission.new
        problem_of = partial(
            rules.problem_of_application,
            old,
            new,
            corrected=admission.corrected,
            allowed_headers=self.allowed_headers,
        )
        if problem := await admission.judged(problem_of):
            return Denied(problem)
        is_news = old is None or (old.spec, old.metadata.annotations) != (new.spec, new.metadata.annotations)
        warn = partial(rules.warnings_of_application, new, self._domains(), self._tenants_of(new))
        warnings = await admission.judged(warn) if is_news else ()
        if new.spec.domains is None or new.spec.domains.is_empty:
            return Allowed(warnings)
        convert = partial(inline_domains.conversion, new, self.domains.store.all(), self.cluster_domains.store.all())
        found = await admission.judged(convert)
        if found is None or not found.problem:
            return Allowed((_DEPRECATED, *warnings))
        # Clients must be able to change the rest of an application, and to release one that is being deleted.
        is_same = admission.corrected is not None or (old is not None and old.spec.domains == new.spec.domains)
        return Allowed((_DEPRECATED, found.problem)) if is_same else Denied(found.problem)

    async def version(self, admission: Admission[CAPApplicationVersion]) -> Decision:
        """May this version be created or changed?"""
        old, new = admission.old, admission.new
        if new is None:
            return Allowed()
        if old is not None:
            return _decision(await admission.judged(partial(version.problem_of_change, old, new)))
        if admission.corrected is not None and (problem := version.problem_of_correction(admission.corrected, new)):
            return Denied(problem)
        application = await self._application(admission.key.namespace, new.spec.application)
        derives = self.derives_tenant_jobs
        others = () if application is not None else self._applications(admission.key.namespace)
        judge = partial(version.problem_of_new, new, application, others, derives_tenant_jobs=derives)
        if problem := await admission.judged(judge):
            return Denied(problem)
        if application is None:
            return Allowed()
        warn = partial(rules.warnings_of_version, new, application, self._domains())
        return Allowed(await admission.judged(warn))

    async def tenant(self, admission: Admission[CAPTenant]) -> Decision:
        """May this tenant be created, changed or deleted?"""
        old, new = admission.old, admission.new
        if old is not None and new is not None:
            problem = rules.problem_of_changed_tenant(old, new)
            is_same = old.spec.tenant_id == new.spec.tenant_id
            return _decision(problem or ("" if is_same else self._duplicate(new)))
        subject, former = new or old, admission.corrected
        if subject is None:
            return Allowed()
        if former is not None and (problem := rules.problem_of_changed_tenant(former, subject)):
            return Denied(problem)
        application = await self._application(admission.key.namespace, subject.spec.cap_application_instance)
        if new is not None:
            others = () if application is not None else self._applications(admission.key.namespace)
            problem = rules.problem_of_new_tenant(new, application, others)
            is_same = former is not None and not has_changed(former, "tenantId", new.spec.tenant_id)
            problem = problem or ("" if is_same else self._duplicate(new))
            if problem or application is None:
                return _decision(problem)
            return Allowed(rules.warnings_of_tenant(new, application, self._domains()))
        return _decision(rules.problem_of_deleted_tenant(subject, application))

    def _tenants_of(self, application: CAPApplication) -> Sequence[CAPTenant]:
        """The tenants among which canaries are looked for; none if no canary is named, or not all can be read."""
        policy = application.spec.tenant_upgrade
        if policy is None or not policy.canary_tenants or self.tenants.hidden:
            return ()
        return [each for each in self.tenants.store.all() if each.application_key == application.key]

    def _duplicate(self, tenant: CAPTenant) -> str:
        """Why a tenant id is refused. Two tenants at the same moment are found by their controller."""
        others = self.tenants.store.by(BY_SPEC_ID, *duplicates.by_tenant_id(tenant))
        unreadable = self.tenants.unreadable
        hidden = [unreadable[key] for key in self.tenants.hidden]
        return rules.problem_of_duplicate_tenant(tenant, others, hidden, self.applications.store.get)

    async def output(self, admission: Admission[CAPTenantOutput]) -> Decision:
        """May this output be created or changed?"""
        if admission.new is None:
            return Allowed()
        new, namespace = admission.new, admission.key.namespace
        known = (each for each in self.tenants.store.all() if each.metadata.namespace == namespace)
        problem = rules.problem_of_output(new, known)
        if problem and (selected := rules.tenant_selector(new)):
            problem = rules.problem_of_output(
                new, (await self.client.list(CAPTenant, namespace, labels=selected)).items
            )
        return _decision(problem)

    async def domain(self, admission: Admission[Domain] | Admission[ClusterDomain]) -> Decision:
        """May this domain be created or changed? Two at the same moment are found by their controller."""
        new = admission.new
        if new is None:
            return Allowed()
        others = self._domains()
        granted = hosts.grants(self.namespaces.store.all())
        return _decision(await admission.judged(partial(rules.problem_of_domain, admission.old, new, others, granted)))

    def _domains(self) -> Sequence[AnyDomain]:
        return (*self.domains.store.all(), *self.cluster_domains.store.all())

    def _applications(self, namespace: str) -> Sequence[str]:
        return references.names_in(namespace, self.applications.store.all())

    async def _application(self, namespace: str, name: str) -> CAPApplication | None:
        shown = self.applications.store.get(ObjectKey(namespace, name))
        if shown is None and not name_validation.is_subdomain(name):
            return None  # no object has such a name
        return shown or await self.client.find(CAPApplication, name, namespace)


def _decision(problem: str) -> Decision:
    return Denied(problem) if problem else Allowed()


def _webhook(path: str, kind: type[T], decide: Decide[T]) -> Judge:
    """A webhook whose denials start as those of the original."""
    return Webhook(path, kind, decide, denial_prefix=f"invalidated from webhook {kind.__name__} ")
