"""Watchers, and what is around them."""

from __future__ import annotations

import random
from typing import Any

import msgspec
from tests.unit.kyma.objects import DELETED, PREFIX, metadata
from tests.unit.kyma.watcher.authorities import DAY, NOW, a_root, an_authority, loads
from tests.unit.kyma.watcher.authorities import a_gateway as a_gateway_secret

from stellwerk.api.istio import Gateway, VirtualService
from stellwerk.kube.types.object_meta import Record
from stellwerk.operators.kyma.api_watcher import Watcher, WatcherStatus
from stellwerk.operators.kyma.collections import GATEWAYS, ROUTES
from stellwerk.operators.kyma.settings import Settings
from stellwerk.operators.kyma.watcher.certificates import GATEWAY_SECRETS, ROOT_SECRETS, AuthoritySecret
from stellwerk.operators.kyma.watcher.decide import WatcherLogic, WatcherSettings
from stellwerk.operators.kyma.watcher.gateway import GatewayLogic
from stellwerk.runtime.reading.loads import PlainLoads
from stellwerk.testing import steps as kit
from stellwerk.testing.clock import FakeClock

OURS = f"{PREFIX}/watcher"
GATEWAY_LABELS = {f"{PREFIX}/watcher-gateway": "default"}


def a_watcher(name: str = "kyma", *, status: Any = None, spec: Any = None, **fields: Any) -> Watcher:
    """One with our finalizer."""
    wanted = {
        "serviceInfo": {"name": "events", "namespace": "kcp-system", "port": 8082},
        "manager": "lifecycle-manager",
        "labelsToWatch": {f"{PREFIX}/watched-by": "kyma"},
        "resourceToWatch": {"group": PREFIX, "version": "*", "resource": "kymas"},
        "field": "spec",
        "gateway": {"selector": {"matchLabels": GATEWAY_LABELS}},
        **(spec or {}),
    }
    body = {"metadata": metadata(name, **{"finalizers": [OURS], **fields}), "spec": wanted, "status": status or {}}
    return msgspec.convert(body, Watcher)


def a_gateway(name: str = "gate", *hosts: str, namespace: str = "kcp-system", labels: Any = None) -> Gateway:
    servers = [{"port": {"number": 443, "protocol": "HTTPS", "name": "https"}, "hosts": list(hosts)}]
    meta = metadata(name, namespace, labels=GATEWAY_LABELS if labels is None else labels)
    return msgspec.convert({"metadata": meta, "spec": {"servers": servers}}, Gateway)


def a_route(owner: str = "uid-of-kyma", **changed: Any) -> VirtualService:
    """The route of the Watcher `kyma` through the Gateway `gate`."""
    spec = {
        "hosts": ["listen.example.com"],
        "gateways": ["kcp-system/gate"],
        "http": [
            {
                "name": "kcp-system/kyma",
                "match": [{"uri": {"prefix": "/v2/lifecycle-manager/event"}}],
                "route": [{"destination": {"host": "events.kcp-system.svc.cluster.local", "port": {"number": 8082}}}],
            }
        ],
        **changed.pop("spec", {}),
    }
    owners = [{"apiVersion": f"{PREFIX}/v1beta2", "kind": "Watcher", "name": "kyma", "uid": owner, "controller": True}]
    return msgspec.convert(
        {"metadata": metadata("kyma", ownerReferences=owners, **changed), "spec": spec}, VirtualService
    )


def in_steps(some: random.Random) -> kit.World[Any, Any]:
    """A random world of a Watcher or of the Gateway, for the properties of all kinds that decide by steps."""
    return _of_gateway(some) if some.random() < 0.3 else _of_watcher(some)


FORMER, NEWER, SHORT = an_authority(NOW, 90), an_authority(NOW + 60 * DAY, 90), an_authority(NOW, 50)


def _of_gateway(some: random.Random) -> kit.World[AuthoritySecret, Record]:
    clock, shown = FakeClock(NOW + some.choice([0, 61, 70]) * DAY), some.choice([FORMER, NEWER, SHORT])
    root = a_root(some.choice([FORMER, NEWER]))
    leaving = a_gateway_secret(FORMER, deletionTimestamp=DELETED, finalizers=["others/one"])
    kept = a_gateway_secret(shown, added=some.choice([None, NOW, NOW + 60 * DAY]))
    found = some.choice([[], [kept], [kept], [leaving]])
    known = some.choice([PlainLoads(), loads(**{root.metadata.name: NEWER}), loads(**{root.metadata.name: FORMER})])
    return kit.World(
        logic=GatewayLogic(),
        obj=root,
        objects={ROOT_SECRETS: [], GATEWAY_SECRETS: found},
        settings=(Settings(),),
        loads=known,
        clock=clock,
    )


def _of_watcher(some: random.Random) -> kit.World[Watcher, WatcherStatus]:
    watcher = some.choice(
        [
            a_watcher(),
            a_watcher(finalizers=[]),
            a_watcher(spec={"manager": ""}),
            a_watcher(deletionTimestamp=DELETED),
            a_watcher(deletionTimestamp=DELETED, finalizers=["others/one"]),
        ]
    )
    gateways = [a_gateway("gate", "listen.example.com"), a_gateway("a", "b"), a_gateway("none")]
    leaving = a_route(deletionTimestamp=DELETED, finalizers=["others/one"])
    routes = [a_route(), a_route("other"), a_route(spec={"hosts": []}), leaving]
    clock = FakeClock()
    return kit.World(
        logic=WatcherLogic(clock),
        obj=watcher,
        objects={GATEWAYS: some.sample(gateways, some.randint(0, 3)), ROUTES: some.sample(routes, some.randint(0, 1))},
        settings=(WatcherSettings(),),
        clock=clock,
    )
