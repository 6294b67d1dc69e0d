"""Names, owner ids and labels of what belongs to a Domain or ClusterDomain. Pure.

The original lets the API server generate the last characters of names. Ours are derived from the uid of the domain and
the part of the object, so that a creation whose answer was lost is not repeated under another name. Objects of the
original are found by their owner's label and keep their names.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import CAPApplication, DomainRef
from stellwerk.operators.cap.kinds.domain import ClusterDomain, Domain
from stellwerk.operators.cap.names import sha1

AnyDomain: TypeAlias = Domain | ClusterDomain

_LONGEST_BASE = 57
_LONGEST_NAME = 63
"""Names of the children are at most as long as a label value, because controllers copy names into labels."""
_SUFFIX = 10


def owner_id(domain: AnyDomain) -> str:
    """`Domain.<namespace>.<name>` or `ClusterDomain.<name>`."""
    if isinstance(domain, Domain):
        return f"Domain.{domain.metadata.namespace}.{domain.metadata.name}"
    return f"ClusterDomain.{domain.metadata.name}"


def created(obj: CAPApplication | AnyDomain) -> str:
    """When an object was created, as text that sorts."""
    moment = obj.metadata.creation_timestamp
    return moment.isoformat() if moment else ""


def serves(domain: AnyDomain, namespace: str) -> bool:
    """Whether applications of a namespace may refer to a domain.

    A ClusterDomain that names no namespaces serves all of them. One that the first releases made of an application
    serves the namespace of this application, and those that it names.
    """
    if isinstance(domain, Domain):
        return domain.metadata.namespace == namespace
    annotations = domain.metadata.annotations
    served = set(annotations.get(names.SERVED_NAMESPACES_ANNOTATION, "").replace(",", " ").split())
    if migrated := annotations.get(names.MIGRATED_ANNOTATION, ""):
        served.add(migrated.partition("/")[0])
    return not served or namespace in served


def offered(namespace: str, *kinds: Iterable[AnyDomain]) -> list[DomainRef]:
    """The references that applications of a namespace may have to the domains of these kinds."""
    return [
        DomainRef(kind=domain.resource.kind, name=domain.metadata.name)
        for domains in kinds
        for domain in domains
        if serves(domain, namespace)
    ]


def referenced_by(application: CAPApplication) -> Iterable[str]:
    """The owner ids of the domains that an application refers to; of too many, the first."""
    namespace = application.metadata.namespace
    return {
        f"Domain.{namespace}.{reference.name}" if reference.kind == "Domain" else f"{reference.kind}.{reference.name}"
        for reference in application.spec.served_refs
    }


def owner_hash(domain: AnyDomain) -> str:
    """The value of the label by which the domain's objects are found."""
    return sha1(owner_id(domain))


def host_hash(domain: AnyDomain) -> str:
    """The value of the label with the host."""
    return sha1(domain.spec.domain)


def base_name(domain: AnyDomain) -> str:
    """What the names of all its objects begin with."""
    return domain.metadata.name.replace(".", "--")[:_LONGEST_BASE]


def child_name(domain: AnyDomain, part: str) -> str:
    """The name of a new object; `part` distinguishes the domain's objects of one kind and namespace."""
    suffix = sha1(domain.metadata.uid, part)[:_SUFFIX]
    return f"{base_name(domain)[: _LONGEST_NAME - _SUFFIX - 1].rstrip('-')}-{suffix}"


def resource_namespace(domain: AnyDomain, operator_namespace: str) -> str:
    """Where the domain's objects are."""
    return domain.metadata.namespace if isinstance(domain, Domain) else operator_namespace


def gateway_reference(domain: AnyDomain, operator_namespace: str) -> str:
    """The domain's gateway as VirtualServices name it; empty while it has none."""
    name = domain.status.gateway_name
    if not name or isinstance(domain, Domain):
        return name
    return f"{operator_namespace}/{name}"


def owner_labels(domain: AnyDomain) -> dict[str, str]:
    """The labels by which the domain's objects are found."""
    return {names.OWNER_HASH_LABEL: owner_hash(domain)}
