"""The DNS names of a domain, from its mode or its templates. Pure; templates are executed by the native renderer.

A template whose name contains `.subDomain` makes one record for each subdomain of the applications that refer to the
domain, any other one record. Fixed modes need no template engine.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from stellwerk.operators.cap.domain import hosts, naming
from stellwerk.operators.cap.domain.errors import DomainProblem
from stellwerk.operators.cap.domain.hosts import LONGEST_NAME
from stellwerk.operators.cap.domain.naming import AnyDomain
from stellwerk.operators.cap.domain.reasons import DomainEvent
from stellwerk.operators.cap.domain.resources import DnsRecord
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.domain import DNSMode
from stellwerk.render.request.request import Texts

MOST_RECORDS = 20_000
MOST_TEMPLATE_BYTES = 16 << 10
"""Of all templates of a domain together."""

_PER_SUBDOMAIN = ".subDomain"
_OPEN, _CLOSE = "{{", "}}"
_VARIABLE = re.compile(r"\{\{\s*\.(\w+)\s*\}\}")
_SAMPLE_SUBDOMAIN, _SAMPLE_TARGET = "sample", "sample.example.com"


@dataclass(frozen=True, slots=True)
class Subdomains:
    """Which application each subdomain belongs to."""

    owners: Mapping[str, CAPApplication]
    refused: tuple[tuple[DomainEvent, CAPApplication, str, str], ...] = ()
    """Applications with a subdomain that they cannot have, and why. They cost only themselves a record."""


def subdomains(host: str, references: Iterable[CAPApplication]) -> Subdomains:
    """Assign each subdomain of tenants and service exposures to the oldest application that has it."""
    owners: dict[str, CAPApplication] = {}
    refused: list[tuple[DomainEvent, CAPApplication, str, str]] = []
    for application in sorted(references, key=lambda each: (naming.created(each), each.key)):
        for subdomain in application.status.observed_subdomains:
            if hosts.impossible(f"{subdomain}.{host}"):
                why = "cannot be a part of a DNS name"
                refused.append((DomainEvent.SubdomainInvalid, application, subdomain, why))
            elif (owner := owners.setdefault(subdomain, application)) is not application:
                why = f"is used by {owner.key} already"
                refused.append((DomainEvent.SubdomainAlreadyInUse, application, subdomain, why))
    return Subdomains(owners, tuple(sorted(refused, key=lambda each: each[0])))


def check_host(domain: AnyDomain) -> None:
    """Raise DomainProblem where the host is not a DNS name: else each subdomain of it would look like the fault."""
    if problem := problem_of_host(domain):
        raise DomainProblem(problem)


def problem_of_host(domain: AnyDomain) -> str:
    """Why nothing can be reached under the host of a domain, and what to do; empty if something can."""
    host = domain.spec.domain
    why = hosts.impossible(host)
    return f"spec.domain of {domain.ref} is {_shown(host)}, which {why}. Correct it" if why else ""


def records(domain: AnyDomain, target: str, assigned: Subdomains) -> tuple[DnsRecord, ...]:
    """The records of a mode without templates."""
    host = domain.spec.domain
    match domain.spec.dns_mode:
        case DNSMode.WILDCARD:
            return (DnsRecord(f"*.{host}", target),)
        case DNSMode.SUBDOMAIN:
            _check_count(len(assigned.owners), domain)
            return tuple(
                DnsRecord(f"{subdomain}.{host}", target, owner.metadata.uid)
                for subdomain, owner in sorted(assigned.owners.items())
            )
        case _:
            return ()


def texts(domain: AnyDomain, target: str, subdomains: Collection[str]) -> Texts | None:
    """What is to be executed for the mode Custom; None for other modes. Raises DomainProblem where it is too much."""
    if domain.spec.dns_mode != DNSMode.CUSTOM or not domain.spec.dns_templates:
        return None
    templates = domain.spec.dns_templates
    if sum(len(each.name.encode()) + len(each.target.encode()) for each in templates) > MOST_TEMPLATE_BYTES:
        raise DomainProblem(f"spec.dnsTemplates has more than {MOST_TEMPLATE_BYTES >> 10} KiB: shorten the templates")
    single = sum(_PER_SUBDOMAIN not in each.name for each in templates)
    _check_count(single + (len(templates) - single) * len(subdomains), domain)
    rows = [
        {"domain": domain.spec.domain, "dnsTarget": target, "subDomain": subdomain}
        for subdomain in ("", *sorted(subdomains))
    ]
    named: dict[str, str] = {}
    for number, template in enumerate(templates):
        named |= {_label(number, "name"): template.name, _label(number, "target"): template.target}
    return Texts(templates=named, rows=rows, tenant=domain.metadata.namespace)


def custom_records(
    domain: AnyDomain, assigned: Subdomains, executed: Sequence[Mapping[str, str]]
) -> tuple[DnsRecord, ...]:
    """The records of the templates. `executed` has the answers to `texts`. Raises DomainProblem."""
    found: dict[str, DnsRecord] = {}
    rows = dict(zip(("", *sorted(assigned.owners)), executed, strict=True))
    for number, template in enumerate(domain.spec.dns_templates):
        is_expanded = _PER_SUBDOMAIN in template.name
        for subdomain in sorted(assigned.owners) if is_expanded else ("",):
            texts_of_row = rows[subdomain]
            uid = assigned.owners[subdomain].metadata.uid if is_expanded else ""
            record = DnsRecord(texts_of_row[_label(number, "name")], texts_of_row[_label(number, "target")], uid)
            _check(record, number, domain)
            if found.setdefault(record.name, record).target != record.target:  # whose subdomain it is changes nothing
                raise DomainProblem(
                    f"spec.dnsTemplates make {record.name} with different targets: make the names differ"
                )
    return tuple(found.values())


def problem_of_templates(domain: AnyDomain) -> str:
    """Why templates of the mode Custom cannot work, as far as it shows without executing them; else empty.

    The webhooks ask: a template engine would not fit into their memory and their time. So the result is looked at where
    a template has nothing but variables in it, as nearly all have.
    """
    try:
        sampled = texts(domain, _SAMPLE_TARGET, (_SAMPLE_SUBDOMAIN,))
        if sampled is None:
            return ""
        once, expanded = sampled.rows
        for number, template in enumerate(domain.spec.dns_templates):
            variables = expanded if _PER_SUBDOMAIN in template.name else once
            name = _sampled(template.name, variables, f"spec.{_label(number, 'name')}")
            target = _sampled(template.target, variables, f"spec.{_label(number, 'target')}")
            record = DnsRecord(
                domain.spec.domain if name is None else name, _SAMPLE_TARGET if target is None else target
            )
            _check(record, number, domain)
    except DomainProblem as problem:
        return str(problem)
    return ""


def _sampled(text: str, variables: Mapping[str, str], source: str) -> str | None:
    """The text with values for its variables; None where it has more than variables. Raises DomainProblem."""
    _, opened, rest = text.rpartition(_OPEN)
    if opened and _CLOSE not in rest:
        raise DomainProblem(f"{source} has {_OPEN} without {_CLOSE}")
    sampled = _VARIABLE.sub(lambda found: variables.get(found[1], ""), text)
    if _OPEN in sampled:
        return None
    for name in _VARIABLE.findall(text):
        if name not in variables:
            raise DomainProblem(f"{source} has .{name}: there are {', '.join(f'.{each}' for each in variables)}")
    return sampled


def _label(number: int, part: str) -> str:
    return f"dnsTemplates[{number}].{part}"


def _check_count(count: int, domain: AnyDomain) -> None:
    if count > MOST_RECORDS:
        raise DomainProblem(
            f"{domain.ref} needs {count} DNS records, more than {MOST_RECORDS}: use the DNS mode Wildcard"
        )


def _check(record: DnsRecord, number: int, domain: AnyDomain) -> None:
    """Raise DomainProblem where the record of a template is no DNS name, is not of the domain or has no target.

    Names without the domain's own at the end belong to others, and the operator's rights would write them.
    """
    made = f"spec.dnsTemplates[{number}] makes"
    name = record.name.removeprefix("*.")
    if len(record.name) > LONGEST_NAME or hosts.impossible(name):
        raise DomainProblem(f"{made} {_shown(record.name)}, which is not a DNS name")
    host = domain.spec.domain
    if not hosts.is_within(name, host):
        raise DomainProblem(
            f"{made} {_shown(record.name)}, which is neither {host} nor below it: end the name with .{{{{.domain}}}}, "
            "or create a Domain with that host"
        )
    if not 0 < len(record.target) <= LONGEST_NAME:
        raise DomainProblem(f"{made} the target {_shown(record.target)}: it must have 1 to {LONGEST_NAME} characters")


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:77]}...")
