"""redis-py's `Lock` for asyncio: see `foreign.rs`."""

import asyncio
import json
import sys
import time

import redis.asyncio
from redis.exceptions import LockError

TTL = 30
clients = {}


def client_of(url):
    if url not in clients:
        # The default is a hundred connections; a further caller would wait for one.
        pool = redis.asyncio.BlockingConnectionPool.from_url(url, max_connections=100, timeout=None)
        clients[url] = redis.asyncio.Redis(connection_pool=pool)
    return clients[url]


async def uncontended(url, count):
    client = client_of(url)
    us = []
    # The first round is not counted.
    for _ in range(count + 1):
        start = time.perf_counter()
        lock = client.lock("uncontended", timeout=TTL)
        assert await lock.acquire(blocking=False)
        await lock.release()
        us.append((time.perf_counter() - start) * 1e6)
    return {"us": us[1:]}


async def hand_off(url, key, waiters, holds, lasts, **counts):
    client = client_of(url)
    start = time.perf_counter()
    ms = []
    left_at = None
    held = 0
    entered = asyncio.Event()

    async def waiter():
        nonlocal left_at, held, entered
        while (left := start + lasts - time.perf_counter()) > 0:
            lock = client.lock(key, timeout=TTL)
            if not await lock.acquire(blocking_timeout=left):
                continue
            now = time.perf_counter()
            if left_at is not None and counts["from"] <= now - start < counts["to"]:
                ms.append((now - left_at) * 1e3)
            held += 1
            mine = held
            entered.set()
            entered = asyncio.Event()
            await asyncio.sleep(holds)
            left_at = time.perf_counter()
            await lock.release()
            while held == mine and (left := start + lasts - time.perf_counter()) > 0:
                try:
                    await asyncio.wait_for(entered.wait(), left)
                except asyncio.TimeoutError:
                    pass

    await asyncio.gather(*(waiter() for _ in range(waiters)))
    return {"ms": ms}


async def flash_sale(url, key, requests, at_a_time, wait):
    client = client_of(url)
    ms = []
    asked = failed = overlaps = 0
    occupied = False

    async def buyer():
        nonlocal asked, failed, overlaps, occupied
        while asked < requests:
            asked += 1
            start = time.perf_counter()
            lock = client.lock(key, timeout=TTL)
            if not await lock.acquire(blocking_timeout=wait):
                failed += 1
                continue
            overlaps += occupied
            occupied = True
            await client.incr(key + ":sold")
            occupied = False
            try:
                await lock.release()
            except LockError:
                failed += 1
                continue
            ms.append((time.perf_counter() - start) * 1e3)

    start = time.perf_counter()
    await asyncio.gather(*(buyer() for _ in range(at_a_time)))
    return {"lasted": time.perf_counter() - start, "ms": ms, "failed": failed, "overlaps": overlaps}


async def main():
    workloads = {"uncontended": uncontended, "hand_off": hand_off, "flash_sale": flash_sale}
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(await workloads[request.pop("do")](**request)), flush=True)


asyncio.run(main())
