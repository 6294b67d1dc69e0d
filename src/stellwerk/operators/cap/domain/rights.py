"""What the controllers of domains may do in a cluster, each right with its purpose."""

from __future__ import annotations

from stellwerk.api.cert_manager import CertManagerCertificate
from stellwerk.api.core import Secret
from stellwerk.api.gardener import DnsEntry, GardenerCertificate
from stellwerk.api.istio import Gateway
from stellwerk.api.networking import NetworkPolicy
from stellwerk.delivery.grants import Grant, grant
from stellwerk.kube.types.identifiers import Resource
from stellwerk.operators.cap.kinds.status import GROUP

_CONFLICT = "another client changed the object during a pass"
_CHANGED = "another client changed the object during a pass, or a client of before server-side apply wrote it"


def _children(resource: Resource, purpose: str, **occasions: str) -> Grant:
    verbs = "get list watch create patch delete"
    return grant(resource.group, resource.plural, verbs, purpose, get=_CHANGED, **occasions)


IN_INGRESS_KINDS = (CertManagerCertificate.resource, Secret.resource)
"""The kinds of objects of domains that are in the namespaces of ingress gateways, and nowhere else."""
AT_HOME_KINDS = (GardenerCertificate.resource, Gateway.resource, DnsEntry.resource)
"""Those that are next to a Domain, or for a ClusterDomain in the operator's own namespace."""
_OF_KIND = {
    CertManagerCertificate.resource: _children(
        CertManagerCertificate.resource, "domains have no certificate of cert-manager"
    ),
    Secret.resource: _children(Secret.resource, "gateways know no additional authorities"),
    GardenerCertificate.resource: _children(GardenerCertificate.resource, "domains have no certificate of Gardener"),
    Gateway.resource: _children(
        Gateway.resource,
        "the ingress gateway does not serve the hosts of domains",
        delete="the operator has moved to another namespace, where the Gateways of ClusterDomains are",
    ),
    DnsEntry.resource: _children(DnsEntry.resource, "domains have no DNS entries of Gardener"),
}

_PODS = grant("", "pods services", "list watch", "the ingress gateway and its load balancer are not found")
_ENDPOINTS = grant(
    "discovery.k8s.io", "endpointslices", "list watch", "the load balancer of the ingress gateway is not found"
)
IN_INGRESS_ONLY = (_OF_KIND[CertManagerCertificate.resource], _ENDPOINTS)
"""Of a process that works on some namespaces: what it needs in those of ingress gateways, and in no watched one."""
IN_INGRESS = (*(_OF_KIND[each] for each in IN_INGRESS_KINDS), _ENDPOINTS, _PODS)
"""Of such a process: all that it needs in the namespaces of ingress gateways."""
AT_HOME = tuple(_OF_KIND[each] for each in AT_HOME_KINDS)
"""Of such a process: the objects of ClusterDomains, which are in the operator's own namespace."""

GRANTS = (
    grant(
        GROUP, "domains clusterdomains", "get list watch patch", "no domain is seen, or none can be held", get=_CONFLICT
    ),
    grant(GROUP, "domains/status clusterdomains/status", "update patch", "no domain shows how it is", patch=_CONFLICT),
    grant(
        GROUP,
        "domains/finalizers clusterdomains/finalizers",
        "update",
        "no object can have a domain as its controller",
        update="the admission plugin OwnerReferencesPermissionEnforcement is on",
    ),
    grant(GROUP, "capapplications", "list watch", "domains do not find the applications that refer to them"),
    _OF_KIND[GardenerCertificate.resource],
    _OF_KIND[CertManagerCertificate.resource],
    _OF_KIND[Gateway.resource],
    _children(NetworkPolicy.resource, "the ingress gateway does not reach workloads"),
    _OF_KIND[DnsEntry.resource],
    _OF_KIND[Secret.resource],
    grant("", "namespaces", "list watch", "it is not known which hosts administrators grant to namespaces"),
    _PODS,
    _ENDPOINTS,
    grant(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "list watch",
        "a kind that is installed later is noticed after some seconds only",
    ),
    grant("events.k8s.io", "events", "create patch", "no Event is sent"),
)
