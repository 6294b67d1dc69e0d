"""Whose a host is. Pure.

Hosts are compared by their labels: `shop.example.com` is below `example.com`, `myexample.com` is not. The API server
takes hosts in lower case only (`spec.domain` has a pattern), and names with other letters in their encoded form.
"""

from __future__ import annotations

from functools import cache

from publicsuffixlist import PublicSuffixList

from stellwerk.apply.objects import name_validation
from stellwerk.operators.cap import names
from stellwerk.operators.cap.domain.naming import AnyDomain
from stellwerk.operators.cap.kinds.domain import Domain


def is_within(host: str, suffix: str) -> bool:
    """Whether a host is a suffix or below it."""
    return host == suffix or host.endswith(f".{suffix}")


def public_suffix(host: str) -> bool:
    """Whether anybody registers names right below a host: a single label, or a name of the public suffix list."""
    return name_validation.is_subdomain(host) and _suffixes().is_public(host)


def problem_of_suffix(domain: AnyDomain) -> str:
    """Why the host is one that no namespace may have; empty where it may.

    With it, a namespace would have the certificate of all hosts below, which belong to others. A ClusterDomain is an
    administrator's decision, but for those that the operator made of hosts that are written into an application.
    """
    is_of_namespace = isinstance(domain, Domain) or names.MIGRATED_ANNOTATION in domain.metadata.annotations
    if not is_of_namespace or not public_suffix(domain.spec.domain):
        return ""
    return (
        f"spec.domain of {domain.ref} is {domain.spec.domain}, a top-level name or public suffix, which belongs to no "
        "namespace: use a host below it, or have an administrator create a ClusterDomain with it"
    )


@cache
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList()
