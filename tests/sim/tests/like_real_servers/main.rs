//! The simulated server says what a real one says: the same random commands and scripts, from
//! several clients, go to both.
//!
//! `cargo test -p redlocked-sim --test like_real_servers` takes the `redis-server` on PATH, and
//! `./test --server valkey-9 -p redlocked-sim --test like_real_servers` another one. A failure
//! prints its seed: `SEED=… cargo test …` repeats it, and `SECONDS=60` runs for longer.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::too_many_lines,
    unreachable_pub,
    missing_docs,
    reason = "a test may panic"
)]

mod clusters;
mod pair;
mod passing_time;
mod real;
mod refusals;
mod replication;
mod scripts;
mod sentinels;
mod sequence;
mod wire;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pair::Pair;
use sequence::{Abilities, Sequence};

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn random_commands_and_scripts_have_the_same_answers() {
    let Some(mut pair) = Pair::start() else { return };
    let seed = setting("SEED");
    let mut next = seed
        .unwrap_or_else(|| u64::from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos()));
    let (start, length) = (Instant::now(), Duration::from_secs(setting("SECONDS").unwrap_or(6)));
    let (mut sequences, mut steps) = (0, 0);
    while start.elapsed() < length && (seed.is_none() || sequences == 0) {
        let version = pair.version();
        let abilities = Abilities { resp3: version.speaks_resp3(), sharded: version.has_sharded_channels() };
        let mut sequence = Sequence::new(next, abilities);
        steps += pair.run(next, &mut sequence);
        sequences += 1;
        next = next.wrapping_add(1);
    }
    eprintln!("{:?}: {sequences} sequences, {steps} steps", pair.version());
    assert!(steps > 100, "almost nothing was compared");
}
