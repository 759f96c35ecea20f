// node-redlock: see `foreign.rs`.

import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import Redlock from "redlock";

const TTL = 30000;
// The default; the library has no deadline, but a number of tries.
const PAUSE = 200;
const clients = new Map();

function locksOf(url) {
  if (!clients.has(url)) {
    const client = new Redis(url);
    const redlock = new Redlock([client], { retryDelay: PAUSE });
    redlock.on("error", () => {});
    clients.set(url, { client, redlock });
  }
  return clients.get(url);
}

const patient = (seconds) => ({ retryCount: Math.ceil((seconds * 1000) / PAUSE) });
const all = (count, task) => Promise.all(Array.from({ length: count }, task));

const workloads = {
  async uncontended({ url, count }) {
    const { redlock } = locksOf(url);
    const us = [];
    // The first round is not counted.
    for (let round = 0; round <= count; round++) {
      const start = performance.now();
      const lock = await redlock.acquire(["uncontended"], TTL, { retryCount: 0 });
      await lock.release();
      us.push((performance.now() - start) * 1000);
    }
    return { us: us.slice(1) };
  },

  async hand_off({ url, key, waiters, holds, lasts, from, to }) {
    const { redlock } = locksOf(url);
    const start = performance.now();
    const elapsed = () => (performance.now() - start) / 1000;
    const ms = [];
    let leftAt = null;
    let held = 0;
    let wake = [];
    await all(waiters, async () => {
      while (elapsed() < lasts) {
        const lock = await redlock.acquire([key], TTL, patient(lasts - elapsed())).catch(() => null);
        if (!lock) continue;
        const now = elapsed();
        if (leftAt !== null && from <= now && now < to) ms.push((now - leftAt) * 1000);
        held += 1;
        const mine = held;
        for (const one of wake.splice(0)) one();
        await sleep(holds * 1000);
        leftAt = elapsed();
        await lock.release().catch(() => {});
        while (held === mine && elapsed() < lasts) {
          const entered = new Promise((resolve) => wake.push(resolve));
          const timer = new AbortController();
          const over = sleep((lasts - elapsed()) * 1000, undefined, { signal: timer.signal }).catch(() => {});
          await Promise.race([entered, over]);
          timer.abort();
        }
      }
    });
    return { ms };
  },

  async flash_sale({ url, key, requests, at_a_time, wait }) {
    const { client, redlock } = locksOf(url);
    const ms = [];
    let [asked, failed, overlaps, occupied] = [0, 0, 0, false];
    const start = performance.now();
    await all(at_a_time, async () => {
      while (asked < requests) {
        asked += 1;
        const since = performance.now();
        try {
          const lock = await redlock.acquire([key], TTL, patient(wait));
          if (occupied) overlaps += 1;
          occupied = true;
          await client.incr(`${key}:sold`);
          occupied = false;
          await lock.release();
          ms.push(performance.now() - since);
        } catch {
          failed += 1;
        }
      }
    });
    return { lasted: (performance.now() - start) / 1000, ms, failed, overlaps };
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  console.log(JSON.stringify(await workloads[request.do](request)));
}
process.exit(0);
