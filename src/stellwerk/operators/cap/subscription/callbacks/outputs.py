"""The outputs of a tenant's Jobs, read for one answer at a time, because many answers may be due at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import AnswerTooLarge
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.tenant import CAPTenantOutput

_MOST_LISTED_BYTES = 4 << 20
"""Of memory for the outputs of a tenant, of which much less fits into an answer."""
_OUTPUTS_OF_PAGE = 2
"""A page counts once it is read: each output may have 1.5 MiB, and a tenant has one or two."""


@dataclass(frozen=True, slots=True)
class OutputReader:
    """Reads the outputs of one tenant after the other."""

    client: Client
    _turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))

    async def read(self, namespace: str, tenant_id: str) -> tuple[Sequence[CAPTenantOutput], str]:
        """The outputs, and why some are left out. None are returned where all are too large. Raises ApiError."""
        try:
            async with self._turn:
                listed = await self.client.list(
                    CAPTenantOutput,
                    namespace,
                    labels=f"{names.TENANT_ID_LABEL}={tenant_id}",
                    limit=_OUTPUTS_OF_PAGE,
                    largest_bytes=_MOST_LISTED_BYTES,
                    skip_unreadable=True,
                )
        except AnswerTooLarge as error:
            return (), f"the additional output has none of a Job: {error}"
        return listed.items, str(listed.unreadable[0]) if listed.unreadable else ""
