"""A process of the second client that runs bodies once, and reads one command a line, as `peer.rs` says.

| we say | it answers |
| --- | --- |
| `once KEY BY VALUE` | `asks`; then `runs` if it runs the body, which goes on after the next line; then `ran VALUE`, `told VALUE` behind a push that the body is done, `read VALUE` without one, `reused`, or `interrupted OWNER` |
| `lock KEY` | `asks`; then `held`, once it has had the lock |
"""

import asyncio
import sys
from urllib.parse import urlsplit

from client import Client, Interrupted, KeyReused, Once


def say(*words):
    print(*words, flush=True)


async def main(url):
    address = urlsplit(url)
    client = await Client(address.hostname, address.port).start()
    client.is_ending = False
    lines = asyncio.Queue()
    loop = asyncio.get_running_loop()

    async def reads():
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            await lines.put(line.split())

    reader = asyncio.ensure_future(reads())
    say("ready")
    while not reader.done():
        command, key, *rest = await lines.get()
        say("asks")
        if command == "lock":
            lock = await client.acquire(key, 1500, 60)
            await lock.release()
            say("held")
            continue
        by, value = rest

        async def body():
            say("runs")
            await lines.get()
            return value

        once = Once(None if by == "-" else by, 86_400_000, False)
        try:
            value, ran = await client.once(key, 1500, 60, once, body)
            say("ran" if ran else "told" if once.was_told else "read", value)
        except KeyReused:
            say("reused")
        except Interrupted as owner:
            say("interrupted", owner)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
