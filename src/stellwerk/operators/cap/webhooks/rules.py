"""What is refused of applications, tenants, outputs and domains (pure; spec section 14).

The messages of the original's rules are the original's, to the letter. Ours are about texts that would fail later:
headers, additional output, certificate authorities, DNS templates. They, and the rule about hosts, are about what a
write changes: an object that has such a text already may be changed in other respects, by the controllers too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec
from cryptography import x509

from stellwerk.apply.objects import name_validation
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import UNREADABLE, JsonObject, Unreadable
from stellwerk.operators.cap import duplicates, names
from stellwerk.operators.cap.domain import dns, hosts, naming
from stellwerk.operators.cap.domain.hosts import NOTHING_GRANTED, Grants
from stellwerk.operators.cap.domain.naming import AnyDomain
from stellwerk.operators.cap.duplicates import FindApplication
from stellwerk.operators.cap.kinds import bounds, references
from stellwerk.operators.cap.kinds.application import ApplicationState, CAPApplication, DomainRef
from stellwerk.operators.cap.kinds.domain import DomainSpec, DomainStatus
from stellwerk.operators.cap.kinds.status import READY, see_why
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOutput
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.routing import headers, targets
from stellwerk.operators.cap.routing.targets import Unroutable
from stellwerk.operators.cap.webhooks.former import field_of_spec, has_changed
from stellwerk.runtime import conditions


def problem_of_application(
    old: CAPApplication | None,
    new: CAPApplication,
    *,
    corrected: JsonObject | None = None,
    allowed_headers: Collection[str] = (),
) -> str:
    """Why an application is refused; empty where it is not.

    `corrected`: the former object, where it cannot be read. It may have had the domains already.
    `allowed_headers`: as of `headers.of_annotations`.
    """
    if problem := bounds.problem_of_size(new, old):
        return problem
    key = f"{new.metadata.namespace}.{new.metadata.name}"
    before = old.spec.provider if old is not None else None
    is_other = old is not None and new.spec.provider != before
    if corrected is not None:
        is_other = has_changed(corrected, "provider", new.spec.provider)
    if new.spec.provider is not None and is_other:
        return f"provider details cannot be changed for: {key}"
    has_domains = new.spec.domains is not None and not new.spec.domains.is_empty
    is_new = old is None and corrected is None
    if has_domains and (new.spec.domain_refs if is_new else has_references(old, corrected)):
        return f"domains are deprecated. Use domainRefs instead in: {key}"
    former = old.metadata.annotations if old is not None else {}
    brought = {key: text for key, text in new.metadata.annotations.items() if former.get(key) != text}
    try:
        headers.of_annotations(brought, str(new.ref), allowed_headers)
    except Unroutable as error:
        return str(error)
    return _additional_output(brought.get(names.ADDITIONAL_OUTPUT_ANNOTATION, ""), new)


def warnings_of_application(
    application: CAPApplication, domains: Iterable[AnyDomain], tenants: Collection[CAPTenant] = ()
) -> tuple[str, ...]:
    """What an application names that is not there. It is accepted as by the original, which does without.

    `tenants`: its own. One that has none may name canaries that are still to come.
    """
    services, annotations = application.spec.btp.services, application.metadata.annotations
    xsuaa = [each.name for each in services if each.class_name == "xsuaa"]
    chosen = annotations.get(names.PRIMARY_XSUAA_ANNOTATION, "")
    found = list[str]()
    if chosen and chosen not in xsuaa:
        found.append(
            f"annotation {names.PRIMARY_XSUAA_ANNOTATION} of {application.ref} is {chosen[:63]!r}, which is no service "
            f"of class xsuaa in spec.btp.services ({references.there_are(xsuaa)}): the first one is used"
        )
    wanted = annotations.get(names.SUBSCRIPTION_DOMAIN_ANNOTATION, "")
    served = [each.spec.domain for each in domains if naming.serves(each, application.metadata.namespace)]
    if wanted and wanted not in served:
        found.append(
            f"annotation {names.SUBSCRIPTION_DOMAIN_ANNOTATION} of {application.ref} is {wanted[:63]!r}, which is "
            f"the host of no Domain or ClusterDomain ({references.there_are(served)}): subscriptions fail until "
            "one has it"
        )
    provider = application.spec.provider
    if provider is not None and provider.sub_domain:
        field = f"spec.provider.subDomain of {application.ref}"
        found += targets.problems_of_subdomain(provider.sub_domain, field, _hosts_of(application, domains))
    if tenants and (unknown := references.problem_of_canaries(application, tenants)):
        found.append(unknown)
    return tuple(found)


def warnings_of_tenant(tenant: CAPTenant, application: CAPApplication, domains: Iterable[AnyDomain]) -> tuple[str, ...]:
    """Why a tenant cannot be reached under the hosts that its subdomain makes."""
    field = f"spec.subDomain of {tenant.ref}"
    return targets.problems_of_subdomain(tenant.spec.sub_domain, field, _hosts_of(application, domains))


def warnings_of_version(
    version: CAPApplicationVersion, application: CAPApplication, domains: Iterable[AnyDomain]
) -> tuple[str, ...]:
    """Which services of a version its application does not have, and which subdomains make impossible hosts."""
    found = references.problem_of_services(version, application)
    used = _hosts_of(application, domains)
    return (
        *((found,) if found else ()),
        *(
            problem
            for index, exposure in enumerate(version.spec.service_exposures)
            for problem in targets.problems_of_subdomain(
                exposure.sub_domain, f"spec.serviceExposures[{index}].subDomain of {version.ref}", used
            )
        ),
    )[: references.MOST_SHOWN]


def _hosts_of(application: CAPApplication, domains: Iterable[AnyDomain]) -> list[str]:
    referenced = naming.referenced_by(application)
    return [each.spec.domain for each in domains if naming.owner_id(each) in referenced]


def has_references(old: CAPApplication | None, corrected: JsonObject | None) -> bool:
    """Whether the former application refers to domains, also one that cannot be read as a whole."""
    if old is not None:
        return bool(old.spec.domain_refs)
    return corrected is not None and bool(field_of_spec(corrected, "domainRefs", tuple[DomainRef, ...]))


def _additional_output(text: str, application: CAPApplication) -> str:
    if not text:
        return ""
    try:
        msgspec.json.decode(text, type=dict[str, object])
    except UNREADABLE:
        return f"annotation {names.ADDITIONAL_OUTPUT_ANNOTATION} of {application.ref} must be a JSON object"
    return ""


def problem_of_new_tenant(
    tenant: CAPTenant, application: CAPApplication | None, applications: Iterable[str] = ()
) -> str:
    """Why a new tenant is refused; empty where it is not. `applications`: the names of those in its namespace."""
    if problem := bounds.problem_of_size(tenant):
        return problem
    return "" if application is not None else without_application(tenant, applications)


def without_application(obj: CAPTenant | CAPApplicationVersion, applications: Iterable[str]) -> str:
    """Why an object is refused whose application does not exist: the original's words, and then the name."""
    key, namespace = f"{obj.metadata.namespace}.{obj.metadata.name}", obj.metadata.namespace
    others = references.other_applications(namespace, applications)
    return f"no valid CAPApplication found for: {key}: CAPApplication {obj.application_key} does not exist {others}"


def problem_of_duplicate_tenant(
    tenant: CAPTenant, others: Iterable[CAPTenant], hidden: Iterable[Unreadable], find_application: FindApplication
) -> str:
    """Why a tenant with a tenant id that is new to it is refused; empty where it is not. `others`: those with the id,
    `hidden`: those that cannot be read. For one of these without a label of its id the controller waits.

    Jobs of both would act on the same data.
    """
    found = duplicates.of_tenant(tenant, others, find_application)
    key = f"{tenant.metadata.namespace}.{tenant.metadata.name}"
    if not found:
        for each in duplicates.hidden_from(tenant, hidden, find_application):
            if names.TENANT_ID_LABEL in each.labels:
                unread = ObjectKey(each.namespace, each.name)
                return (
                    f"CAPTenant {unread}, which cannot be read, has the label of tenantId {tenant.spec.tenant_id} of "
                    f"{key}; {see_why('cat', unread)}"
                )
        return ""
    ends = ", and is being deleted: wait until it is gone" if found[0].metadata.is_terminating else ""
    return f"{found[0].ref} has the tenantId {tenant.spec.tenant_id} of {key}, of the same provider{ends}"


def problem_of_changed_tenant(old: CAPTenant | JsonObject, new: CAPTenant) -> str:
    """Why a change of a tenant is refused; empty where it is not. `old` is JSON where it cannot be read."""
    if problem := bounds.problem_of_size(new, old if isinstance(old, CAPTenant) else new):
        return problem
    instance = new.spec.cap_application_instance
    if isinstance(old, CAPTenant):
        is_other = old.spec.cap_application_instance != instance
    else:
        is_other = has_changed(old, "capApplicationInstance", instance)
    if not is_other:
        return ""
    key = f"{new.metadata.namespace}.{new.metadata.name}"
    return f"capApplicationInstance value cannot be modified for: {key}"


def problem_of_deleted_tenant(tenant: CAPTenant, application: CAPApplication | None) -> str:
    """Why a tenant must not be deleted; empty where it may: the provider's goes with its application only."""
    if application is None or tenant.metadata.labels.get(names.TENANT_TYPE_LABEL) != names.PROVIDER:
        return ""
    provider = application.spec.provider
    is_in_use = application.status.state == ApplicationState.CONSISTENT and provider is not None
    if not is_in_use or not conditions.is_true(tenant.status.conditions, READY):
        return ""
    return (
        f"provider CAPTenant {tenant.metadata.name} cannot be deleted when a consistent CAPApplication "
        f"{application.metadata.name} exists. Delete the CAPApplication instead to delete all tenants"
    )


def problem_of_output(output: CAPTenantOutput, tenants: Iterable[CAPTenant]) -> str:
    """Why an output is refused; empty where it is not. `tenants`: those of its namespace."""
    tenant_id = output.metadata.labels.get(names.TENANT_ID_LABEL, "")
    if not tenant_id:
        return f"label {names.TENANT_ID_LABEL} missing on CAP tenant output {output.metadata.name}"
    if any(tenant.metadata.labels.get(names.TENANT_ID_LABEL) == tenant_id for tenant in tenants):
        return ""
    return (
        f"label {names.TENANT_ID_LABEL} on CAP tenant output {output.metadata.name} does not contain a valid tenant ID"
    )


def tenant_selector(output: CAPTenantOutput) -> str:
    """What selects the tenant that an output is for; empty where it names none, or no label can have that value."""
    labels: JsonObject = {names.TENANT_ID_LABEL: output.metadata.labels.get(names.TENANT_ID_LABEL, "")}
    is_usable = labels[names.TENANT_ID_LABEL] and not [*name_validation.complaints("v1", {"labels": labels})]
    return f"{names.TENANT_ID_LABEL}={labels[names.TENANT_ID_LABEL]}" if is_usable else ""


def problem_of_domain(
    old: AnyDomain | None, domain: AnyDomain, others: Iterable[AnyDomain], granted: Grants = NOTHING_GRANTED
) -> str:
    """Why a domain is refused; empty where it is not. `others`: all domains of both kinds, itself included."""
    if problem := bounds.problem_of_size(domain, old):
        return problem
    former = old.spec if old is not None else None
    is_new_host = former is None or former.domain != domain.spec.domain
    if is_new_host and (
        problem := dns.problem_of_host(domain)
        or hosts.problem_of_host(domain, granted)
        or _taken_host(domain, others, granted)
    ):
        return problem
    pem = _authority(domain.spec)
    if pem and (former is None or _authority(former) != pem):
        try:
            x509.load_pem_x509_certificates(pem.encode())
        except (ValueError, UnicodeEncodeError):
            return "spec.certConfig.additionalCACertificate must be certificates in PEM"
    if is_new_host or former is None or _templates(former) != _templates(domain.spec):
        return dns.problem_of_templates(domain)
    return ""


def _taken_host(domain: AnyDomain, others: Iterable[AnyDomain], granted: Grants) -> str:
    # Whatever its age is, it has the host from now on.
    metadata = msgspec.structs.replace(domain.metadata, creation_timestamp=None, uid="~")
    latest = msgspec.structs.replace(domain, metadata=metadata, status=DomainStatus())
    before = hosts.claims(latest, others, granted).before
    host = domain.spec.domain
    for other in before:
        if other.spec.domain == host:
            namespace, name = other.metadata.namespace, other.metadata.name
            if not namespace:
                return f"ClusterDomain {name} already exist with domain {host}"
            return f"Domain {name} already exist in namespace {namespace} with domain {host}"
    return hosts.problem_of_claims(domain, before)


def _authority(spec: DomainSpec) -> str:
    return spec.cert_config.additional_ca_certificate if spec.cert_config is not None else ""


def _templates(spec: DomainSpec) -> tuple[object, ...]:
    return spec.dns_mode, spec.dns_templates
