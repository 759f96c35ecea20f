"""A process of the second client: it takes locks, and tells what it does, as `kit::Worker` reads it."""

import asyncio
import ctypes
import random
import sys
from urllib.parse import urlsplit

from redis.exceptions import RedisError

from client import Busy, Client, Lost, now

# How tickets travel between the processes of both clients, with the number of the key in front.
TICKETS = "%tickets"


def say(word, *numbers):
    """One line in one write: a process that is killed says it as a whole or not at all."""
    sys.stdout.write("@" + " ".join([word, *(str(number) for number in numbers)]) + "\n")
    sys.stdout.flush()


def nanos():
    return int(now() * 1e9)


async def calls(client, choice, keys, number):
    """Calls for one key after the other. The time is read before the lease: who is frozen in between tells too little."""
    while not client.is_ending:
        key, ttl = choice.randrange(keys), choice.choice((600, 1500))
        fenced, wait = choice.random() < 0.7, choice.choice((0, 0.02, 5, 5, 5, 5))
        try:
            lock = await client.acquire(f"k{key}", ttl, wait, fenced)
        except Busy:
            continue
        await stays(lock, choice, key, number)
        if fenced and choice.random() < 0.15:
            try:
                ticket = await lock.into_ticket(600)
                await client.sends("RPUSH", TICKETS, f"{key} {ticket}")
            except (Lost, RedisError):
                pass
        else:
            await lock.release()
        await asyncio.sleep(choice.uniform(0, 0.05))


async def stays(lock, choice, key, number):
    hold, number[0] = number[0], number[0] + 1
    at = nanos()
    if lock.is_held():
        say("entered", hold, key, lock.fence, at)
        # A long hold is renewed several times.
        steps, longest = (200, 0.02) if choice.random() < 0.01 else (choice.randrange(4), 0.008)
        for _ in range(steps):
            await asyncio.sleep(choice.uniform(0, longest))
            at = nanos()
            if not lock.is_held():
                break
            say("seen", hold, at)
    at = nanos()
    if lock.is_held():
        say("seen", hold, at)


async def redeems(client, choice, number):
    """Redeems what any process has given away. One that is cut off in between loses the ticket."""
    while not client.is_ending:
        await asyncio.sleep(choice.uniform(0.02, 0.1))
        try:
            ticket = await client.sends("LPOP", TICKETS)
            if ticket is None:
                continue
            key, ticket = ticket.split(" ")
            # Some are late: another caller may have the lock.
            await asyncio.sleep(0.7 if choice.random() < 0.3 else 0)
            lock = await client.redeem(ticket, 1500)
        except (Lost, RedisError):
            continue
        say("redeemed")
        await stays(lock, choice, key, number)
        await lock.release()


async def tells_when_it_stands_still():
    """A lease that ends while its process does not run is no fault of the client."""
    while True:
        due = now() + 0.05
        await asyncio.sleep(0.05)
        if now() > due + 0.1:
            say("slept", int(due * 1e9), nanos())


async def main(url, seed, callers, keys):
    address = urlsplit(url)
    client = await Client(address.hostname, address.port).start()
    client.is_ending, number = False, [0]
    say("ready")
    tasks = [asyncio.ensure_future(calls(client, random.Random(f"{seed} {n}"), keys, number)) for n in range(callers)]
    tasks.append(asyncio.ensure_future(redeems(client, random.Random(seed), number)))
    ticker = asyncio.ensure_future(tells_when_it_stands_still())
    await asyncio.to_thread(sys.stdin.read)
    client.is_ending = True
    await asyncio.gather(*tasks)
    await client.end()
    ticker.cancel()


if __name__ == "__main__":
    if sys.platform == "linux":
        # Also ends a process that is frozen when its test is killed: PR_SET_PDEATHSIG, SIGKILL.
        ctypes.CDLL(None).prctl(1, 9)
    asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:])))
