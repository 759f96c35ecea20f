//! Random steps of callers of all kinds. After each step the server must keep what the locks
//! promise: who is inside, in which order, for how long, and what is left.

use std::collections::HashMap;
use std::thread::sleep;
use std::time::Duration;

use kit::chaos::random::Random;

use crate::by_hand::{Answer, CLAIM, Caller, LOCK, Scripts, State, are_unique};

/// Nobody listens there.
const DEAD: &str = "nobody";

const INBOXES: [&str; 3] = ["one", "two", "three"];

/// A claim, in ms.
const CLAIM_LASTS: i64 = 1000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    New,
    Leave,
    /// An operator ends one of those that are inside.
    Revoke,
    /// One that has it alone, or has been downgraded before.
    Downgrade,
    /// An operator sets the central limit, or clears it.
    SetPermits,
    GiveUp,
    Again,
    /// One that is inside asks once more.
    Repeat,
    Stay,
    End,
    Sleep,
    Delete,
}

/// As often as they stand here.
const STEPS: [Step; 21] = [
    Step::New,
    Step::New,
    Step::New,
    Step::New,
    Step::Leave,
    Step::Leave,
    Step::Leave,
    Step::Leave,
    Step::Revoke,
    Step::Downgrade,
    Step::Downgrade,
    Step::SetPermits,
    Step::Again,
    Step::Again,
    Step::GiveUp,
    Step::Repeat,
    Step::Stay,
    Step::Stay,
    Step::End,
    Step::Sleep,
    Step::Sleep,
];

struct Run {
    scripts: Scripts,
    random: Random,
    callers: HashMap<String, Caller>,
    /// The largest fencing token that an exclusive holder had, and the last phase.
    fences: [u64; 2],
    /// The fencing token of the exclusive holder, if it has one.
    fence: Option<(String, u64)>,
    /// The phase that began with the downgrade of one that had this fencing token.
    downgraded: u64,
}

impl Run {
    fn one_of(&mut self, list: &[String]) -> Option<Caller> {
        if list.is_empty() {
            return None;
        }
        let at = self.random.index(list.len());
        self.callers.get(&list[at]).cloned()
    }

    fn new_caller(&mut self) -> Caller {
        let number = [1, 1, 0, 0, 2, 3, 5][self.random.index(7)];
        let ttl = [30, 200, 2000][self.random.index(3)];
        let inbox = if self.random.percent(20) { DEAD } else { INBOXES[self.random.index(3)] };
        let fenced = self.random.percent(50);
        let weight = if number > 1 && self.random.percent(50) { self.random.index(number) + 1 } else { 1 };
        let (number, weight) = (number as u32, weight as u32);
        let caller = Caller { weight, fenced, ..self.scripts.caller(number, ttl, inbox) };
        self.callers.insert(caller.token.clone(), caller.clone());
        caller
    }

    /// `None` when there was nothing to do.
    fn step(&mut self, step: Step, before: &State, began: i64) -> Option<Done> {
        let mut inside: Vec<_> = before.inside.keys().cloned().collect();
        inside.sort();
        let caller = match step {
            Step::New => Some(self.new_caller()),
            Step::Leave | Step::Revoke | Step::Downgrade | Step::Repeat | Step::Stay | Step::End => {
                self.one_of(&inside)
            }
            Step::GiveUp | Step::Again => self.one_of(&before.waiting),
            Step::Sleep | Step::Delete | Step::SetPermits => None,
        };
        let mut answer = None;
        match (step, &caller) {
            (Step::Sleep, _) => sleep(Duration::from_millis([1, 40][self.random.index(2)])),
            (Step::SetPermits, _) => {
                let permits = [0, 1, 2, 3, 5, 8][self.random.index(6)];
                let inbox = INBOXES[self.random.index(INBOXES.len())];
                assert_eq!(self.scripts.set_permits(permits, inbox), i64::from(before.central));
            }
            (Step::Delete, _) => drop(self.scripts.run::<u32>(&["DEL", LOCK])),
            (Step::New, Some(caller)) => {
                let how = if self.random.percent(25) { "0" } else { "join" };
                answer = Some(self.scripts.ask(caller, how));
            }
            (Step::Again | Step::Repeat, Some(caller)) => answer = Some(self.scripts.ask(caller, "again")),
            (Step::Leave | Step::GiveUp, Some(caller)) => drop(self.scripts.leave(caller)),
            (Step::Revoke, Some(caller)) => {
                let inbox = INBOXES[self.random.index(INBOXES.len())];
                let is_one_of_several = i64::from(before.is_counted());
                let answer = self.scripts.revoke(caller, inbox);
                assert!(
                    answer == is_one_of_several || answer == 0 && self.may_have_ended(caller, before, began)
                );
            }
            (Step::Downgrade, Some(caller)) if caller.number > 1 => return None,
            (Step::Downgrade, Some(caller)) => {
                let known = self.fence.as_ref().filter(|(token, _)| *token == caller.token);
                let fence = known.map_or(0, |(_, fence)| *fence);
                let phase = self.scripts.downgrade(caller, fence);
                if phase > 0 && caller.number == 1 {
                    assert!(fence == 0 || phase == fence, "{phase} in place of {fence}");
                    self.downgraded = phase;
                }
                if phase > 0 {
                    let downgraded = Caller { number: 0, weight: 1, ..caller.clone() };
                    self.callers.insert(caller.token.clone(), downgraded);
                }
                assert!(phase > 0 || self.may_have_ended(caller, before, began), "{caller:?}");
            }
            (Step::Stay, Some(caller)) => {
                let ttl = if self.random.percent(50) { 30 } else { caller.ttl };
                self.scripts.stay(caller, ttl, false);
            }
            (Step::End, Some(caller)) => drop(self.scripts.stay(caller, SHORTEST as u64, true)),
            (_, None) => return None,
        }
        Some(Done { step, caller, answer })
    }

    /// The lease of one that was inside, as it was seen then: by now, also on a machine that stands still.
    fn may_have_ended(&mut self, caller: &Caller, before: &State, began: i64) -> bool {
        before.inside[&caller.token] <= self.scripts.now() - began + 2
    }

    fn number(&self, token: &String) -> usize {
        self.callers[token].number as usize
    }

    fn weight(&self, token: &String) -> usize {
        self.callers[token].weight as usize
    }

    /// How many it allows inside, where this is the central limit.
    fn allows(&self, token: &String, central: u32) -> usize {
        allowed(self.number(token), central)
    }

    /// It takes more permits than the central limit allows.
    fn is_too_heavy(&self, token: &String, central: u32) -> bool {
        let weight = self.weight(token);
        weight > 1 && weight > self.allows(token, central)
    }

    fn listens(&self, token: &String) -> bool {
        self.callers[token].inbox != DEAD
    }
}

/// The central limit, 0 for none, counts in the place of each number of permits.
fn allowed(number: usize, central: u32) -> usize {
    if number > 1 && central > 0 { central as usize } else { number }
}

/// The shortest lease of a step, in ms.
const SHORTEST: i64 = 20;

#[derive(Debug)]
struct Done {
    step: Step,
    caller: Option<Caller>,
    answer: Option<Answer>,
}

/// What one step has done to the lock.
struct Change<'a> {
    before: &'a State,
    done: &'a Done,
    after: &'a State,
    /// From before `before` was read, in ms.
    passed: i64,
}

fn is(is_kept: bool, broken: &'static str) -> Result<(), &'static str> {
    if is_kept { Ok(()) } else { Err(broken) }
}

impl Change<'_> {
    /// The caller of the step.
    fn acts(&self, token: &String) -> bool {
        self.done.caller.as_ref().is_some_and(|caller| caller.token == *token)
    }

    fn numbers(&self, run: &Run) -> Vec<usize> {
        self.after.inside.keys().map(|token| run.number(token)).collect()
    }

    /// How many permits those inside have.
    fn taken(&self, run: &Run) -> usize {
        self.after.inside.keys().map(|token| run.weight(token)).sum()
    }

    fn check(&self, run: &mut Run) -> Result<(), &'static str> {
        self.check_exclusion(run)?;
        if self.after.is_counted() {
            self.check_counted(run)?;
        } else {
            self.check_exclusive(run)?;
        }
        // Where the machine has stood still, a lease that began with the step may have ended, too.
        if matches!(self.done.step, Step::Sleep | Step::Delete) || self.passed >= SHORTEST {
            return Ok(());
        }
        self.check_order(run)?;
        self.check_leases(run)?;
        self.check_room(run)?;
        self.check_answer(run)
    }

    fn check_exclusion(&self, run: &Run) -> Result<(), &'static str> {
        let (taken, central) = (self.taken(run), self.after.central);
        let taken_before = self.before.inside.keys().map(|token| run.weight(token)).sum::<usize>();
        let mut came = self.after.inside.keys().filter(|token| !self.before.inside.contains_key(*token));
        // A limit that was lowered, or cleared, takes nobody's place away.
        let is_kept = |token: &String| match run.number(token) {
            0 => true,
            1 => taken == 1,
            _ => taken <= run.allows(token, central) || came.clone().count() == 0 && taken <= taken_before,
        };
        is(self.after.inside.keys().all(is_kept), "more are inside than one allows")?;
        is(!came.any(|token| run.is_too_heavy(token, central)), "one has more permits than there are")?;
        is(are_unique(&self.after.waiting), "one waits twice")?;
        // Nobody is thrown out before the end of its lease.
        let is_out = |(token, left): (&String, &i64)| {
            !self.acts(token) && *left > self.passed + 1 && !self.after.inside.contains_key(token)
        };
        let is_kept = self.done.step == Step::Delete || !self.before.inside.iter().any(is_out);
        is(is_kept, "one that is inside was thrown out")
    }

    fn check_counted(&self, run: &mut Run) -> Result<(), &'static str> {
        let Self { before, done, after, .. } = self;
        let last = after.inside.values().max().copied();
        if let Some(last) = last {
            // `PTTL` and `PEXPIRE` count from the begin of their script, and `TIME` does not: a script that
            // stands still on a busy machine takes as much from the grace.
            is(
                after.px + self.passed.max(1) >= last + 100,
                "the key ends before its last holder, and the grace",
            )?;
            is(after.holders_px + 1 >= last, "the holders vanish before the last one's end")?;
        }
        is(after.holders_px != -1, "the holders would stay for ever")?;
        let longest = run.callers.values().map(|caller| caller.ttl).max().unwrap_or(0) as i64;
        is(after.px <= longest * 4 / 3 + 110, "the key lasts for too long")?;
        if let Some(last) = last.filter(|_| done.step == Step::Leave && before.waiting.is_empty()) {
            is(after.px <= 2 * (last + 100), "the key lasts for one that has left")?;
        }
        is(self.numbers(run) != [1], "an exclusive one is counted")?;
        // One number for each phase, above all before.
        let phase = after.phase();
        let is_above = phase > run.fences[0] || phase == run.downgraded && phase == run.fences[0];
        is(is_above, "the phase is not above an exclusive fencing token before it")?;
        // A lease may have ended meanwhile, and its holder have entered again.
        let stays = |(token, left): (&String, &i64)| *left > self.passed && after.inside.contains_key(token);
        let goes_on = before.is_counted() && before.inside.iter().any(stays);
        is(
            phase >= run.fences[1] && (phase == run.fences[1] || !goes_on),
            "the phase has changed while one was inside",
        )?;
        run.fences[1] = phase;
        match (&done.caller, &done.answer) {
            (Some(caller), Some(Answer::Inside { fence })) => {
                is(!caller.is_counted() || *fence == phase, "it has another number than its phase")
            }
            _ => Ok(()),
        }
    }

    fn check_exclusive(&self, run: &mut Run) -> Result<(), &'static str> {
        is(self.numbers(run).iter().all(|number| *number == 1), "a counted one has the lock alone")?;
        if let (Some(caller), Some(Answer::Inside { fence })) = (&self.done.caller, &self.done.answer)
            && caller.fenced
            // One of several may have entered, and its lease has ended before the state was read.
            && !caller.is_counted()
        {
            is(*fence > run.fences[1], "an exclusive fencing token is not above those before it")?;
            run.fences[0] = run.fences[0].max(*fence);
            run.fence = Some((caller.token.clone(), *fence));
        }
        Ok(())
    }

    /// No lease can have ended behind the script, nor that of its caller in front of it.
    fn is_sure(&self) -> bool {
        !self.before.inside.values().any(|left| *left <= self.passed + 1)
    }

    /// Those that have come in from the queue.
    fn came(&self) -> Vec<&String> {
        let Self { before, after, .. } = self;
        let has_come = |token: &&String| {
            after.inside.contains_key(*token) && !before.inside.contains_key(*token) && !self.acts(token)
        };
        before.waiting.iter().filter(has_come).collect()
    }

    fn check_order(&self, run: &Run) -> Result<(), &'static str> {
        let Self { before, done, after, .. } = self;
        let is_gone = |token: &&String| {
            let is_anywhere = after.waiting.contains(token) || after.inside.contains_key(*token);
            let is_refused = run.is_too_heavy(token, after.central);
            !is_anywhere && !self.acts(token) && run.listens(token) && !is_refused
        };
        let gone: Vec<_> = before.waiting.iter().filter(is_gone).collect();
        let is_in_order = |token: &&String| {
            let is_refused = run.is_too_heavy(token, after.central) && !after.waiting.contains(token);
            run.listens(token) && !self.acts(token) && !gone.contains(token) && !is_refused
        };
        let in_order: Vec<_> = before.waiting.iter().filter(is_in_order).collect();
        is(in_order.starts_with(&self.came()), "one has passed another one")?;
        // An exclusive one that finds no key looks at no queue: the key of the lock was deleted.
        let is_first = done.step == Step::New
            && !before.value.is_empty()
            && done.caller.as_ref().is_some_and(|caller| after.inside.contains_key(&caller.token))
            && before.waiting.iter().any(|token| run.listens(token) && after.waiting.contains(token));
        is(!is_first, "a newcomer has passed one that waits")?;
        // All of a stuck process leave the queue together, for each lease of it that has ended.
        let inboxes: Vec<_> = gone.iter().map(|token| &run.callers[*token].inbox).collect();
        let stays = |token: &String| {
            before.waiting.contains(token)
                && inboxes.contains(&&run.callers[token].inbox)
                && !self.acts(token)
        };
        is(!after.waiting.iter().any(stays), "some of a stuck process stay")
    }

    fn check_leases(&self, run: &Run) -> Result<(), &'static str> {
        let Self { before, done, after, .. } = self;
        for token in self.came() {
            let most = (run.callers[token].ttl as i64).min(CLAIM_LASTS) + 1;
            is(after.inside[token] <= most, "a granted lock lasts for longer than a claim")?;
        }
        if let (Step::Repeat | Step::Stay | Step::Downgrade, Some(caller)) = (done.step, &done.caller) {
            let left = before.inside[&caller.token] - self.passed;
            let kept = after.inside.get(&caller.token).copied().unwrap_or(0);
            is(kept >= left - 2 || left <= 2, "a repeated request has shortened a lease")?;
        }
        Ok(())
    }

    /// Nobody sleeps beside room.
    fn check_room(&self, run: &Run) -> Result<(), &'static str> {
        let Self { before, done, after, .. } = self;
        let first = after.waiting.first().filter(|token| self.is_sure() && run.listens(token));
        let frees = matches!(
            done.step,
            Step::Leave | Step::Revoke | Step::Downgrade | Step::SetPermits | Step::GiveUp | Step::Again
        );
        if let (Some(first), true) = (first, frees) {
            let (number, numbers) = (run.number(first), self.numbers(run));
            let least = numbers.iter().copied().chain([number]).filter(|number| *number != 0).min();
            let least = least.map(|least| allowed(least, after.central));
            let is_looked_at = after.is_counted() && matches!(done.step, Step::Leave | Step::SetPermits);
            let is_too_heavy = run.is_too_heavy(first, after.central);
            is(!is_looked_at || !is_too_heavy, "one that takes too many keeps out those behind it")?;
            let ends = after.inside.values().min().copied().unwrap_or(i64::MAX);
            let taken = self.taken(run) + run.weight(first);
            let has_room = number != 1 && after.is_counted() && taken <= least.unwrap_or(usize::MAX);
            is(!has_room || ends < 5, "there is room for the first that waits")?;
        }
        let is_last = matches!(done.step, Step::Leave | Step::Revoke)
            && self.is_sure()
            && after.inside.is_empty()
            && before.inside.keys().all(|token| self.acts(token));
        // Without a mark, it was taken past its queue, as above.
        let is_marked = before.is_counted() || before.value.ends_with('!');
        let one_listens = after.waiting.iter().any(|token| run.listens(token));
        is(!is_last || !is_marked || !one_listens, "it is free although one waits")?;
        let is_left = is_last && after.is_counted() && after.waiting.is_empty();
        is(!is_left, "the key of a free lock is left")
    }

    /// The first that waits knows when there is room, unless those inside leave or renew.
    fn check_answer(&self, run: &Run) -> Result<(), &'static str> {
        let central = self.after.central;
        if let (Some(caller), Some(answer)) = (&self.done.caller, &self.done.answer) {
            let too_heavy = Answer::TooHeavy { takes: caller.weight.into(), central: central.into() };
            let is_refused = matches!(answer, Answer::TooHeavy { .. });
            is(!is_refused || *answer == too_heavy, "it was refused with other numbers")?;
            let is_too_heavy = run.is_too_heavy(&caller.token, central);
            is(!is_refused || is_too_heavy, "it was refused, and takes no more than there are")?;
        }
        let (Some(caller), Some(Answer::Busy { left, place: 0, .. })) =
            (&self.done.caller, &self.done.answer)
        else {
            return Ok(());
        };
        if !self.after.is_counted() || !self.is_sure() {
            return Ok(());
        }
        let described = |(token, left): (&String, &i64)| (*left, run.weight(token), run.number(token));
        let mut ends: Vec<_> = self.after.inside.iter().map(described).collect();
        ends.sort_unstable();
        let (number, weight) = (run.number(&caller.token), run.weight(&caller.token));
        // Those that stay, and the caller, say how many may be inside.
        let has_room = |stay: &[(i64, usize, usize)]| {
            let numbers = stay.iter().map(|(_, _, number)| *number).chain([number]);
            let least = numbers.filter(|number| *number != 0).min().unwrap_or(usize::MAX);
            let least = if least == usize::MAX { least } else { allowed(least, central) };
            stay.iter().map(|(_, weight, _)| weight).sum::<usize>() + weight <= least
        };
        let leaves = (0..ends.len()).find(|last| has_room(&ends[last + 1..]));
        let expected = leaves.map_or(0, |last| ends[last].0);
        is((-2..=self.passed + 2).contains(&(left - expected)), "it was told another time")
    }
}

pub(crate) fn run(seeds: std::ops::Range<u64>, steps: usize) {
    let mut scripts = Scripts::start();
    for inbox in INBOXES {
        scripts.listen(inbox);
    }
    let mut counts: HashMap<String, u64> = HashMap::new();
    for seed in seeds {
        scripts.forget_all();
        let mut run = Run {
            scripts,
            random: Random::new(seed),
            callers: HashMap::new(),
            fences: [0; 2],
            fence: None,
            downgraded: 0,
        };
        for at in 0..steps {
            let began = run.scripts.now();
            let before = run.scripts.state();
            let step =
                if run.random.percent(1) { Step::Delete } else { STEPS[run.random.index(STEPS.len())] };
            let Some(done) = run.step(step, &before, began) else {
                continue;
            };
            let after = run.scripts.state();
            *counts.entry(format!("{step:?}")).or_default() += 1;
            // A script that stands still in its middle has an earlier `PTTL` than `TIME`.
            let passed = run.scripts.now() - began;
            let change = Change { before: &before, done: &done, after: &after, passed };
            if let Err(why) = change.check(&mut run) {
                let known =
                    [before.inside.keys(), after.inside.keys()].into_iter().flatten().chain(&before.waiting);
                let known: Vec<_> = known.chain(&after.waiting).map(|token| &run.callers[token]).collect();
                panic!(
                    "seed {seed}, step {at}: {why}\n{done:?}\nbefore {before:?}\nafter {after:?}\n{known:?}"
                );
            }
            let inspected = run.scripts.inspected();
            let state = run.scripts.state();
            assert!(
                state.inside.len() != after.inside.len() || inspected == state.inside.len() as i64,
                "{inspected} {state:?}"
            );
        }
        // Nothing is left once all are gone, whatever has happened.
        let callers: Vec<_> = run.callers.values().cloned().collect();
        scripts = run.scripts;
        for caller in callers {
            scripts.leave(&caller);
        }
        let state = scripts.state();
        let claim: bool = scripts.run(&["EXISTS", CLAIM]);
        // Those of a lock that was deleted are left, and not forever.
        assert!(
            state.value.is_empty() && state.waiting.is_empty() && !claim && state.holders_px != -1,
            "seed {seed}: {state:?}"
        );
    }
    assert!(counts.len() == 12, "each kind of step was taken: {counts:?}");
}

#[test]
fn a_random_mix_of_all_kinds_keeps_the_rule() {
    run(0..20, 400);
}

/// `cargo test --test scripts many_seeds -- --ignored`
#[test]
#[ignore = "takes minutes"]
fn many_seeds() {
    run(1000..1400, 500);
}
