"""What an installation is made of: the spec, the domain of the cluster, and the ingress gateway."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.cap_manager.api import CAPOperator
from stellwerk.operators.cap_manager.capoperator import plan
from stellwerk.operators.cap_manager.capoperator.chart import Chart
from stellwerk.operators.cap_manager.capoperator.plan import DnsTarget, KnownTarget
from stellwerk.operators.cap_manager.errors import AnotherCapOperator, ClusterDomainUnknown, ImageUnknown
from stellwerk.operators.cap_manager.settings import IMAGE_VARIABLE
from stellwerk.operators.cap_manager.watches import SHOOT_INFO, NotWatched, Watches


@dataclass(slots=True)
class GatewayMemory:
    """What is remembered of the ingress gateway from pass to pass."""

    known: KnownTarget | None = None

    def seconds_left(self, now: float) -> float:
        """In how many seconds the last DNS target is no longer kept; 0 where it need not be, or is not."""
        return self.known.seconds_left(now) if self.known is not None else 0.0


@dataclass(frozen=True, slots=True)
class Content:
    """What an installation is made of."""

    values: JsonObject
    digest: str
    target: DnsTarget


async def content(
    capoperator: CAPOperator, watches: Watches, chart: Chart, image: str, gateway: GatewayMemory, now: float
) -> Content:
    """What a CAPOperator asks for where it is, at a moment of the steady clock. Raises CapOperatorFailed."""
    try:
        cluster_domain = await watches.cluster_domain()
    except NotWatched as error:
        raise ClusterDomainUnknown(str(error)) from None
    selector = plan.gateway_selector(capoperator.spec)
    target = await _dns_target(capoperator, selector, cluster_domain, watches)
    if selector:
        target, gateway.known = plan.kept_target(target, selector, gateway.known, now)
    return content_of(capoperator, chart, image, cluster_domain, target)


def content_of(capoperator: CAPOperator, chart: Chart, image: str, cluster_domain: str, target: DnsTarget) -> Content:
    """The content from what was read (pure). An unknown `cluster_domain` is empty. Raises CapOperatorFailed."""
    if chart.is_product and not image:
        raise ImageUnknown(IMAGE_VARIABLE)
    if not cluster_domain:
        raise ClusterDomainUnknown(f"ConfigMap {SHOOT_INFO} has no data.domain, or does not exist")
    domain = plan.server_domain(capoperator.spec, cluster_domain)
    own = plan.chart_values(capoperator.spec, domain, target.name)
    values = chart.values(own, image, capoperator.metadata.name)
    return Content(values, plan.digest_of(capoperator, chart.files.digest, values), target)


def check_only(capoperator: CAPOperator, known: Iterable[CAPOperator]) -> None:
    """Raises AnotherCapOperator unless it is the one that the cluster has. `known`: those of the cluster."""
    first = plan.first_of(known)
    if first is not None and first.key != capoperator.key:
        raise AnotherCapOperator(capoperator.key, first.key)


async def _dns_target(capoperator: CAPOperator, selector: str, cluster_domain: str, watches: Watches) -> DnsTarget:
    if not selector:
        return DnsTarget(plan.normalized(capoperator.spec.dns_target))
    try:
        pods, services = await watches.gateway(selector)
    except NotWatched as error:
        return DnsTarget(f"x.{cluster_domain}", str(error))
    return plan.dns_target_of_gateway(pods, services, cluster_domain)
