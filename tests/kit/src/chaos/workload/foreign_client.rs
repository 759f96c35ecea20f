//! A foreign client: it takes locks with `SET NX PX`, and deletes only its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use crate::chaos::checker::Hold;
use crate::chaos::environment::Connect;
use crate::chaos::random::Random;
use crate::chaos::workload::caller::key;
use crate::now;

const TTL_MS: u64 = 400;

/// A foreign client, on a thread of its own.
pub struct ForeignClient {
    ended: Arc<AtomicBool>,
    thread: thread::JoinHandle<()>,
}

impl ForeignClient {
    /// Comes and goes until its end, and tells what it held.
    pub(crate) fn start(mut connect: Connect, keys: u64, seed: u64) -> (Self, Receiver<Hold>) {
        let (tell, holds) = channel();
        let ended = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&ended);
        let thread = thread::spawn(move || {
            let mut random = Random::new(seed);
            let mut visit = 0_u64;
            let mut client = None;
            while !end.load(Ordering::Relaxed) {
                visit += 1;
                let (number, value) = (random.between(0, keys), format!("foreign_client-{visit}"));
                let pause = Duration::from_micros(random.between(0, 10_000));
                if client.is_none() {
                    client = connect();
                }
                if let Some(connection) = &mut client {
                    match stay(connection, number, &value, pause) {
                        Ok(Some(hold)) => {
                            let _ = tell.send(hold);
                        }
                        Ok(None) => {}
                        Err(_) => client = None,
                    }
                }
                thread::sleep(Duration::from_micros(random.between(100, 3000)));
            }
        });
        (Self { ended, thread }, holds)
    }

    pub(crate) fn end(self) {
        self.ended.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
    }
}

/// One hold; `None` when another client had the lock, or the reply came too late.
fn stay(
    client: &mut redis::Connection,
    number: u64,
    value: &str,
    pause: Duration,
) -> redis::RedisResult<Option<Hold>> {
    const DELETE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end \
         return 0";
    let name = format!("lock:{}", key(number));
    let asked = now();
    let mut ask = redis::cmd("SET");
    ask.arg(&name).arg(value).arg("NX").arg("PX").arg(TTL_MS);
    if ask.query::<Option<String>>(client)?.is_none() {
        return Ok(None);
    }
    let entered = now();
    // As our own leases: counted from before the request, and somewhat shorter than the ttl.
    let deadline = asked + TTL_MS * 990_000 - 2_000_000;
    let mut hold = (entered < deadline).then(|| {
        thread::sleep(pause);
        let left = Some(now());
        Hold {
            key: number,
            asked,
            entered,
            seen: entered,
            deadline,
            lasts: TTL_MS * 1_000_000,
            left,
            ..Hold::default()
        }
    });
    // A lock that is not released ends with its ttl.
    let mut delete = redis::cmd("EVAL");
    let deleted = delete.arg(DELETE).arg(1).arg(&name).arg(value).query::<u32>(client);
    let at = now();
    if let Some(hold) = hold.as_mut().filter(|_| deleted == Ok(0) && at < deadline) {
        hold.changed = Some(at);
    }
    Ok(hold)
}
