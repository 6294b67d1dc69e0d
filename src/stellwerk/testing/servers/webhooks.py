"""Doubles of what Kubernetes is not: real servers on loopback that behave as badly as a test asks.

An admission webhook is called by the API server itself, so it is registered by URL; everything else about it (TLS, the
review protocol, time limits, failure policy) is the real thing.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from aiohttp import web

from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.testing.eventually import Signal, eventually
from stellwerk.testing.faults.upstream import Upstream
from stellwerk.testing.servers.tls_server import TlsServer

_CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/{plural}"
_PROBES = "/api/v1/namespaces/{namespace}/configmaps?dryRun=All"
_REVIEW, _PROBE = "/review", "/probe"
_PROBE_LABEL = "testing.stellwerk/probe"


@dataclass(frozen=True, slots=True)
class Accept:
    """Lets every request in. `patch` is a JSON patch, for a mutating webhook."""

    patch: Sequence[JsonObject] = ()
    warnings: Sequence[str] = ()

    async def answer(self, review: JsonObject) -> web.StreamResponse:
        response: JsonObject = {"uid": _request(review)["uid"], "allowed": True, "warnings": list(self.warnings)}
        if self.patch:
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(json.dumps(list(self.patch)).encode()).decode()
        return _reviewed(review, response)


@dataclass(frozen=True, slots=True)
class Reject:
    """Refuses every request."""

    message: str = "the webhook refuses it"
    code: int = 403

    async def answer(self, review: JsonObject) -> web.StreamResponse:
        status: JsonObject = {"code": self.code, "message": self.message}
        return _reviewed(review, {"uid": _request(review)["uid"], "allowed": False, "status": status})


@dataclass(frozen=True, slots=True)
class HangingReview:
    """Takes the request and never answers."""

    async def answer(self, review: JsonObject) -> web.StreamResponse:
        await asyncio.get_running_loop().create_future()
        raise AssertionError("no caller resolves this future")


@dataclass(frozen=True, slots=True)
class GarbageReview:
    """Answers with something that is no review."""

    status: int = 200
    body: bytes = b"<html>not found</html>"

    async def answer(self, review: JsonObject) -> web.StreamResponse:
        return web.Response(status=self.status, body=self.body)


Behaviour = Accept | Reject | HangingReview | GarbageReview


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookRule:
    """What a webhook is asked about. Core group: an empty `group`."""

    resource: str
    group: str = ""
    version: str = "v1"
    operations: Sequence[str] = ("CREATE", "UPDATE")


class ScriptedAdmissionServer:
    """An admission webhook. Opened by `async with`; `behaviour` may be changed at any time.

    `reviewed` are the requests of the reviews that came, in order; `changed` rings at each.
    """

    def __init__(self, behaviour: Behaviour | None = None) -> None:
        self.behaviour: Behaviour = behaviour or Accept()
        self.reviewed: list[JsonObject] = []
        self.changed = Signal()
        self._probed = ""
        self._server = TlsServer(self._handle)

    async def __aenter__(self) -> ScriptedAdmissionServer:
        await self._server.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.__aexit__()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        review = cast(JsonObject, json.loads(await request.read()))
        if request.path == _PROBE:
            self._probed = str(_request(review).get("name"))
            return await Accept().answer(review)
        self.reviewed.append(_request(review))
        self.changed.ring()
        return await self.behaviour.answer(review)

    async def asked(self, count: int = 1, *, within: float = 30.0) -> JsonObject:
        """Wait for the review with this number; returns its request. Raises StillUntrue."""
        await eventually(
            lambda: len(self.reviewed) >= count, within=within, on=self.changed, describe=f"review {count}"
        )
        return self.reviewed[count - 1]

    def configuration(
        self,
        name: str,
        rules: Sequence[WebhookRule],
        *,
        namespace: str,
        mutating: bool = False,
        failure_policy: Literal["Fail", "Ignore"] = "Fail",
        timeout_seconds: int = 30,
    ) -> JsonObject:
        """The registration of this server for one namespace, as an object to create.

        A namespace is required, because a webhook that hangs would stop everybody else on a shared cluster. The API
        server waits as long as it can for the answers, which a busy machine may keep back for seconds.
        """
        webhook = self._webhook(f"{name}.test.example.com", _REVIEW, [_rule(rule) for rule in rules], namespace)
        webhook |= {"failurePolicy": failure_policy, "timeoutSeconds": timeout_seconds}
        webhook["objectSelector"] = {"matchExpressions": [{"key": _PROBE_LABEL, "operator": "DoesNotExist"}]}
        probe = self._webhook(
            f"probe.{name}.test.example.com", _PROBE, [_rule(WebhookRule(resource="configmaps"))], namespace
        )
        probe |= {"failurePolicy": "Ignore", "objectSelector": {"matchLabels": {_PROBE_LABEL: name}}}
        kind = "MutatingWebhookConfiguration" if mutating else "ValidatingWebhookConfiguration"
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": name},
            "webhooks": [webhook, probe],
        }

    def _webhook(self, name: str, path: str, rules: list[JsonValue], namespace: str) -> JsonObject:
        authority = base64.b64encode(self._server.authority.encode()).decode()
        return {
            "name": name,
            "clientConfig": {"url": self._server.url + path, "caBundle": authority},
            "rules": rules,
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }

    @asynccontextmanager
    async def registered(self, kubeconfig: Path, configuration: JsonObject, namespace: str) -> AsyncIterator[None]:
        """Register it at the API server of a kubeconfig and wait until that asks; unregistered at the end.

        The API server reads configurations from a watch of its own, so it asks a moment later than it was configured
        to. A dry run, about which only a second webhook of ours is asked, shows when that moment has come.
        """
        plural = f"{configuration['kind']}s".lower()
        collection = _CONFIGURATIONS.format(plural=plural)
        name = str(cast(JsonObject, configuration["metadata"])["name"])
        async with Upstream(kubeconfig) as upstream:
            await _expect(upstream, 201, "POST", collection, configuration)
            try:
                await self._until_asked(upstream, name, namespace)
                yield
            finally:
                await _expect(upstream, 200, "DELETE", f"{collection}/{name}")

    async def _until_asked(self, upstream: Upstream, name: str, namespace: str) -> None:
        probe: JsonObject = {"metadata": {"name": f"probe-{name}", "labels": {_PROBE_LABEL: name}}}

        async def asked() -> bool:
            await _expect(upstream, 201, "POST", _PROBES.format(namespace=namespace), probe)
            return self._probed == f"probe-{name}"

        await eventually(asked, describe=f"the API server asks the webhook {name}")


async def _expect(upstream: Upstream, status: int, method: str, path: str, body: JsonObject | None = None) -> None:
    content = json.dumps(body).encode() if body is not None else b""
    reply = await upstream.call(method, path, headers={"Content-Type": "application/json"}, body=content)
    assert reply.status == status, f"{method} {path}: {reply.status} {reply.body!r}"


def _rule(rule: WebhookRule) -> JsonValue:
    return {
        "apiGroups": [rule.group],
        "apiVersions": [rule.version],
        "resources": [rule.resource],
        "operations": list(rule.operations),
    }


def _request(review: JsonObject) -> JsonObject:
    return cast(JsonObject, review["request"])


def _reviewed(review: JsonObject, response: JsonObject) -> web.StreamResponse:
    return web.json_response({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response})
