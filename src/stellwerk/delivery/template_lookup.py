"""The objects of a cluster that a template reads."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Iterable, Iterator

from stellwerk.kube.client.client import Client
from stellwerk.kube.masking import words_of
from stellwerk.kube.types.errors import AnswerTooLarge, NotServed
from stellwerk.kube.types.identifiers import GroupVersionKind
from stellwerk.kube.types.model import JsonObject, JsonValue, unstructured
from stellwerk.render.errors import LimitExceeded
from stellwerk.render.request.request import Missing, TemplateQuery
from stellwerk.runtime.control import secrecy

MOST_LISTED_BYTES = 64 << 20
"""Of memory. The operator holds the list, and the renderer again, a few times larger. The operator's own lists have no
bound in its own cluster, but tenants ask for these."""


async def answer(client: Client, query: TemplateQuery) -> JsonValue | Missing:
    """The object or the list that a template asks for. Raises ApiError; InvalidName for what cannot be a name;
    LimitExceeded for what is too large."""
    try:
        resource = await client.mapper.resource(GroupVersionKind.parse(query.api_version, query.kind))
        if query.many:
            listed = await client.list(
                unstructured(resource), query.namespace, labels=query.label_selector, largest_bytes=MOST_LISTED_BYTES
            )
            return [*_noted(query, [obj.body for obj in listed.items])]
        found = await client.find(unstructured(resource), query.name, query.namespace)
    except NotServed:
        return Missing.KIND
    except AnswerTooLarge as error:
        raise LimitExceeded(str(error)) from error
    return _noted(query, [found.body])[0] if found is not None else Missing.OBJECT


def _noted(query: TemplateQuery, objects: list[JsonObject]) -> list[JsonObject]:
    """The objects; the words of Secrets are noted for the pass under way."""
    if query.kind == "Secret" and objects:
        secrecy.note(f"look-up {query.namespace}/{query.name}{query.label_selector}", lambda: secret_words_of(objects))
    return objects


def secret_words_of(objects: Iterable[JsonObject]) -> Iterator[str]:
    """What must not be shown of the Secrets among these objects."""
    for body in objects:
        if body.get("kind") != "Secret":
            continue
        yield from words_of(body.get("stringData"))
        data = body.get("data")
        for value in data.values() if isinstance(data, dict) else ():
            if isinstance(value, str):
                yield value
                with contextlib.suppress(ValueError):
                    yield from words_of(base64.b64decode(value).decode(errors="replace"))
