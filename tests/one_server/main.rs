//! Locks on one Redis server and on `memory://`, as callers, waiters and holders see them; where a
//! promise holds for every backend, also on a quorum and a Cluster.
//!
//! | module | question |
//! | --- | --- |
//! | `behaviour` | does every backend behave alike: `memory://`, Redis with and without cohorts, a quorum, a Cluster |
//! | `background` | does a call that does not wait for its release return after one round trip, and leave nothing |
//! | `exclusion` | is there ever more than one holder, or a lock that no call owns |
//! | `waiters`, `hand_off` | is each waiter served, in turn, at once, and at a constant number of commands |
//! | `direct` | does a lock that no other caller wants cost a plain command to take, and one to release |
//! | `limit` | what does a caller hear at the limit of its wait |
//! | `granted` | since when does a holder have its lock, however it got it |
//! | `counted` | are readers, writers and permits inside together as each of them allows, and in turn |
//! | `mark` | does the mark of a lock that is waited for change nothing for its holder; do newcomers pass waiters |
//! | `cohort` | does a process hand its lock to its own callers |
//! | `followers` | do callers of one process that wait one behind the other pass their lock on, and pass nobody |
//! | `isolation` | does one caller, one key or one node cost the others anything |
//! | `faults` | what happens when Redis, the network or another client misbehaves |
//! | `full` | what a server that is full, cannot save or is a replica for a while still does for locks that are held |
//! | `connecting`, `ending` | do distant, busy and older servers work; how do holds, programs and managers end |
//! | `strangers` | what a server says that is no answer, why it closes, and servers that are none |
//! | `processes` | what happens when another process is killed or frozen; is the order fair |
//! | `stuck` | what a stopped process costs the others, and its waiters |
//! | `tickets` | does a lock travel to another process once, whoever is killed, stopped or cut off on the way |
//! | `ticks` | does one caller run each tick, and what is left of one whose runner was killed |
//! | `older_data` | is no fencing token given that its manager has seen, when a server gets older data |
//! | `on_lost` | what does the caller of a body hear whose lock was lost |
//! | `rates` | do no more bodies start in a time than the rate allows, in turn, whoever fails or dies |
//! | `renewals` | do many locks share renewals, and what happens when one is lost |
//! | `kinds` | who excludes whom on one key, as `docs/which-tool.md` says |
//! | `central` | how many are inside where an operator has set the number |
//! | `sharing` | who is inside at once: readers, writers, and the holders of permits |
//! | `runner` | where does the engine run, when the runtime of its callers is blocked or gone |
//! | `starved` | is each command served whose runtime does not run the engine, from each kind of caller |
//! | `one_call`, `many_keys` | how several keys are taken: in one call, and as one lock |
//! | `leader` | who follows a leader that dies, fails or resigns; are two bodies ever inside at a time |
//! | `credentials` | do locks outlive a change of the password; what do callers hear when there is none |
//! | `events` | what is the callback of a manager told of gains, losses and busy locks |
//! | `health` | does a ping tell a server that takes locks from one that does not |
//! | `acl` | which feature stops without each access rule |
//! | `peer_bugs` | bugs of other libraries, and the test for each |
//!
//! `cargo test --test one_server faults::` runs one of them. They run side by side in one process:
//! each takes a server of its own, or keys that no other test uses.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "a test may panic"
)]

mod acl;
mod background;
mod behaviour;
mod central;
mod cohort;
mod connecting;
mod counted;
mod credentials;
mod direct;
mod ending;
mod events;
mod exclusion;
mod faults;
mod followers;
mod full;
mod granted;
mod hand_off;
mod health;
mod isolation;
mod kinds;
mod leader;
mod limit;
mod many_keys;
mod mark;
mod mixed_keys;
mod older_data;
mod on_lost;
mod one_call;
mod peer_bugs;
#[cfg(unix)]
mod processes;
mod rates;
mod renewals;
mod runner;
mod sharing;
mod starved;
mod strangers;
#[cfg(unix)]
mod stuck;
#[cfg(unix)]
mod tickets;
#[cfg(unix)]
mod ticks;
mod waiters;
