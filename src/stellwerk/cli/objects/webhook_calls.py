"""Asks the servers of admission webhooks whether they answer, without a write.

One at a URL, as in the local system, is asked directly. One behind a Service is asked by the API server, which reaches
pods where this machine does not; a user who may not use that way sees at least whether the Service has a ready pod.
Any answer will do, also a refusal: what a webhook answers about objects is its own matter.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import ssl
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from urllib.parse import urlsplit

from stellwerk.api.discovery import SERVICE_NAME_LABEL, EndpointSlice
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import ApiError, Forbidden, NotFound, ServerFault, Unreachable
from stellwerk.kube.types.model import JsonValue, Unstructured, dig
from stellwerk.runtime.insight.diagnosis import ClusterReader

_SECONDS = 5.0
"""How long a webhook may take; API servers wait for ours no longer."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a webhook is asked: at a URL, or behind a Service."""

    url: str = ""
    bundle: str = ""
    namespace: str = ""
    service: str = ""
    port: int = 443
    path: str = ""

    def __str__(self) -> str:
        return self.url or f"Service {self.namespace}/{self.service}"


def addresses(configuration: Unstructured) -> Iterator[Address]:
    """The addresses of the webhooks of a configuration, each server once. Pure."""
    seen = set[str]()
    listed = configuration.at("webhooks")
    for webhook in listed if isinstance(listed, list) else ():
        found = _address(dig(webhook, "clientConfig"))
        if found is not None and (server := urlsplit(found.url).netloc or str(found)) not in seen:
            seen.add(server)
            yield found


def _address(way: JsonValue) -> Address | None:
    if isinstance(url := dig(way, "url"), str):
        return Address(url=url, bundle=str(dig(way, "caBundle") or ""))
    namespace, name, path, port = (dig(way, "service", part) for part in ("namespace", "name", "path", "port"))
    if not (isinstance(namespace, str) and isinstance(name, str)):
        return None
    return Address(
        namespace=namespace,
        service=name,
        port=port if isinstance(port, int) else 443,
        path=path if isinstance(path, str) else "",
    )


async def silence(client: Client, configuration: Unstructured) -> str:
    """Which webhook of a configuration does not answer, and what became of the call; empty if all of them do."""
    for address in addresses(configuration):
        why = await (_at_url(address) if address.url else _behind_service(client, address))
        if why:
            return f"{configuration.ref}: {address} does not answer: {why}"
    return ""


async def _at_url(address: Address) -> str:
    parts = urlsplit(address.url)
    try:
        trust = ssl.create_default_context(cadata=base64.b64decode(address.bundle).decode() or None)
        async with asyncio.timeout(_SECONDS):
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 443, ssl=trust)
            with closing(writer):
                writer.write(f"GET {parts.path or '/'} HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())
                return "" if (await reader.readline()).startswith(b"HTTP/") else "its answer is not HTTP"
    except TimeoutError:
        return f"no answer within {_SECONDS:g} s"
    except (ssl.SSLError, binascii.Error, UnicodeDecodeError) as error:
        return f"its certificate is not trusted: {error}"
    except OSError as error:
        return os.strerror(error.errno) if error.errno else str(error)


async def _behind_service(client: Client, address: Address) -> str:
    reader = ClusterReader(client)
    slices = await reader.list(
        EndpointSlice.resource, address.namespace, labels=f"{SERVICE_NAME_LABEL}={address.service}"
    )
    if not reader.hidden and not any(_is_ready(one) for each in slices for one in _endpoints(each)):
        return "no pod of it is ready"
    service = f"/api/v1/namespaces/{address.namespace}/services/https:{address.service}:{address.port}/proxy"
    try:
        async with asyncio.timeout(_SECONDS):
            await client.raw("GET", f"{service}{address.path}", accept="*/*")
    except TimeoutError:
        return f"no answer within {_SECONDS:g} s"
    except Forbidden:  # of this way, or of the webhook itself
        return ""
    except NotFound as error:  # of the Service, or what the webhook returns for the path
        return str(error) if error.status.details.kind == "services" else ""
    except (ServerFault, Unreachable) as error:
        return str(error)
    except ApiError:
        return ""
    return ""


def _endpoints(slices: Unstructured) -> list[JsonValue]:
    found = slices.at("endpoints")
    return found if isinstance(found, list) else []


def _is_ready(endpoint: JsonValue) -> bool:
    return dig(endpoint, "conditions", "ready") is not False
