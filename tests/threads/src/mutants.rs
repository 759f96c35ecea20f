//! Races that the scenarios must find: each is one edit of the engine's files.
//!
//! A thread that is never woken is found, one that is woken late is not. So two orders of the
//! loop's own thread have no mutant here: `is_polled` is stored before the last look at the
//! commands (`blocked_callers.rs`, the end of a caller's turn), and a move wakes the thread that it leaves
//! behind (`runner/mod.rs`, `leave`). Without either, that thread wakes up by itself after `QUIET`.
//! A caller that leaves also looks whether the loop has moved. Without this look, about one run of
//! `moved_as_a_caller_leaves` in a hundred thousand fails: too few for a mutant.

/// Its name, the file below `redlock-runtime/src/`, what is there, what is in its place, and a scenario that finds it.
pub(crate) type Mutant = (&'static str, &'static str, &'static str, &'static str, &'static str);

/// All of them.
pub(crate) const MUTANTS: [Mutant; 11] = [
    (
        "command_from_inside_schedules_no_check",
        "engine/runner/mod.rs",
        "self.schedule_check(Moment::now().after(stall_watch::RECHECK_AFTER));",
        "",
        "computes_behind_its_command",
    ),
    (
        "process_ends_while_another_thread_polls",
        "engine/runner/loop_lock.rs",
        "            host::pause(tries);",
        "            let _ = tries;\n            return None;",
        "ends_behind_its_command",
    ),
    (
        "check_is_reset_after_the_loop_is_read",
        "engine/runner/stall_watch.rs",
        "if next == NEVER || runner.check_at.fetch_min(next, Ordering::SeqCst) <= next {",
        "runner.check_at.store(next, Ordering::SeqCst);\n        if next == NEVER {",
        "computes_beside_callers",
    ),
    (
        "turn_is_passed_on_without_a_wake_up",
        "engine/runner/fallback_runtime.rs",
        "            turns.pass_on(Moment::now());\n            self.changed.notify_one();",
        "            turns.pass_on(Moment::now());",
        "two_and_by_hand",
    ),
    (
        "wake_up_during_a_poll_is_forgotten",
        "engine/wakers.rs",
        "        self.is_set.store(true, Ordering::SeqCst);\n        if !self.task",
        "        if !self.task",
        "loop_waker",
    ),
    (
        "wake_up_is_forgotten_after_the_poll",
        "engine/wakers.rs",
        "        let polled = part(&mut waker.cx());\n",
        "        let polled = part(&mut waker.cx());\n        waker.take();\n",
        "when_woken",
    ),
    (
        "alarm_rings_before_it_is_set",
        "base/alarm.rs",
        "        *self.is_set.lock().unwrap_or_else(PoisonError::into_inner) = true;\n        self.changed.notify_one();",
        "        self.changed.notify_one();\n        *self.is_set.lock().unwrap_or_else(PoisonError::into_inner) = true;",
        "alarm",
    ),
    (
        "turn_is_given_to_a_caller_that_has_left",
        "engine/runner/fallback_runtime/blocked_callers.rs",
        "            if turns.given_to.take_if(|to| Arc::ptr_eq(to, &self.alarm)).is_some() {\n                drop(turns);\n                \
         drop(CallerTurn::new(self.own, self.runner));\n                return;\n            }\n",
        "",
        "limited",
    ),
    (
        "task_that_was_left_polls_on",
        "engine/runner/mod.rs",
        "        if self.moves.load(Ordering::SeqCst) != moves {\n            return Poll::Ready(PollOutcome::Ended);",
        "        if false && self.moves.load(Ordering::SeqCst) != moves {\n            return Poll::Ready(PollOutcome::Ended);",
        "moved",
    ),
    (
        "end_of_the_last_handle_wakes_nobody",
        "engine/runner/mod.rs",
        "                return;\n            }\n        }\n        self.on_sent();\n",
        "                return;\n            }\n        }\n",
        "one",
    ),
    (
        "last_check_before_the_loop_is_unpolled",
        "engine/runner/mod.rs",
        "        self.place.store(UNPOLLED, Ordering::SeqCst);\n        if event_loop.is_idle() && !event_loop.has_commands() {\n",
        "        let is_idle = event_loop.is_idle() && !event_loop.has_commands();\n        self.place.store(UNPOLLED, Ordering::SeqCst);\n        \
         if is_idle {\n",
        "dropped_beside_a_command",
    ),
];
