"""Whose a host is. Pure.

Hosts are compared by their labels: `shop.example.com` is below `example.com`, `myexample.com` is not. The API server
takes hosts in lower case only (`spec.domain` has a pattern), and names with other letters in their encoded form.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TypeAlias

from publicsuffixlist import PublicSuffixList

from stellwerk.apply.objects import name_validation
from stellwerk.kube.types.model import HasMetadata
from stellwerk.operators.cap import names
from stellwerk.operators.cap.domain import naming
from stellwerk.operators.cap.domain.naming import AnyDomain
from stellwerk.runtime import conditions

Grants: TypeAlias = Mapping[str, tuple[str, ...]]
"""The suffixes of each namespace to which an administrator has granted any."""
NOTHING_GRANTED: Grants = MappingProxyType({})


LONGEST_NAME, LONGEST_LABEL = 253, 63
"""Characters of a DNS name, and of a part of it between dots."""

_ADDRESS = re.compile(r"\d+(\.\d+){3}")


def impossible(host: str) -> str:
    """Why nothing can be reached under a host, after `which`; empty if something can."""
    if len(host) > LONGEST_NAME:
        return f"is not a DNS name: it has {len(host)} characters, more than the {LONGEST_NAME} that are possible"
    for label in host.split("."):
        if len(label) > LONGEST_LABEL:
            return (
                f"is not a DNS name: its part {label[:10]}... has {len(label)} characters, more than the "
                f"{LONGEST_LABEL} that are possible"
            )
    if not name_validation.is_subdomain(host):
        return (
            "is not a DNS name: it has lower-case letters, digits, '-' and '.', and each part begins and ends with a "
            "letter or digit"
        )
    return "is an IP address, not a DNS name" if _ADDRESS.fullmatch(host) else ""


def is_within(host: str, suffix: str) -> bool:
    """Whether a host is a suffix or below it."""
    return host == suffix or host.endswith(f".{suffix}")


def public_suffix(host: str) -> bool:
    """Whether anybody registers names right below a host: a single label, or a name of the public suffix list."""
    return name_validation.is_subdomain(host) and _suffixes().is_public(host)


def parents(host: str) -> Iterable[str]:
    """The names that a host is below, from the nearest one."""
    if name_validation.is_subdomain(host):  # which bounds its length
        while host := host.partition(".")[2]:
            yield host


def overlap(host: str, other: str) -> bool:
    """Whether two hosts are equal, or one is below the other."""
    return is_within(host, other) or is_within(other, host)


def grants(namespaces: Iterable[HasMetadata]) -> Grants:
    """What administrators have granted, by namespace. Only who may change Namespaces can set it."""
    key = names.DOMAIN_SUFFIXES_ANNOTATION
    return {
        each.metadata.name: tuple(re.findall(r"[^\s,]+", each.metadata.annotations[key]))
        for each in namespaces
        if key in each.metadata.annotations
    }


def namespace_of(domain: AnyDomain) -> str:
    """The namespace whose users have chosen the host; empty for a ClusterDomain, but for one that was made of an
    application.
    """
    migrated = domain.metadata.annotations.get(names.MIGRATED_ANNOTATION, "")
    return domain.metadata.namespace or migrated.partition("/")[0]


def problem_of_host(domain: AnyDomain, granted: Grants) -> str:
    """Why a namespace may not have the host of its domain, of whatever others there are; empty if it may.

    Suffixes that are granted to the namespace decide alone. Without, a public suffix is refused: with it, a namespace
    would have the certificate of all hosts below, which belong to others. The ClusterDomain of an administrator may
    have it.
    """
    host, namespace = domain.spec.domain, namespace_of(domain)
    suffixes = granted.get(namespace)
    if suffixes is not None:
        if any(is_within(host, each) for each in suffixes):
            return ""
        return (
            f"spec.domain of {domain.ref} is {host}, which is outside of the suffixes that the annotation "
            f"{names.DOMAIN_SUFFIXES_ANNOTATION} grants to namespace {namespace} "
            f"({', '.join(suffixes[:5]) or 'none'}): use a host below them, or have an administrator change it"
        )
    if not namespace or not public_suffix(host):
        return ""
    return (
        f"spec.domain of {domain.ref} is {host}, a top-level name or public suffix, which belongs to no namespace: use "
        f"a host below it, or have an administrator grant it: {_grant(domain)}"
    )


@dataclass(frozen=True, slots=True)
class Claims:
    """The other domains whose hosts overlap with that of one."""

    before: tuple[AnyDomain, ...] = ()
    """Those because of which it is not served."""
    after: tuple[AnyDomain, ...] = ()
    """Those of other namespaces that are not served because of it."""


def claims(domain: AnyDomain, others: Iterable[AnyDomain], granted: Grants) -> Claims:
    """Who comes before a domain and after it (`others` may have itself).

    Of two namespaces the one to which the host is granted comes first, else the domain that is served already, else the
    older one. Parents and children of which an administrator has decided both stand next to each other. In one
    namespace only equal hosts matter, and exclude each other. ClusterDomains are of a namespace of their own.
    """
    before: list[AnyDomain] = []
    after: list[AnyDomain] = []
    for other in others:
        is_itself = (other.resource.kind, other.key) == (domain.resource.kind, domain.key)
        if is_itself or not overlap(domain.spec.domain, other.spec.domain):
            continue
        is_equal = other.spec.domain == domain.spec.domain
        if namespace_of(other) == namespace_of(domain):
            if is_equal:
                before.append(other)
        elif problem_of_host(other, granted):
            continue  # it is not served, and takes nothing from others
        elif is_equal or not (_is_decided(domain, granted) and _is_decided(other, granted)):
            side = before if _rank(other, granted) < _rank(domain, granted) else after
            side.append(other)
    return Claims(tuple(before), tuple(after))


def problem_of_claims(domain: AnyDomain, before: Sequence[AnyDomain]) -> str:
    """Why a domain is not served, and what to do; empty where it is."""
    if not before:
        return ""
    host, others = domain.spec.domain, sorted(before, key=naming.owner_id)
    if all(each.spec.domain == host for each in others):
        is_of = f"is also the one of {conditions.first_of([naming.owner_id(each) for each in others])}"
    else:
        named = conditions.first_of([f"{each.spec.domain} of {naming.owner_id(each)}" for each in others])
        is_of = f"overlaps with {named}"
    namespace = namespace_of(domain)
    is_of_others = namespace and any(namespace_of(each) != namespace for each in others)
    decide = f", or have an administrator grant the host: {_grant(domain)}" if is_of_others else ""
    return f"the domain {host} {is_of}: delete or change one of them{decide}"


def note_of_claims(after: Sequence[AnyDomain]) -> str:
    """Which domains of others are not served because of one; empty where there are none."""
    named = [f"{each.spec.domain} of {naming.owner_id(each)}" for each in sorted(after, key=naming.owner_id)]
    return f"; not served because of it: {conditions.first_of(named)}" if named else ""


def _grant(domain: AnyDomain) -> str:
    return f"kubectl annotate namespace {namespace_of(domain)} {names.DOMAIN_SUFFIXES_ANNOTATION}={domain.spec.domain}"


def _is_granted(domain: AnyDomain, granted: Grants) -> bool:
    return namespace_of(domain) in granted and not problem_of_host(domain, granted)


def _is_decided(domain: AnyDomain, granted: Grants) -> bool:
    """Whether an administrator has decided about the host."""
    return not namespace_of(domain) or _is_granted(domain, granted)


def _rank(domain: AnyDomain, granted: Grants) -> tuple[bool, bool, str, str]:
    is_served = domain.status.observed_domain == domain.spec.domain  # one that has changed its host is no older owner
    return not _is_granted(domain, granted), not is_served, naming.created(domain) or "~", domain.metadata.uid


@cache
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList()
