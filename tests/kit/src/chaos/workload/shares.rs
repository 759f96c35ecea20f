//! Locks that several hold together: readers, permits of two numbers, and callers that must be alone,
//! all for the same keys.

use std::time::Duration;

use redlocked::{LockKey, LockRequest};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::chaos::workload::caller::{Caller, SEVERAL, key, look_for};
use crate::chaos::workload::report::{CallParams, CallReport, HoldReport};
use crate::{now, say};

/// How many a caller allows, each with its weight.
const KINDS: &[(u64, Option<u64>)] = &[(40, Some(0)), (20, Some(2)), (20, Some(3)), (20, None)];

/// The numbers of permits that an operator sets, each with its weight; with `None` it clears the number.
const CENTRAL: &[(u64, Option<u32>)] =
    &[(40, None), (15, Some(1)), (15, Some(2)), (15, Some(4)), (15, Some(6))];

impl Caller {
    /// Takes locks of all kinds, one after the other.
    pub(crate) async fn shares(mut self, ended: watch::Receiver<bool>) {
        while !*ended.borrow() {
            if self.random.percent(4) {
                self.sets_permits().await;
            } else if self.random.percent(20) {
                let patience = Duration::from_millis(self.random.between(0, 60));
                let _ = timeout(patience, self.shares_one()).await;
            } else {
                self.shares_one().await;
            }
            sleep(Duration::from_millis(self.random.between(0, 10))).await;
        }
    }

    /// As an operator, in the middle of the calls for the key.
    async fn sets_permits(&mut self) {
        let (number, permits) = (self.number(), self.random.pick(CENTRAL));
        let key_number = self.keys.0 + self.random.between(0, self.keys.1);
        say("limits", &[number, key_number, permits.map_or(0, u64::from), now()]);
        let done = match permits {
            Some(permits) => self.locks.set_permits(&key(key_number), permits).await,
            None => self.locks.clear_permits(&key(key_number)).await,
        };
        say("limited", &[number, now(), u64::from(done.is_ok())]);
    }

    /// Two locks in one call, each of its own kind.
    async fn shares_two(&mut self, call_params: CallParams) {
        let other = self.keys.0 + (call_params.key - self.keys.0 + 1) % self.keys.1;
        let second = CallParams { key: other, hold: self.number(), ..call_params };
        let params =
            [call_params, second].map(|params| CallParams { allows: self.random.pick(KINDS), ..params });
        let keys = params.map(|CallParams { key: number, allows, .. }| match allows {
            None => LockKey::exclusive(key(number)),
            Some(0) => LockKey::shared(key(number)),
            Some(permits) => LockKey::permits(key(number), u32::try_from(permits).unwrap()),
        });
        let request = self.locks.lock_all(keys).ttl(call_params.ttl).wait(call_params.wait);
        let call = CallReport::begin(CallParams { key: SEVERAL, ..call_params }, &self.ticker);
        let called = now();
        let outcome = request.run_value(async |guard| {
            call.enters();
            let [first, second] = params.map(|params| {
                let fence = guard.fencing_token_of(&key(params.key)).expect("it is one of them");
                HoldReport::of_one_since(guard, params, fence, called)
            });
            sleep(Duration::from_millis(3)).await;
            drop((first, second));
            call.leaves();
        });
        let outcome = outcome.await;
        call.comes_back(&outcome);
    }

    /// Some ignore their lease, and write when it may be over.
    async fn shares_one(&mut self) {
        let (mut request, call_params) = self.request();
        if self.keys.1 > 1 && self.random.percent(20) {
            self.shares_two(call_params).await;
            return;
        }
        let allows = self.random.pick(KINDS);
        request = match allows {
            None => request,
            Some(0) => request.shared(),
            Some(permits) => request.permits(u32::try_from(permits).unwrap()),
        };
        let overruns = self.random.percent(20);
        // Some stay until they have renewed several times.
        let longest = if overruns { self.overrun } else { [60, 60, 60, 900][self.random.index(4)] };
        let stays = Duration::from_millis(self.random.between(0, longest));
        if allows.is_none() && self.random.percent(40) {
            self.downgrades(request, call_params, stays).await;
            return;
        }
        let call_params = CallParams { allows, ..call_params };
        self.holds(request.renew(!overruns), call_params, async |_, report| {
            if overruns {
                sleep(stays).await;
                report.look();
            } else {
                look_for(report, stays).await;
            }
            say("write", &[call_params.hold, now()]);
        })
        .await;
    }

    /// It has the lock alone, and beside others later: its hold counts from the call that lets them in.
    async fn downgrades(&mut self, request: LockRequest, call_params: CallParams, stays: Duration) {
        let call = CallReport::begin(call_params, &self.ticker);
        match request.acquire().await {
            Ok(guard) => {
                call.enters();
                sleep(stays / 2).await;
                if let Some(report) = HoldReport::begin(&guard, CallParams { allows: Some(0), ..call_params })
                {
                    let _ = guard.downgrade().await;
                    look_for(&report, stays).await;
                    say("write", &[call_params.hold, now()]);
                }
                call.leaves();
                let _ = guard.release().await;
                call.comes_back(&Ok(()));
            }
            Err(error) => call.comes_back(&Err::<(), _>(error)),
        }
    }
}
