"""Which handler a request is for."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import unquote

from stellwerk.runtime.serving.http_messages import Request, Response, refusal

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]

_PARAMETER = re.compile(r"\{(\w+)(:\.\*)?\}")


@dataclass(frozen=True, slots=True)
class Route:
    """One path of a server. `method` `*` means all of them.

    `{name}` in the path takes one part of it, `{name:.*}` at its end takes all the rest.
    """

    method: str
    path: str
    handler: Handler


class Routes:
    """All routes of a server. The first one that fits is taken."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = [(re.compile(_expression(route.path)), route) for route in routes]

    def find(self, request: Request) -> Handler | Response:
        """The handler, with the parts of the path in the request; else the refusal (404, or 405 with the methods)."""
        methods = set[str]()
        for expression, route in self._routes:
            fitting = expression.fullmatch(request.path)
            if fitting is None:
                continue
            if route.method in ("*", request.method):
                request.found = {name: unquote(value) for name, value in fitting.groupdict().items()}
                return route.handler
            methods.add(route.method)
        if not methods:
            return refusal(404)
        refused = refusal(405)
        refused.headers["Allow"] = ",".join(sorted(methods))
        return refused


def _expression(path: str) -> str:
    """The path as a regular expression."""
    parts, end = list[str](), 0
    for parameter in _PARAMETER.finditer(path):
        parts.append(re.escape(path[end : parameter.start()]))
        parts.append(f"(?P<{parameter[1]}>{'.*' if parameter[2] else '[^/]+'})")
        end = parameter.end()
    return "".join([*parts, re.escape(path[end:])])
