"""Faults between an operator and its API server: the real server, behind a TLS proxy that obeys a test's rules.

    async with FaultProxy(cluster.kubeconfig) as proxy:
        proxy.on_requests(requests("create", "configmaps"), Cut(after_forwarding=True), nth(1))
        operator = OperatorProcess(..., kubeconfig=proxy.kubeconfig)
        ...
        await proxy.history.write_seen(2)

A rule is a condition (`requests`, `events`, WRITES, joined by & | ~), a fault, and the occasions on which it happens
(`nth`, `first`, `chance`). We refused to fake the server: what an operator must withstand is the real one's timing,
versions and refusals, with a bad line before it.

proxy        takes a request, lets the rules act, and passes on what is left; upstream: its connections to the server
rules        when a fault happens
on_requests  what can go wrong with a request; on_events: with a watch; stale_reads: with a read
reply        what goes back to the operator
traffic      what was asked, in order
"""

from stellwerk.testing.faults.on_events import (
    ANY_FRAME,
    CutFrame,
    ErrorFrame,
    EventFault,
    Hide,
    Hold,
    Repeat,
    WatchFrame,
    events,
    of_watch,
)
from stellwerk.testing.faults.on_requests import (
    AnswerInstead,
    ChangedBefore,
    CutBody,
    CutConnection,
    Delay,
    Drop,
    EndWatchAfter,
    Kill,
    RequestFault,
)
from stellwerk.testing.faults.proxy import FaultNeverHappened, FaultProxy, ProxyBroken
from stellwerk.testing.faults.rules import (
    ANYTHING,
    READS,
    WATCHES,
    WRITES,
    FaultRule,
    When,
    after_first,
    always,
    by_agent,
    chance,
    first,
    nth,
    numbered,
    requests,
)
from stellwerk.testing.faults.stale_reads import OlderView
from stellwerk.testing.faults.traffic import Exchange, RecordedRequest, TrafficHistory

__all__ = [
    "ANYTHING",
    "ANY_FRAME",
    "READS",
    "WATCHES",
    "WRITES",
    "AnswerInstead",
    "ChangedBefore",
    "CutBody",
    "CutConnection",
    "CutFrame",
    "Delay",
    "Drop",
    "EndWatchAfter",
    "ErrorFrame",
    "EventFault",
    "Exchange",
    "FaultNeverHappened",
    "FaultProxy",
    "FaultRule",
    "Hide",
    "Hold",
    "Kill",
    "OlderView",
    "ProxyBroken",
    "RecordedRequest",
    "Repeat",
    "RequestFault",
    "TrafficHistory",
    "WatchFrame",
    "When",
    "after_first",
    "always",
    "by_agent",
    "chance",
    "events",
    "first",
    "nth",
    "numbered",
    "of_watch",
    "requests",
]
