"""What belongs to a Domain or ClusterDomain, and to which one an object belongs: the label and the annotation on it.

The objects of a domain are in several namespaces, so that owner references cannot lead to it. The other kinds of the
CAP Operator have owner references.
"""

from __future__ import annotations

from dataclasses import dataclass

from stellwerk.api.cert_manager import CertManagerCertificate
from stellwerk.api.core import Secret
from stellwerk.api.gardener import DnsEntry, GardenerCertificate
from stellwerk.api.istio import Gateway
from stellwerk.api.networking import NetworkPolicy
from stellwerk.kube.concurrency import together
from stellwerk.kube.types.identifiers import ObjectKey, ObjectRef, Resource
from stellwerk.kube.types.model import Unstructured
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.domain import ClusterDomain, Domain
from stellwerk.runtime.insight.diagnosis import ClusterReader
from stellwerk.runtime.insight.related_objects import Fact, ManagingObject, Member

_MADE = (
    Gateway.resource,
    CertManagerCertificate.resource,
    GardenerCertificate.resource,
    Secret.resource,
    DnsEntry.resource,
    NetworkPolicy.resource,
)


@dataclass(frozen=True, slots=True)
class DomainKinship:
    """Reads the marks on the objects of domains of one kind."""

    resource: Resource

    async def members(self, reader: ClusterReader, subject: Unstructured) -> list[Member]:
        """The gateway, the certificate, the DNS entries and what else bears the mark of a domain."""
        identity = self._identity(subject.key)
        labels = f"{names.OWNER_HASH_LABEL}={names.sha1(identity)}"
        listed = await together(_MADE, lambda resource: reader.list(resource, labels=labels))
        return [Member(obj.ref) for objects in listed for obj in objects if _owner_of(obj) == identity]

    async def manager(self, reader: ClusterReader, obj: Unstructured) -> ManagingObject | None:
        """The domain whose mark the object bears."""
        identity = _owner_of(obj)
        kind, _, rest = identity.partition(".")
        if kind != self.resource.kind or obj.metadata.labels.get(names.OWNER_HASH_LABEL) != names.sha1(identity):
            return None
        namespace, _, name = rest.partition(".") if self.resource.namespaced else ("", "", rest)
        return ManagingObject(ObjectRef(self.resource.gvk, ObjectKey(namespace, name)))

    def origin(self, subject: Unstructured, obj: Unstructured) -> list[Fact]:
        """The host that the object serves."""
        host = str(subject.at("spec", "domain") or "")
        return [("Host", host)] if host else []

    def _identity(self, key: ObjectKey) -> str:
        """As `domain.naming.owner_id`, of an object that may be invalid."""
        place = f"{key.namespace}." if self.resource.namespaced else ""
        return f"{self.resource.kind}.{place}{key.name}"


def _owner_of(obj: Unstructured) -> str:
    return obj.metadata.annotations.get(names.OWNER_ANNOTATION, "")


KINSHIP = {each.kind: DomainKinship(each) for each in (Domain.resource, ClusterDomain.resource)}
"""By kind."""
