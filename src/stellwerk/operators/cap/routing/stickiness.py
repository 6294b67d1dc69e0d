"""Specs of DestinationRules: which pod of a workload a client reaches. Pure."""

from __future__ import annotations

from stellwerk.api.istio import ConsistentHash, DestinationRuleSpec, LoadBalancer, StickyCookie, TrafficPolicy

ROUTER_COOKIE = StickyCookie(name="CAPOP_ROUTER_STICKY", path="/", ttl="0s")
"""A router keeps sessions in memory, so its clients stay on one pod also where nothing is configured."""


def chosen(hash: ConsistentHash | None, *, has_default: bool) -> ConsistentHash | None:
    """What chooses the pod; None: each request may go to another one. `has_default`: a router has a cookie of ours.

    Of several ways the first counts: header, cookie, parameter of the query, address of the client.
    """
    if hash is None:
        return ConsistentHash(http_cookie=ROUTER_COOKIE) if has_default else None
    if hash.http_header_name:
        return ConsistentHash(http_header_name=hash.http_header_name)
    if hash.http_cookie is not None:
        return ConsistentHash(http_cookie=hash.http_cookie)
    if hash.http_query_parameter_name:
        return ConsistentHash(http_query_parameter_name=hash.http_query_parameter_name)
    return ConsistentHash(use_source_ip=True) if hash.use_source_ip else None


def destination_rule(service: str, namespace: str, hash: ConsistentHash) -> DestinationRuleSpec:
    """The spec for the Service of a workload."""
    policy = TrafficPolicy(load_balancer=LoadBalancer(consistent_hash=hash))
    return DestinationRuleSpec(host=f"{service}.{namespace}.svc.cluster.local", traffic_policy=policy)
