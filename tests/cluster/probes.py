"""What a process answers to the probes of the kubelet."""

from __future__ import annotations

import aiohttp

from stellwerk.testing.eventually import eventually


async def answers(url: str, status: int, *parts: str) -> str:
    """Return the verbose answer once it has this status and these parts."""
    last: list[str] = []

    async def holds() -> bool:
        async with aiohttp.ClientSession() as session:
            try:
                async with session.get(f"{url}?verbose") as answer:
                    last[:] = [await answer.text()]
                    return answer.status == status and all(part in last[0] for part in parts)
            except aiohttp.ClientConnectionError:
                return False  # it has not begun to listen

    await eventually(holds, within=90, describe=f"{status} with {parts}")
    return last[0]
