"""Where the ingress gateway of a domain is, and which DNS name leads to it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from stellwerk.api.core import Service
from stellwerk.api.discovery import SERVICE_NAME_LABEL, EndpointSlice
from stellwerk.apply.objects import name_validation
from stellwerk.kube.types.identifiers import SYSTEM_NAMESPACES, ObjectKey
from stellwerk.kube.types.model import HasMetadata
from stellwerk.operators.cap.domain import naming
from stellwerk.operators.cap.domain.errors import DomainProblem, IngressProblem
from stellwerk.operators.cap.domain.naming import AnyDomain
from stellwerk.operators.cap.kinds.bounds import MOST_LABELS
from stellwerk.operators.cap.kinds.domain import DomainState

NAMESPACES = ("istio-system", "istio-ingress")
"""Where ingress gateways are unless the settings name other namespaces: where Istio's own guides install them."""
ALL = "*"
"""In the settings: all namespaces but those of the system."""
_LONGEST_SELECTOR = 200
"""Characters of a selector in messages."""
GRACE_SECONDS = 60.0
"""How long a Ready domain stays Ready without the pods of its ingress gateway, or without its DNS target."""


def selector(domain: AnyDomain) -> str:
    """The label selector of the gateway's pods. Raises DomainProblem where it is empty or is none."""
    wanted = domain.spec.ingress_selector
    if not wanted:
        raise DomainProblem(
            f"spec.ingressSelector of {domain.ref} is empty: name the labels of the ingress gateway's pods"
        )
    if len(wanted) > MOST_LABELS:
        raise DomainProblem(
            f"spec.ingressSelector of {domain.ref} has {len(wanted)} labels, more than the {MOST_LABELS} that are "
            "possible: name fewer"
        )
    complaints = [*name_validation.complaints("v1", {"name": "pod", "labels": dict(wanted)})]
    if complaints:
        raise DomainProblem(f"spec.ingressSelector of {domain.ref}: {complaints[0]}")
    return selector_text(domain)


def selector_text(domain: AnyDomain) -> str:
    """The labels as a selector, whatever they are; empty where they are too many for one."""
    if len(domain.spec.ingress_selector) > MOST_LABELS:
        return ""
    return ",".join(f"{key}={value}" for key, value in sorted(domain.spec.ingress_selector.items()))


def _shown_selector(domain: AnyDomain) -> str:
    text = selector_text(domain)
    return text if len(text) <= _LONGEST_SELECTOR else f"{text[:_LONGEST_SELECTOR]}..."


def namespace(domain: AnyDomain, pods: Iterable[HasMetadata], allowed: Collection[str]) -> str:
    """The namespace of the gateway's pods. Raises IngressProblem unless there is exactly one.

    The selector decides where certificates and CA Secrets are written, with rights that its author may lack, and users
    may give their own pod the labels of a gateway: pods count only in the `allowed` namespaces.
    """
    selected = {pod.metadata.namespace for pod in pods}
    namespaces = {each for each in selected if is_allowed(each, allowed)}
    if not selected:
        why = f"no matching ingress gateway pods found matching selector from {naming.owner_id(domain)}"
        where = next((f"-n {each}" for each in allowed if each != ALL), "-A")
        raise _problem(
            domain,
            f"{why}: no pod has the labels {_shown_selector(domain)} of spec.ingressSelector. Correct it. See the "
            f"labels of gateways with: kubectl get pods {where} --show-labels",
        )
    if not namespaces:
        raise _problem(
            domain,
            f"its pods are in namespace {', '.join(sorted(selected)[:5])}, which is not allowed for ingress gateways "
            f"(allowed: {', '.join(allowed)}): correct spec.ingressSelector ({_shown_selector(domain)}), or have an "
            "administrator name the namespace in INGRESS_NAMESPACES (the chart's controller.ingressNamespaces)",
        )
    if len(namespaces) > 1:
        raise _problem(
            domain,
            "more than one matching ingress gateway namespace found matching selector from "
            f"{naming.owner_id(domain)}: {', '.join(sorted(namespaces)[:5])}. Make spec.ingressSelector "
            f"({_shown_selector(domain)}) more specific",
        )
    return namespaces.pop()


def is_allowed(namespace: str, allowed: Collection[str]) -> bool:
    """Whether pods in a namespace may be an ingress gateway."""
    return namespace in allowed or (ALL in allowed and namespace not in SYSTEM_NAMESPACES)


def grace_left(domain: AnyDomain, missing_seconds: float) -> float:
    """How long a domain still stays as it is although its ingress gateway is not found, in seconds.

    A gateway with one pod has none for a moment when it restarts, and requests go on with what is written already. An
    error would be one of all applications of the domain, and would stop their upgrades. A domain that is not Ready has
    nothing to lose, and shows the cause at once.
    """
    status = domain.status
    is_ready = status.state == DomainState.READY and status.observed_generation == domain.metadata.generation
    return max(0.0, GRACE_SECONDS - missing_seconds) if is_ready else 0.0


def own_target(domain: AnyDomain, of_process: str) -> str:
    """The DNS target that the domain or the process sets; empty where the load balancer's is used."""
    return normalized(domain.spec.dns_target or of_process.lower())


def target(
    domain: AnyDomain,
    pods: Iterable[HasMetadata],
    services: Iterable[Service],
    slices: Iterable[EndpointSlice],
    annotation: str,
) -> str:
    """The DNS name on the load balancer whose endpoints are the gateway's pods. Raises IngressProblem."""
    names = _services(slices, {pod.key for pod in pods})
    for service in sorted(services, key=lambda each: each.key):
        found = service.metadata.annotations.get(annotation, "").partition(",")[0].strip()
        if service.spec.type == "LoadBalancer" and service.key in names and found:
            return normalized(found)
    raise _problem(
        domain,
        f"no Service of type LoadBalancer with the annotation {annotation} leads to the pods of its ingress gateway: "
        "set spec.dnsTarget",
    )


def normalized(target: str) -> str:
    """A DNS name that a record can point to: any name below a wildcard does."""
    return target.replace("*", "x")


def _services(slices: Iterable[EndpointSlice], pods: set[ObjectKey]) -> set[ObjectKey]:
    """The Services with one of these pods as an endpoint."""

    def leads(part: EndpointSlice) -> bool:
        references = [each.target_ref for each in part.endpoints or () if each.target_ref is not None]
        return any(each.kind == "Pod" and ObjectKey(each.namespace, each.name) in pods for each in references)

    return {
        ObjectKey(part.metadata.namespace, part.metadata.labels.get(SERVICE_NAME_LABEL, ""))
        for part in slices
        if leads(part)
    }


def _problem(domain: AnyDomain, why: str) -> IngressProblem:
    return IngressProblem(f"failed to get ingress information for {naming.owner_id(domain)}: {why}")
