// node-redlock, told what to do line by line: see `peer.rs`.

import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import Redlock, { ExecutionError } from "redlock";

const client = new Redis(process.argv[2]);
const redlock = new Redlock([client]);
const once = { retryCount: 0 };
const patient = { retryCount: 2000, retryDelay: 10, retryJitter: 5 };
let lock;

// Its only way to say "refused" or "not mine" is that no quorum was achieved.
async function achieved(action) {
  try {
    await action();
    return true;
  } catch (error) {
    if (error instanceof ExecutionError) return false;
    throw error;
  }
}

async function take(key, ttl, settings) {
  return achieved(async () => {
    lock = await redlock.acquire([key], Number(ttl), settings);
  });
}

const commands = {
  async try(key, ttl) {
    return (await take(key, ttl, once)) ? "held" : "refused";
  },
  async wait(key, ttl) {
    if (await take(key, ttl, once)) return "held";
    console.log("waiting");
    return (await take(key, ttl, patient)) ? "held" : "refused";
  },
  async extend(ttl) {
    const extended = await achieved(async () => {
      lock = await lock.extend(Number(ttl), once);
    });
    return extended ? "extended" : "lost";
  },
  async release() {
    return (await achieved(() => redlock.release(lock, once))) ? "released" : "lost";
  },
  async count(key, counter, rounds) {
    for (let round = 0; round < Number(rounds); round++) {
      const mine = await redlock.acquire([key], 20000, { ...patient, retryDelay: 3, retryJitter: 2 });
      const seen = Number((await client.get(counter)) ?? 0);
      await sleep(1);
      await client.set(counter, seen + 1);
      await mine.release();
    }
    return "counted";
  },
};

console.log("ready");
for await (const line of createInterface({ input: process.stdin })) {
  const [command, ...words] = line.split(" ");
  console.log(await commands[command](...words));
}
process.exit(0);
