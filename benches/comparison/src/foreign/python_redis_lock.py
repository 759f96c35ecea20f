"""python-redis-lock, with a thread for each waiter: see `foreign.rs`."""

import json
import sys
import threading
import time

import redis
import redis_lock

TTL = 30
clients = {}


def client_of(url):
    if url not in clients:
        # Each waiter blocks its connection.
        clients[url] = redis.Redis.from_url(url, max_connections=10_000)
    return clients[url]


def run(threads, target):
    threading.stack_size(256 * 1024)
    threads = [threading.Thread(target=target) for _ in range(threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def uncontended(url, count):
    client = client_of(url)
    us = []
    # The first round is not counted.
    for _ in range(count + 1):
        start = time.perf_counter()
        lock = redis_lock.Lock(client, "uncontended", expire=TTL)
        assert lock.acquire(blocking=False)
        lock.release()
        us.append((time.perf_counter() - start) * 1e6)
    return {"us": us[1:]}


def hand_off(url, key, waiters, holds, lasts, **counts):
    client = client_of(url)
    start = time.perf_counter()
    ms = []
    left_at = None
    held = 0
    entered = threading.Condition()

    def waiter():
        nonlocal left_at, held
        while (left := start + lasts - time.perf_counter()) > 0:
            lock = redis_lock.Lock(client, key, expire=TTL)
            if not lock.acquire(timeout=left):
                continue
            now = time.perf_counter()
            if left_at is not None and counts["from"] <= now - start < counts["to"]:
                ms.append((now - left_at) * 1e3)
            with entered:
                held += 1
                mine = held
                entered.notify_all()
            time.sleep(holds)
            left_at = time.perf_counter()
            lock.release()
            with entered:
                entered.wait_for(lambda: held > mine, max(0, start + lasts - time.perf_counter()))

    run(waiters, waiter)
    return {"ms": ms}


def flash_sale(url, key, requests, at_a_time, wait):
    client = client_of(url)
    ms = []
    asked = failed = overlaps = 0
    occupied = False
    counters = threading.Lock()

    def buyer():
        nonlocal asked, failed, overlaps, occupied
        while True:
            with counters:
                if asked == requests:
                    return
                asked += 1
            start = time.perf_counter()
            lock = redis_lock.Lock(client, key, expire=TTL)
            if not lock.acquire(timeout=wait):
                with counters:
                    failed += 1
                continue
            overlaps += occupied
            occupied = True
            client.incr(key + ":sold")
            occupied = False
            try:
                lock.release()
            except redis_lock.NotAcquired:
                with counters:
                    failed += 1
                continue
            ms.append((time.perf_counter() - start) * 1e3)

    start = time.perf_counter()
    run(at_a_time, buyer)
    return {"lasted": time.perf_counter() - start, "ms": ms, "failed": failed, "overlaps": overlaps}


workloads = {"uncontended": uncontended, "hand_off": hand_off, "flash_sale": flash_sale}
for line in sys.stdin:
    request = json.loads(line)
    print(json.dumps(workloads[request.pop("do")](**request)), flush=True)
