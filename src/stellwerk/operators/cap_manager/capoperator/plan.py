"""The chart's values, and the status as work on them begins. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import msgspec

from stellwerk.api.core import Service
from stellwerk.apply.objects import name_validation
from stellwerk.delivery import reconcile_request
from stellwerk.delivery.sets import set_status
from stellwerk.kube.types.model import HasMetadata, JsonObject, JsonValue, to_json_object
from stellwerk.operators.cap_manager.api import CAPOperator, CAPOperatorSpec, CAPOperatorStatus
from stellwerk.operators.cap_manager.errors import InvalidInventory, InvalidSpec

LONGEST_DOMAIN = 64
"""What the common name of a certificate may have."""

TIMEOUT = timedelta(minutes=10)
"""How long objects may take to become ready, as with the original."""

KEPT_TARGET_SECONDS = 600.0
"""For how long the last DNS target is kept when the ingress gateway has none: a change restarts the controllers."""

DNS_NAMES_ANNOTATION = "dns.gardener.cloud/dnsnames"
_DEFAULT_GATEWAY_LABELS = ("istio", "app")
"""The labels of the ingress gateway that the chart selects by default."""
_DNS_NAME = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+")
_DIGEST_LENGTH = 40


# ---- the only one


def first_of(capoperators: Iterable[CAPOperator]) -> CAPOperator | None:
    """The CAPOperator that a cluster has; others must go. One that is being deleted still has its objects."""
    return min(capoperators, key=lambda each: (str(each.metadata.creation_timestamp), each.key), default=None)


# ---- the values of the chart


def server_domain(spec: CAPOperatorSpec, cluster_domain: str) -> str:
    """Where the subscription server is reached. Raises InvalidSpec."""
    sub_domain = spec.subscription_server.sub_domain
    if not sub_domain:
        raise InvalidSpec("spec.subscriptionServer.subDomain is empty: name a subdomain of the cluster's domain")
    domain = f"{sub_domain}.{cluster_domain}"
    if len(domain) > LONGEST_DOMAIN:
        raise InvalidSpec(
            f"subscription server domain '{domain}' is longer than {LONGEST_DOMAIN} characters; use a smaller subDomain"
        )
    return domain


def gateway_selector(spec: CAPOperatorSpec) -> str:
    """The label selector of the ingress gateway's pods; empty where the DNS target is given. Raises InvalidSpec."""
    if spec.dns_target:
        return ""
    labels = gateway_labels(spec)
    if not labels:
        raise InvalidSpec("neither spec.dnsTarget nor spec.ingressGatewayLabels is set: set one of them")
    for complaint in name_validation.complaints("v1", {"name": "pod", "labels": dict(labels)}):
        raise InvalidSpec(f"spec.ingressGatewayLabels: {complaint}")
    return ",".join(f"{name}={value}" for name, value in sorted(labels.items()))


def gateway_labels(spec: CAPOperatorSpec) -> Mapping[str, str]:
    """The labels of the ingress gateway's pods."""
    return {label.name: label.value for label in spec.ingress_gateway_labels}


@dataclass(frozen=True, slots=True)
class DnsTarget:
    """A DNS name of the ingress gateway. `fallback_cause`: why it is the fallback; empty where it is not."""

    name: str
    fallback_cause: str = ""


def dns_target_of_gateway(pods: Sequence[HasMetadata], services: Sequence[Service], cluster_domain: str) -> DnsTarget:
    """The DNS name on the one load balancer in front of the pods; the wildcard of the cluster's domain without one."""
    try:
        return DnsTarget(normalized(_name_of_gateway(pods, services)))
    except _NotFound as error:
        return DnsTarget(f"x.{cluster_domain}", str(error))


@dataclass(frozen=True, slots=True)
class KnownTarget:
    """The last DNS name that the gateway with these labels had. `lost_at`: since when it has none; None where it does.

    It is not kept over a restart of the manager.
    """

    name: str
    selector: str
    lost_at: float | None = None

    def seconds_left(self, now: float) -> float:
        """How long it is kept from now on."""
        return 0.0 if self.lost_at is None else max(0.0, self.lost_at + KEPT_TARGET_SECONDS - now)


def kept_target(
    found: DnsTarget, selector: str, known: KnownTarget | None, now: float
) -> tuple[DnsTarget, KnownTarget | None]:
    """The target that counts, and what is known from now on: before a fallback, the last target is kept for a while.

    A pod or a Service that is away for a minute would otherwise restart the controllers twice, and any user who may
    create pods could have that again and again.
    """
    if not found.fallback_cause:
        return found, KnownTarget(found.name, selector)
    if known is None or known.selector != selector:
        return found, None
    known = replace(known, lost_at=now if known.lost_at is None else known.lost_at)
    return (DnsTarget(known.name) if known.seconds_left(now) else found), known


def normalized(target: str) -> str:
    """A DNS name that a record can point to: any name below a wildcard does."""
    return target.replace("*", "x")


class _NotFound(Exception):
    pass


def _name_of_gateway(pods: Sequence[HasMetadata], services: Sequence[Service]) -> str:
    """Raises _NotFound.

    A Service leads to pods of its own namespace, so where these have pods with the labels, those of other namespaces,
    which any user may have created, do not count.
    """
    places = {each.metadata.namespace for each in services if each.spec.type == "LoadBalancer"}
    pods = [pod for pod in pods if pod.metadata.namespace in places] or pods
    namespaces = sorted({pod.metadata.namespace for pod in pods})
    if not namespaces:
        raise _NotFound("no pod has the labels of spec.ingressGatewayLabels")
    if len(namespaces) > 1:
        raise _NotFound(f"pods with the labels of spec.ingressGatewayLabels are in {', '.join(namespaces[:5])}")
    balancers = [each for each in services if each.spec.type == "LoadBalancer" and _selects(each, pods)]
    if len(balancers) != 1:
        count = "no Service" if not balancers else f"{len(balancers)} Services"
        raise _NotFound(f"{count} of type LoadBalancer in istio-system lead to the pods of the ingress gateway")
    (service,) = balancers
    text = service.metadata.annotations.get(DNS_NAMES_ANNOTATION, "")
    if not text:
        raise _NotFound(f"{service.ref} has no annotation {DNS_NAMES_ANNOTATION}")
    for name in (part.strip().lower().rstrip(".") for part in text.split(",")):
        if _DNS_NAME.fullmatch(normalized(name)):
            return name
    raise _NotFound(f"{service.ref} has no DNS name in its annotation {DNS_NAMES_ANNOTATION}")


def _selects(service: Service, pods: Sequence[HasMetadata]) -> bool:
    selector = service.spec.selector.items()
    return bool(selector) and any(selector <= pod.metadata.labels.items() for pod in pods)


def chart_values(spec: CAPOperatorSpec, domain: str, target: str) -> JsonObject:
    """The values of an installation, as the original's chart takes them.

    What the spec has is passed on, except the fields that others are derived from. The labels of the gateway become the
    chart's selector: otherwise the Gateway would be served by other pods than those that the DNS target leads to.
    """
    values = to_json_object(spec)
    for field in ("dnsTarget", "ingressGatewayLabels"):
        values.pop(field, None)
    server, controller = _part(values, "subscriptionServer"), _part(values, "controller")
    server.pop("subDomain", None)
    server |= {"domain": domain, "dnsTarget": target}
    if labels := gateway_labels(spec):
        selector: dict[str, JsonValue] = dict.fromkeys(_DEFAULT_GATEWAY_LABELS)  # null deletes a default
        server["ingressGatewayLabels"] = {**selector, **labels}
    return {**values, "subscriptionServer": server, "controller": {**controller, "dnsTarget": target}}


def _part(values: JsonObject, name: str) -> JsonObject:
    found = values.get(name)
    return {**found} if isinstance(found, dict) else {}


# ---- what the status becomes


def digest_of(capoperator: CAPOperator, chart: str, values: JsonObject) -> str:
    """The fingerprint of all that an installation is made of. Annotating a CAPOperator starts the work again."""
    parts = (capoperator.metadata.generation, capoperator.metadata.annotations, chart, values)
    encoded = msgspec.json.encode(parts, order="deterministic")
    return hashlib.sha256(encoded).hexdigest()[:_DIGEST_LENGTH]


def start_content(capoperator: CAPOperator, digest: str) -> CAPOperatorStatus:
    """The status as work on a content begins."""
    asked = reconcile_request.asked(capoperator.metadata)
    status = msgspec.structs.replace(capoperator.status, last_handled_reconcile_at=asked)
    return status if status.processing_digest == digest else set_status.attempted(set_status.begun(status, digest))


def check_inventory(capoperator: CAPOperator) -> None:
    """Raises InvalidInventory where the status holds an entry that nothing can be done with."""
    command = f"kubectl -n {capoperator.metadata.namespace} patch capoperator {capoperator.metadata.name}"
    if why := set_status.inventory_complaint(capoperator.status, command):
        raise InvalidInventory(why)
