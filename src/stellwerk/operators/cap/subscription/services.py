"""Reads services from their binding Secrets, one at a time.

Decoded credentials may take thirty times the memory of their Secret, and any number of services may name one Secret. So
one service is read at a time, and a caller gets the parts that it needs, never the credentials.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from stellwerk.api.core import Secret
from stellwerk.kube import threads
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.cap.kinds.application import ServiceInfo
from stellwerk.operators.cap.pods import vcap

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class ServiceReader:
    """Reads one service after the other."""

    client: Client
    _turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))

    async def read(self, service: ServiceInfo, namespace: str, take: Callable[[JsonObject], R]) -> R | None:
        """What `take` returns for a service as workloads see it; None where its Secret is absent.

        `take` keeps no reference to what it is given. Raises ApiError, and CredentialsUnusable or another ValueError.
        """
        async with self._turn:
            secret = await self.client.find(Secret, service.secret, namespace)
            if secret is None:
                return None
            data = secret.decoded()
            return await threads.run_if_large(sum(map(len, data.values())), lambda: take(vcap.entry(service, data)))
