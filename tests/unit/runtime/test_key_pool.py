"""Keys are there before somebody waits for them, and each is given out once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from stellwerk.runtime.certificates.key_pool import KeyStock
from stellwerk.testing.eventually import eventually


@pytest.fixture
async def stock() -> AsyncIterator[KeyStock]:
    stock = KeyStock()
    yield stock
    await stock.close()


async def test_keys_are_made_ahead_and_replaced_when_taken(stock: KeyStock) -> None:
    stock.fill(0)
    await eventually(lambda: stock.ready == 2)
    await stock.take(0)
    stock.fill(0)
    await eventually(lambda: stock.ready == 2)


async def test_no_key_is_given_out_twice(stock: KeyStock) -> None:
    keys = await asyncio.gather(*(stock.take(0) for _ in range(6)))
    assert len({key.private_numbers().private_value for key in keys}) == 6  # type: ignore[union-attr]  # elliptic


async def test_a_key_that_is_ready_is_taken_before_one_that_is_not(stock: KeyStock) -> None:
    stock.fill(0)
    await eventually(lambda: stock.ready == 2)
    taken = stock.take(0)
    assert isinstance(await asyncio.wait_for(taken, 20), ec.EllipticCurvePrivateKey)


async def test_keys_of_another_size_are_let_go(stock: KeyStock) -> None:
    stock.fill(0)
    key = await stock.take(1024)
    assert isinstance(key, rsa.RSAPrivateKey)
    assert key.key_size == 1024


async def test_the_event_loop_runs_on_while_a_large_key_is_made(stock: KeyStock) -> None:
    """Eight keys, because one may be found within a few turns. In the loop itself a key takes two turns at most."""

    async def several() -> None:
        for _ in range(8):
            await stock.take(2048)

    making = asyncio.ensure_future(several())
    turns = 0
    while not making.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 40
