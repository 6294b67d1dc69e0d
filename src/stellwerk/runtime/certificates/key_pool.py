"""Private keys made ahead of need.

An RSA key of 4,096 bits takes between 0.05 and 2 seconds, which is not known beforehand. So it is made before
a pass waits for it: in threads, which hold no interpreter lock meanwhile, and side by side, so that two keys take as
long as the unluckier one. What is taken is replaced by its successor at once.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor

from stellwerk.runtime.certificates import certs
from stellwerk.runtime.certificates.certs import PrivateKey


class KeyStock:
    """A few keys of one size, ready or being made. Use from one event loop; threads start with the first key."""

    def __init__(self, count: int = 2) -> None:
        self._count = count
        self._threads = ThreadPoolExecutor(max_workers=min(count, os.cpu_count() or 1), thread_name_prefix="key")
        self._made: deque[Future[PrivateKey]] = deque()
        self._bits = 0

    def fill(self, bits: int) -> None:
        """Start to make missing keys. Keys of another size are dropped."""
        if bits != self._bits:
            self._drop()
            self._bits = bits
        while len(self._made) < self._count:
            self._made.append(self._threads.submit(certs.new_key, bits))

    async def take(self, bits: int) -> PrivateKey:
        """A key that no other caller gets: one that is ready, else the one that was started first."""
        self.fill(bits)
        chosen = next((made for made in self._made if made.done()), self._made[0])
        self._made.remove(chosen)
        return await asyncio.wrap_future(chosen)

    @property
    def ready(self) -> int:
        """How many keys could be taken without waiting."""
        return sum(made.done() for made in self._made)

    @property
    def begun(self) -> int:
        """How many keys are ready or being made."""
        return len(self._made)

    async def close(self) -> None:
        """Begin no further key; one that is being made ends by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _drop(self) -> None:
        for made in self._made:
            made.cancel()
        self._made.clear()
