"""A second client of protocol version 1, written from `docs/design.md` alone, for one Redis server.

It takes a lock, waits for it in the queue of all clients, is granted it by push, renews it, hands it over, gives it
away with a ticket, and runs a body once for all clients. What else the page calls optional it leaves out: it watches no lock, passes none on within its
process, and each of its waiters asks for itself.
"""

import asyncio
import base64
import hashlib
import math
import os
import random
import re
import socket
import time
from collections import deque

from redis.asyncio import Connection
from redis.exceptions import ConnectionError, NoScriptError, RedisError

import scripts

PREFIX = "lock:"
CLAIM = 1.0
MOST_WAITERS = 1_000_000
QUEUE_LIVES = 60.0
HOST = re.sub(r"[^A-Za-z0-9._-]", "", socket.gethostname()) or "unknown-host"
TOKEN = re.compile(r"[A-Za-z0-9_-]{22}@[A-Za-z0-9._-]+:[0-9]+[A-Za-z0-9_/:.-]*")


def now():
    """Seconds on a clock that goes on while the host is suspended, where there is one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def fresh_token(function=""):
    """22 random characters, and who asks."""
    secret = base64.urlsafe_b64encode(os.urandom(17)).decode()[:22]
    behind = f"/{int(time.time())}/{function}" if function else ""
    return f"{secret}@{HOST}:{os.getpid()}{behind}"


def lasts(ms):
    """For how many seconds the holder counts on a lock that lasts so long on the server."""
    return ms / 1000 - (ms / 1000 / 100 + 0.002)


def answers(reply, what):
    if not reply.done():
        (reply.set_exception if isinstance(what, Exception) else reply.set_result)(what)


def ticket_of(token, lock):
    """Its text."""
    data = "\0".join([PREFIX, lock[len(PREFIX):], token]).encode()
    return "2" + data.hex() + hashlib.sha1(data).hexdigest()[:8]


class Busy(Exception):
    """Another caller has the lock, and the wait is over."""


class Lost(Exception):
    """The lock is not the caller's any more, or its ticket is of no use."""


class KeyReused(Exception):
    """The key stands for another request."""


class Interrupted(Exception):
    """A body that must not run twice was interrupted."""


class Once:
    """What belongs to a body that runs once: the request that its key stands for, and for how many ms its record lasts."""

    def __init__(self, by, lasts, reruns):
        self.fingerprint = "-" if by is None else hashlib.sha1(by.encode()).hexdigest()[:32]
        self.lasts, self.policy = lasts, "" if reruns else "error"
        # How its lock is given back, and the result of another caller.
        self.ending, self.result = ("undone",), None
        # Whether a push has said that the body is done.
        self.was_told = False


class Attempt:
    """One caller's way from asking to the last release, with one token; the lock, while it holds it."""

    def __init__(self, client, key, ttl, fenced, once=None):
        self.client, self.lock, self.ttl, self.fenced, self.once = client, PREFIX + key, ttl, fenced, once
        self.token = fresh_token("second_client")
        self.how = "join"
        self.may_have_place = self.is_waiting = False
        # Of the last answer that told a place: the connection, when its request was sent, and the server's time in it.
        self.place = None
        self.grant = None
        self.ask_at = math.inf
        self.wake = asyncio.Event()
        self.fence, self.keeper = None, None
        self.deadline, self.renew_at, self.ends_at = -math.inf, math.inf, math.inf

    def is_held(self):
        return now() < self.deadline

    def asks_at(self, at):
        """Brings its next request forward."""
        self.ask_at = min(self.ask_at, at)
        self.wake.set()

    def server_time(self, micros):
        """When the server's clock showed that, at the earliest, on ours; `None` where that is not known."""
        if self.place is None or self.place[0] != self.client.connections or micros < self.place[2]:
            return None
        return min(now(), self.place[1] + (micros - self.place[2]) / 1e6 * 0.99)

    def enters(self, start, ms, fence):
        """True if enough is left of a lock that lasts so long from then on."""
        deadline = start + lasts(ms)
        if deadline - now() <= (ms / 4000 if self.grant else 0):
            return False
        self.fence, self.deadline, self.renew_at, self.ends_at = fence, deadline, start + ms / 3000, start + ms / 1000
        return True

    async def into_ticket(self, ms):
        """Leaves the lock to whoever redeems the ticket within so many milliseconds; its text."""
        was_held, self.deadline = self.is_held(), -math.inf
        self.keeper.cancel()
        if was_held:
            return await asyncio.shield(self.client.in_background(self.client.leaves(self, ms)))
        await self.release()
        raise Lost(self.lock)

    async def release(self):
        """Gives back the lock, or the place in the queue, or what it was granted in between; the server's answer."""
        self.deadline, self.is_waiting = -math.inf, False
        if self.keeper:
            self.keeper.cancel()
        return await asyncio.shield(self.client.in_background(self.client.give_back(self)))


class Client:
    """The manager: one connection, one inbox."""

    def __init__(self, host, port):
        self.address = {"host": host, "port": port}
        self.inbox = f"{PREFIX}%inbox:{fresh_token()}"
        self.attempts = {}
        self.connections = 0
        self.earlier = ("9223372036854775807", "0.0.0.0:0")
        self.connection, self.replies = None, deque()
        self.is_connected, self.is_subscribed = asyncio.Event(), asyncio.Event()
        self.tasks = set()

    async def start(self):
        self.in_background(self.stays_connected())
        await self.is_connected.wait()
        return self

    async def end(self):
        """Waits for what is being given back."""
        while self.attempts:
            await asyncio.sleep(0.005)
        for task in self.tasks:
            task.cancel()

    def in_background(self, work):
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    # Chapter 4: a connection.

    async def stays_connected(self):
        while True:
            self.connection = Connection(**self.address, protocol=3, decode_responses=True, encoding_errors="replace")
            self.connection._parser.set_pubsub_push_handler(self.on_message)
            tasks = []
            try:
                await self.connection.connect()
                tasks = [asyncio.ensure_future(work) for work in (self.reads(), self.handshake())]
                await asyncio.gather(*tasks)
            except (RedisError, OSError):
                pass
            for task in tasks:
                task.cancel()
            await self.connection.disconnect(nowait=True)
            self.is_connected.clear()
            self.is_subscribed.clear()
            while self.replies:
                answers(self.replies.popleft(), ConnectionError("the connection broke"))
            await asyncio.sleep(random.uniform(0.01, 0.03))

    async def reads(self):
        while True:
            try:
                reply = await self.connection.read_response(timeout=math.inf, disconnect_on_error=False)
            except ConnectionError:
                raise
            except RedisError as error:
                reply = error
            if not self.replies:
                raise ConnectionError("a reply that no command has asked for")
            answers(self.replies.popleft(), reply)

    async def handshake(self):
        ident, address = self.earlier
        await self.sends("CLIENT", "KILL", "ID", ident, "ADDR", address)
        info = dict(word.split("=", 1) for word in (await self.sends("CLIENT", "INFO")).split())
        self.earlier = (info["id"], info["addr"])
        await self.sends("CLIENT", "SETNAME", f"redlocked:{HOST}:{os.getpid()}")
        if (await self.sends("ROLE"))[0] != "master":
            raise ConnectionError("not a primary")
        # The push that confirms it is the reply to it.
        self.connection._writer.writelines(self.connection.pack_command("SUBSCRIBE", self.inbox))
        await self.is_subscribed.wait()
        clock = f"{PREFIX}%clock"
        await self.sends("EVAL", scripts.RAISE, 4, clock, clock, clock, clock, "", 0, "", "", 0, 2**53, "")
        self.connections += 1
        self.is_connected.set()
        for attempt in list(self.attempts.values()):
            if attempt.is_waiting:
                attempt.how = "rejoin" if attempt.place else attempt.how
                attempt.asks_at(0)
            elif attempt.keeper:
                attempt.renew_at = 0
                attempt.wake.set()

    def sends(self, *command):
        """Replies are told apart by their order alone."""
        reply = asyncio.get_running_loop().create_future()
        if not self.connection.is_connected:
            reply.set_exception(ConnectionError("no connection"))
            return reply
        self.replies.append(reply)
        self.connection._writer.writelines(self.connection.pack_command(*command))
        return reply

    async def runs(self, script, attempt, how="0", number=0, ttl=None, redeems=()):
        queue = attempt.lock + "%queue"
        keys = [attempt.lock, queue, f"{PREFIX}%clock", queue + "%claim"]
        kind, behind, floor = "" if attempt.fenced else "unfenced", redeems, 2**53 if redeems else ""
        if attempt.once and script in (scripts.ACQUIRE_ONCE, scripts.FINISH, scripts.RENEW):
            once, runner = attempt.once, hashlib.sha1(attempt.token.encode()).hexdigest()[:32]
            keys += [queue + "%holders", queue + "%once"]
            ending = {scripts.FINISH: once.ending, scripts.ACQUIRE_ONCE: (once.policy,), scripts.RENEW: ()}[script]
            kind, behind = "once", (once.fingerprint, once.lasts, runner, *ending)
        args = (len(keys), *keys, attempt.token, ttl or attempt.ttl, how, self.inbox, number, floor, kind, *behind)
        try:
            return await self.sends("EVALSHA", scripts.SHA[script], *args)
        except NoScriptError:
            return await self.sends("EVAL", script, *args)

    # Chapter 6: pushes.

    async def on_message(self, message):
        if message[0] == "subscribe":
            self.is_subscribed.set()
        if message[0] != "message" or message[2].count("|") < 5:
            return
        kind, token, a, b, _, lock = message[2].split("|", 5)
        if not (a.isdecimal() and b.isdecimal()):
            return
        attempt = self.attempts.get(token)
        if kind == "gone":
            for other in list(self.attempts.values()):
                if other.lock == lock and other.is_waiting and other.place and other.token != token:
                    other.how = "rejoin"
                    other.asks_at(0)
        elif attempt is None:
            if kind == "granted" and lock.startswith(PREFIX):
                stray = Attempt(self, lock[len(PREFIX):], 10, True)
                stray.token = token
                self.attempts[token] = stray
                self.in_background(self.give_back(stray))
        elif attempt.lock != lock or not attempt.is_waiting:
            pass
        elif kind == "granted":
            attempt.grant = (int(a), int(b))
            attempt.wake.set()
        elif kind == "next":
            start = attempt.server_time(int(b))
            attempt.asks_at((now() if start is None else start) + int(a) / 1000 + 0.001)
        elif kind == "free":
            attempt.asks_at(now() + random.uniform(0.001, 0.003))
        elif kind == "done" and attempt.once:
            attempt.once.was_told, attempt.how = True, "rejoin"
            attempt.asks_at(0)

    # Chapters 8 and 9: asking, waiting, holding, releasing.

    async def once(self, key, ttl, wait, once, body):
        """What the body returns, or has returned to the one that ran it, and whether it ran here."""
        attempt = await self.acquire(key, ttl, wait, once=once)
        if once.result is not None:
            return once.result, False
        once.ending = ("interrupted",)
        try:
            result = await body()
            once.ending = ("done", result)
        finally:
            answer = await attempt.release()
        if answer != 1:
            raise Lost(attempt.lock)
        return result, True

    async def acquire(self, key, ttl, wait, fenced=True, once=None):
        """The lock, for a ttl in milliseconds, after a wait of at most so many seconds; or the result of a body that runs once."""
        attempt, limit = Attempt(self, key, ttl, fenced, once), now() + wait
        is_first = all(other.lock != attempt.lock for other in self.attempts.values())
        self.attempts[attempt.token] = attempt
        attempt.is_waiting = True
        try:
            held = not fenced and is_first and await self.takes_directly(attempt)
            while not held and not await self.asks(attempt, wait):
                while not held and now() < min(attempt.ask_at, limit):
                    held = await self.pauses(attempt, min(attempt.ask_at, limit))
                if held or now() >= limit:
                    break
            if once and once.result is not None:
                attempt.is_waiting = False
                await attempt.release()
                return attempt
            if not attempt.is_held():
                raise Busy(key)
        except BaseException:
            attempt.is_waiting = False
            self.in_background(self.give_back(attempt))
            raise
        attempt.is_waiting = False
        attempt.keeper = self.in_background(self.keeps(attempt))
        self.others_ask_at(attempt)
        return attempt

    async def redeem(self, ticket, ttl):
        """The lock of a ticket, past the queue."""
        data = bytes.fromhex(ticket[1:-8])
        assert ticket[0] == "2" and hashlib.sha1(data).hexdigest()[:8] == ticket[-8:]
        prefix, key, token = data.decode().split("\0")
        assert prefix == PREFIX
        attempt = Attempt(self, key, ttl, True)
        self.attempts[attempt.token] = attempt
        try:
            fence = None
            while fence is None:
                await self.is_connected.wait()
                sent = now()
                try:
                    fence = await self.runs(scripts.REDEEM, attempt, redeems=(token,))
                except RedisError:
                    # Its reply may be lost: it asks again with the same token.
                    await asyncio.sleep(random.uniform(0.025, 0.075))
            if fence < 0 or not attempt.enters(sent, ttl, fence):
                raise Lost(attempt.lock)
        except BaseException:
            self.in_background(self.give_back(attempt))
            raise
        attempt.keeper = self.in_background(self.keeps(attempt))
        return attempt

    def others_ask_at(self, attempt):
        """The server tells a process nothing of the end of its own claim."""
        for other in self.attempts.values():
            if other.lock == attempt.lock and other.is_waiting:
                other.asks_at(attempt.ends_at + 0.001)
                return

    async def takes_directly(self, attempt):
        await self.is_connected.wait()
        sent = now()
        try:
            taken = await self.sends("SET", attempt.lock, attempt.token, "NX", "PX", attempt.ttl)
        except RedisError:
            return False
        return taken and attempt.enters(sent, attempt.ttl, 0)

    async def asks(self, attempt, wait):
        """One request; true if the lock is held. Else it is known when to ask again."""
        await self.is_connected.wait()
        sent, how = now(), attempt.how if wait else "0"
        # What comes from now on, while the request is under way, counts behind its answer.
        attempt.ask_at, attempt.grant = math.inf, None
        number = MOST_WAITERS if how.startswith("join") else 0
        attempt.may_have_place = attempt.may_have_place or how != "0"
        try:
            reply = await self.runs(scripts.ACQUIRE_ONCE if attempt.once else scripts.ACQUIRE, attempt, how, number)
        except RedisError:
            attempt.how = "rejoin" if attempt.place else "join_again"
            attempt.asks_at(now() + random.uniform(0.025, 0.075))
            return False
        if isinstance(reply, int):
            attempt.grant = None
            ms = attempt.ttl if how in ("0", "join", "join_again") else min(attempt.ttl, 1000 * CLAIM)
            if attempt.enters(sent, ms, reply):
                return True
            # The answer came too late: the old token is released, and a fresh one asks.
            self.starts_anew(attempt)
        elif reply[0] == 0:
            _, holder, left, micros, place = reply
            if place >= 0:
                attempt.place = (self.connections, sent, int(micros))
                attempt.how = "again" if attempt.how == how else attempt.how
            pause = 0.6 * (2 + min(max(place, 0), 100)) / 2 * random.uniform(0.5, 1.5)
            if place == 0 and not TOKEN.fullmatch(holder):
                # A client of another kind tells nobody of its release.
                pause = random.uniform(0.025, 0.075)
            if left >= 0:
                pause = min(pause, left / 1000 + (0.001 if place <= 0 else 0.052))
            attempt.ask_at = min(attempt.ask_at, sent + min(pause, 15))
        elif reply[0] == 3:
            attempt.ask_at = 0
        elif reply[0] == 5:
            raise KeyReused(attempt.lock)
        elif reply[0] == 6:
            attempt.once.result = reply[2]
            return True
        elif reply[0] == 7:
            # The record is not its own: it stays as it is.
            raise Interrupted(reply[3])
        else:
            raise Busy(f"{attempt.lock}: the queue is full")
        return False

    def starts_anew(self, attempt):
        late = Attempt(self, attempt.lock[len(PREFIX):], attempt.ttl, attempt.fenced, attempt.once)
        late.token, late.may_have_place, attempt.token = attempt.token, attempt.may_have_place, late.token
        self.attempts[late.token], self.attempts[attempt.token] = late, attempt
        self.in_background(self.give_back(late))
        attempt.how, attempt.place, attempt.ask_at = "join", None, 0

    async def pauses(self, attempt, until):
        """Until then, or until a push; true if the push grants the lock."""
        if attempt.grant is None:
            try:
                await asyncio.wait_for(attempt.wake.wait(), max(until - now(), 0))
            except asyncio.TimeoutError:
                pass
            attempt.wake.clear()
        if attempt.grant is None:
            return False
        fence, micros = attempt.grant
        if attempt.once:
            # A grant has not looked at the record.
            attempt.grant, attempt.how, attempt.ask_at = None, "again", 0
            return False
        start = attempt.server_time(micros)
        if start is not None and attempt.enters(start, min(attempt.ttl, 1000 * CLAIM), fence):
            return True
        # It has slept over its grant, or cannot know: the server says what is left.
        attempt.grant, attempt.ask_at = None, 0
        return False

    async def keeps(self, attempt):
        while attempt.is_held():
            try:
                await asyncio.wait_for(attempt.wake.wait(), max(min(attempt.renew_at, attempt.deadline) - now(), 0))
            except asyncio.TimeoutError:
                pass
            attempt.wake.clear()
            if now() < attempt.renew_at or not attempt.is_held():
                continue
            sent = now()
            attempt.renew_at = sent + min(max(attempt.ttl / 10_000, 0.005), 1)
            try:
                is_ours = await self.runs(scripts.RENEW, attempt)
            except RedisError:
                continue
            if not is_ours:
                attempt.deadline = -math.inf
            elif attempt.is_held():
                attempt.deadline = max(attempt.deadline, sent + lasts(attempt.ttl))
                attempt.renew_at = sent + attempt.ttl / 3000

    async def leaves(self, attempt, ms):
        """Sent until it is answered, or the time of the ticket is over."""
        until = now() + ms / 1000
        while now() < until:
            try:
                await asyncio.wait_for(self.is_connected.wait(), until - now())
                if not await self.runs(scripts.RENEW, attempt, "exactly", ttl=ms):
                    break
                del self.attempts[attempt.token]
                return ticket_of(attempt.token, attempt.lock)
            except (RedisError, asyncio.TimeoutError):
                await asyncio.sleep(random.uniform(0.01, 0.03))
        await self.give_back(attempt)
        raise Lost(attempt.lock)

    async def give_back(self, attempt):
        """Sent until it is answered, or the lock and the place in the queue are over without it."""
        until = now() + max(attempt.ttl / 1000, QUEUE_LIVES if attempt.may_have_place else 0)
        pause, answer = 0.02, None
        while now() < until:
            try:
                await asyncio.wait_for(self.is_connected.wait(), until - now())
                answer = await self.runs(scripts.FINISH if attempt.once else scripts.RELEASE, attempt)
                if answer != 2:
                    break
            except (RedisError, asyncio.TimeoutError):
                await asyncio.sleep(pause * random.uniform(0.5, 1.5))
                pause = min(pause * 2, 1)
        self.attempts.pop(attempt.token, None)
        return answer
