"""redis-py's `Lock`, told what to do line by line: see `peer.rs`."""

import sys
import time

import redis
from redis.exceptions import LockError

client = redis.Redis.from_url(sys.argv[1])
lock = None


def attempt(key, ttl):
    global lock
    lock = client.lock(key, timeout=int(ttl) / 1000, sleep=0.01)
    return lock.acquire(blocking=False)


def wait(key, ttl):
    if not attempt(key, ttl):
        print("waiting", flush=True)
        if not lock.acquire(blocking_timeout=20):
            return "refused"
    return "held"


def owned(action):
    try:
        action()
    except LockError:  # LockNotOwnedError is one
        return False
    return True


def count(key, counter, rounds):
    for _ in range(int(rounds)):
        with client.lock(key, timeout=20, sleep=0.002, blocking_timeout=20):
            seen = int(client.get(counter) or 0)
            time.sleep(0.001)
            client.set(counter, seen + 1)
    return "counted"


print("ready", flush=True)
for line in sys.stdin:
    command, *words = line.split()
    if command == "try":
        answer = "held" if attempt(*words) else "refused"
    elif command == "wait":
        answer = wait(*words)
    elif command == "extend":
        extended = owned(lambda: lock.extend(int(words[0]) / 1000, replace_ttl=True))
        answer = "extended" if extended else "lost"
    elif command == "release":
        answer = "released" if owned(lock.release) else "lost"
    elif command == "count":
        answer = count(*words)
    print(answer, flush=True)
