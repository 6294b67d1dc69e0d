"""Names of objects, for a shell that waits: one request over the standard library.

The product's client would do it too, and would be imported for longer than a person waits for TAB.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from urllib.parse import quote, urlsplit

from stellwerk.cli.shell.login import configuration
from stellwerk.cli.shell.settings import CallSettings
from stellwerk.kube.login.auth import LoginProgram
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import Resource
from stellwerk.lazy_imports import lazy_imports

with lazy_imports(__name__):
    import asyncio

_NAMES_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_MOST = 5000


def words(
    resource: Resource, settings: CallSettings, budget_seconds: float, *, labels: str = "", path: tuple[str, ...] = ()
) -> list[str]:
    """The names of the objects in the namespace of the call or of the context; in all of them with `-A`.

    With a path, the values of a field of them. Raises any error of the request, TimeoutError included.
    """
    deadline = time.monotonic() + budget_seconds
    config = configuration(settings)
    namespace = "" if settings.all_namespaces else settings.namespace or config.namespace or "default"
    selector = f"&labelSelector={quote(labels)}" if labels else ""
    accept = "application/json" if path else _NAMES_ONLY
    answer = _ask(config, f"{resource.path(namespace)}?limit={_MOST}{selector}", settings.user, deadline, accept)
    return sorted({word for item in json.loads(answer)["items"] for word in _at(item, path or ("metadata", "name"))})


def _at(value: object, path: tuple[str, ...]) -> Iterator[str]:
    """The texts at a path; a list on the way means each of its items."""
    match value:
        case list():
            for each in value:
                yield from _at(each, path)
        case dict() if path:
            yield from _at(value.get(path[0]), path[1:])
        case str() if not path:
            yield value
        case _:
            pass


def _ask(config: ClusterConfig, path: str, user: str | None, deadline: float, accept: str) -> bytes:
    headers = {"Accept": accept}
    if login := _login(config, deadline):
        headers["Authorization"] = login
    if user:
        headers["Impersonate-User"] = user
    place = urlsplit(config.server)
    connection: http.client.HTTPConnection
    if place.scheme == "https":
        connection = http.client.HTTPSConnection(
            place.hostname or "", place.port, timeout=_left(deadline), context=config.ssl_context()
        )
    else:
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=_left(deadline))
    try:
        connection.request("GET", place.path + path, headers=headers)
        return connection.getresponse().read()
    finally:
        connection.close()


def _login(config: ClusterConfig, deadline: float) -> str:
    """The header of the login. Only a login program waits for something, and needs an event loop."""
    if isinstance(config.credentials, LoginProgram):
        return asyncio.run(asyncio.wait_for(config.credentials.authorization(), _left(deadline)))
    try:
        config.credentials.authorization().send(None)
    except StopIteration as end:
        return str(end.value)
    raise TimeoutError


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
