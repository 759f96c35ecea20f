"""The `Lock` of `redis.asyncio`, told what to do line by line: see `peer.rs`."""

import asyncio
import sys

import redis.asyncio as redis
from redis.exceptions import LockError


async def wait(lock):
    if not await lock.acquire(blocking=False):
        print("waiting", flush=True)
        if not await lock.acquire(blocking_timeout=20):
            return "refused"
    return "held"


async def owned(action):
    try:
        await action
    except LockError:  # LockNotOwnedError is one
        return False
    return True


async def count(client, key, counter, rounds):
    for _ in range(int(rounds)):
        async with client.lock(key, timeout=20, sleep=0.002, blocking_timeout=20):
            seen = int(await client.get(counter) or 0)
            await asyncio.sleep(0.001)
            await client.set(counter, seen + 1)
    return "counted"


async def main():
    client = redis.Redis.from_url(sys.argv[1])
    lock = None
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        command, *words = line.split()
        if command in ("try", "wait"):
            lock = client.lock(words[0], timeout=int(words[1]) / 1000, sleep=0.01)
        if command == "try":
            answer = "held" if await lock.acquire(blocking=False) else "refused"
        elif command == "wait":
            answer = await wait(lock)
        elif command == "extend":
            extended = await owned(lock.extend(int(words[0]) / 1000, replace_ttl=True))
            answer = "extended" if extended else "lost"
        elif command == "release":
            answer = "released" if await owned(lock.release()) else "lost"
        elif command == "count":
            answer = await count(client, *words)
        print(answer, flush=True)


asyncio.run(main())
