"""How long lists and texts of specs may be (pure).

The schemas of the original have nearly no bounds, and ours accept what they accept. So webhooks and controllers refuse
what no object of a real application has, before anything is made from it: a list that is as long as a request lets it
be is multiplied by others, such as hosts by labels, or routes by domains. An object that is stored with a longer list
may be changed in other respects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import cast

import msgspec

from stellwerk.kube.types.model import Kind
from stellwerk.operators.cap.kinds.application import MOST_DOMAINS, CAPApplication
from stellwerk.operators.cap.kinds.domain import ClusterDomain, Domain
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion

MOST_ROUTES = 4_096
"""Of all service exposures of a version together."""
MOST_SERVICES, MOST_LABELS = 512, 64
"""Services of an application, and labels of a gateway's pods."""
LONGEST_NAME, LONGEST_ID, LONGEST_HOST = 253, 256, 253
"""A Kubernetes name, an id of SAP BTP, a DNS name."""

_NUMBER = 256
_LONGEST_TEXT, _LONGEST_CERTIFICATES = 16 << 10, 256 << 10
_DEPLOYMENT = "spec.workloads[].deploymentDefinition"
_RULES = f"{_DEPLOYMENT}.monitoring.deletionRules"
_DOMAIN = {
    "spec.domain": LONGEST_HOST,
    "spec.ingressSelector": MOST_LABELS,
    "spec.dnsTarget": LONGEST_HOST,
    "spec.dnsTemplates": 10,
    "spec.dnsTemplates[].name": _LONGEST_TEXT,
    "spec.dnsTemplates[].target": _LONGEST_TEXT,
    "spec.certConfig.additionalCACertificate": _LONGEST_CERTIFICATES,
}

BOUNDS: Mapping[type[Kind], Mapping[str, int]] = {
    CAPApplication: {
        "spec.btpAppName": LONGEST_ID,
        "spec.providerSubaccountId": LONGEST_ID,
        "spec.globalAccountId": LONGEST_ID,
        "spec.provider.subDomain": LONGEST_HOST,
        "spec.provider.tenantId": LONGEST_ID,
        "spec.btp.services": MOST_SERVICES,
        "spec.btp.services[].name": LONGEST_NAME,
        "spec.btp.services[].class": LONGEST_NAME,
        "spec.btp.services[].secret": LONGEST_NAME,
        "spec.domainRefs": MOST_DOMAINS,
        "spec.domainRefs[].name": LONGEST_NAME,
        "spec.domains.secondary": _NUMBER,
        "spec.domains.secondary[]": LONGEST_HOST,
        "spec.domains.dnsTarget": LONGEST_HOST,
        "spec.domains.istioIngressGatewayLabels": MOST_LABELS,
        "spec.domains.istioIngressGatewayLabels[].name": 317,
        "spec.domains.istioIngressGatewayLabels[].value": 63,
        "spec.tenantUpgrade.canaryTenants": 1_024,
    },
    CAPApplicationVersion: {
        "spec.capApplicationInstance": LONGEST_NAME,
        "spec.version": LONGEST_ID,
        "spec.registrySecrets": _NUMBER,
        "spec.workloads": 100,
        "spec.workloads[].name": LONGEST_NAME,
        "spec.workloads[].consumedBTPServices": MOST_SERVICES,
        "spec.workloads[].labels": _NUMBER,
        f"{_DEPLOYMENT}.ports": _NUMBER,
        f"{_DEPLOYMENT}.topologySpreadConstraints": MOST_LABELS,
        "spec.workloads[].jobDefinition.topologySpreadConstraints": MOST_LABELS,
        f"{_RULES}.metrics": _NUMBER,
        f"{_RULES}.expression": _LONGEST_TEXT,
        "spec.tenantOperations.provisioning": _NUMBER,
        "spec.tenantOperations.upgrade": _NUMBER,
        "spec.tenantOperations.deprovisioning": _NUMBER,
        "spec.contentJobs": _NUMBER,
        "spec.serviceExposures": _NUMBER,
        "spec.serviceExposures[].subDomain": LONGEST_HOST,
        "spec.serviceExposures[].routes": _NUMBER,
        "spec.serviceExposures[].routes[].workloadName": LONGEST_NAME,
        "spec.serviceExposures[].routes[].path": _LONGEST_TEXT,
    },
    CAPTenant: {
        "spec.capApplicationInstance": LONGEST_NAME,
        "spec.subDomain": LONGEST_HOST,
        "spec.tenantId": LONGEST_ID,
        "spec.version": LONGEST_ID,
    },
    Domain: _DOMAIN,
    ClusterDomain: _DOMAIN,
}
"""The most items of a list or a map, and characters of a text, by the path to the field."""


def problem_of_size(obj: Kind, former: Kind | None = None) -> str:
    """Which list or text of an object is too long; empty where none is.

    `former`: the object before a change. What it had already may stay, and become shorter.
    """
    for path, most in BOUNDS[type(obj)].items():
        size, unit = _largest(obj, path)
        if size > most and (former is None or _largest(former, path)[0] < size):
            return f"{path} has {size} {unit}, more than the {most} that are possible: shorten it"
    return problem_of_routes(obj) if isinstance(obj, CAPApplicationVersion) else ""


def problem_of_routes(version: CAPApplicationVersion) -> str:
    """Whether the service exposures of a version have too many routes; empty where they have not."""
    count = sum(len(exposure.routes) for exposure in version.spec.service_exposures)
    if count <= MOST_ROUTES:
        return ""
    return f"spec.serviceExposures have {count} routes, more than the {MOST_ROUTES} that are possible: merge some"


def _largest(obj: Kind, path: str) -> tuple[int, str]:
    """The size of the largest value of a field, and what it counts."""
    found: Iterable[object] = (obj,)
    for step in path.split("."):
        name = step.removesuffix("[]")
        found = [_field(each, name) for each in found if each is not None]
        if step != name:
            found = [item for items in found if isinstance(items, tuple) for item in items]
    sized = [each for each in found if isinstance(each, str | tuple | Mapping)]
    unit = "characters" if sized and isinstance(sized[0], str) else "items"
    return max(map(len, sized), default=0), unit


def _field(obj: object, name: str) -> object:
    """A field by its name in JSON."""
    attribute = _names(cast("type[msgspec.Struct]", type(obj)))[name]
    return cast(object, getattr(obj, attribute))


@cache
def _names(struct: type[msgspec.Struct]) -> Mapping[str, str]:
    """The attributes of a struct by their names in JSON."""
    return dict(zip(struct.__struct_encode_fields__, struct.__struct_fields__, strict=True))
