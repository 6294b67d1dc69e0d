"""An API server of somebody else's, as Kubernetes aggregates them: one kind, Widgets, held in memory.

It answers what a client of ours asks about Widgets, and refuses everything before a test opens it.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web

from stellwerk.kube.types.model import JsonObject
from stellwerk.testing.servers.tls_server import TlsServer

Body = dict[str, Any]
_GONE = object()


class WidgetServer:
    """Serves Widgets of one group. Opened by `async with`; `is_up` says whether it answers."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.is_up = False
        self.widgets: dict[tuple[str, str], Body] = {}
        self._version = 100
        self._told: list[tuple[int, Body]] = []
        """All events with their versions: a watch begins where its list has ended, however late it comes."""
        self._watchers: list[asyncio.Queue[Body | object]] = []
        self._server = TlsServer(self._handle)
        self._open = AsyncExitStack()

    async def __aenter__(self) -> WidgetServer:
        await self._open.enter_async_context(self._server)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._end_watches()
        await self._open.aclose()

    @property
    def port(self) -> int:
        """Where it listens, on this machine."""
        return urlsplit(self._server.url).port or 0

    def service(self, name: str) -> JsonObject:
        """A Service by which the API server finds us."""
        return {"spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": self.port}]}}

    def registration(self, namespace: str, service: str) -> JsonObject:
        """The spec of an APIService."""
        at: JsonObject = {"namespace": namespace, "name": service, "port": self.port}
        return {
            "spec": {
                "group": self.group,
                "version": "v1",
                "service": at,
                "insecureSkipTLSVerify": True,
                "groupPriorityMinimum": 1000,
                "versionPriority": 15,
            }
        }

    # ---- answers

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if not self.is_up:
            return _status(503, "ServiceUnavailable")
        root = f"/apis/{self.group}/v1"
        if request.path.rstrip("/") == root:
            return web.json_response(_resources(f"{self.group}/v1"))
        if not request.path.startswith(f"{root}/"):
            return _status(404, "NotFound")
        parts = request.path.removeprefix(f"{root}/").split("/")
        namespace = parts[1] if parts[0] == "namespaces" else ""
        name = parts[3] if len(parts) > 3 else ""
        if not name and request.method == "GET":
            return await self._listed(request, namespace)
        return await self._one(request, (namespace, name))

    async def _one(self, request: web.Request, key: tuple[str, str]) -> web.StreamResponse:
        if request.method == "PATCH":
            return self._apply(key, json.loads(await request.text()))
        if key not in self.widgets:
            return _status(404, "NotFound")
        if request.method == "DELETE":
            self._version += 1
            gone = self.widgets.pop(key)
            self._tell("DELETED", {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(self._version)}})
            return web.json_response({"kind": "Status", "apiVersion": "v1", "status": "Success"})
        return web.json_response(self.widgets[key])

    def _apply(self, key: tuple[str, str], body: Body) -> web.StreamResponse:
        known = self.widgets.get(key)
        wanted = body["metadata"].get("resourceVersion")
        if wanted and wanted != (known["metadata"]["resourceVersion"] if known else "1"):
            return _status(409, "Conflict")
        self._version += 1
        identity = {"uid": known["metadata"]["uid"] if known else str(uuid.uuid4()), "namespace": key[0]}
        metadata = {**body["metadata"], **identity, "resourceVersion": str(self._version), "generation": 1}
        self.widgets[key] = {**body, "metadata": metadata}
        self._tell("MODIFIED" if known else "ADDED", self.widgets[key])
        return web.json_response(self.widgets[key], status=200 if known else 201)

    async def _listed(self, request: web.Request, namespace: str) -> web.StreamResponse:
        if request.query.get("watch") in ("1", "true"):
            return await self._watched(request)
        found = [one for (place, _), one in self.widgets.items() if namespace in ("", place)]
        items = [one for one in found if _matches(one, request.query.get("labelSelector", ""))]
        head = {"apiVersion": f"{self.group}/v1", "kind": "WidgetList"}
        return web.json_response({**head, "metadata": {"resourceVersion": str(self._version)}, "items": items})

    async def _watched(self, request: web.Request) -> web.StreamResponse:
        events: asyncio.Queue[Body | object] = asyncio.Queue()
        since = int(request.query.get("resourceVersion") or 0)
        for version, event in self._told:
            if version > since:
                events.put_nowait(event)
        self._watchers.append(events)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        while (told := await events.get()) is not _GONE:
            assert isinstance(told, dict)
            if _matches(told["object"], request.query.get("labelSelector", "")):
                await response.write(json.dumps(told).encode() + b"\n")
        return response

    def _tell(self, kind: str, widget: Body) -> None:
        event: Body = {"type": kind, "object": widget}
        self._told.append((self._version, event))
        for events in self._watchers:
            events.put_nowait(event)

    def _end_watches(self) -> None:
        for events in self._watchers:
            events.put_nowait(_GONE)


def _resources(version: str) -> Body:
    verbs = ["create", "delete", "get", "list", "patch", "update", "watch"]
    widgets = {"name": "widgets", "singularName": "widget", "namespaced": True, "kind": "Widget", "verbs": verbs}
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": [widgets]}


def _matches(widget: Body, selector: str) -> bool:
    """Selectors as our operator writes them: `key`, `key=value` and `key!=value`."""
    labels: Mapping[str, str] = widget["metadata"].get("labels") or {}
    if not selector:
        return True
    key, differs, value = selector.partition("!=")
    if differs:
        return labels.get(key) != value
    key, _, value = selector.partition("=")
    return key in labels and value in ("", labels[key])


def _status(code: int, reason: str) -> web.StreamResponse:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}
    return web.json_response(body, status=code)
