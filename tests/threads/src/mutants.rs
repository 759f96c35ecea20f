//! Races that the scenarios must find: each is one edit of the engine's files.

/// Its name, the file below `redlock-runtime/src/`, what is there, what is in its place, and a scenario that finds it.
pub(crate) type Mutant = (&'static str, &'static str, &'static str, &'static str, &'static str);

/// All of them.
pub(crate) const MUTANTS: [Mutant; 6] = [
    (
        "command_from_inside_is_not_looked_after",
        "engine/home.rs",
        "self.look_at(Moment::now().after(guardian::LOOK_AGAIN));",
        "",
        "computes_behind_its_command",
    ),
    (
        "look_is_reset_after_the_loop_is_read",
        "engine/home/guardian.rs",
        "if next == NEVER || home.look_at.fetch_min(next, Ordering::SeqCst) <= next {",
        "home.look_at.store(next, Ordering::SeqCst);\n        if next == NEVER {",
        "computes_beside_callers",
    ),
    (
        "turn_is_passed_on_without_a_wake_up",
        "engine/home/own_runtime.rs",
        "            turns.pass_on(Moment::now());\n            self.changed.notify_one();",
        "            turns.pass_on(Moment::now());",
        "two_and_by_hand",
    ),
    (
        "wake_up_during_a_poll_is_forgotten",
        "engine/driver/loop_waker.rs",
        "        self.is_woken.store(true, Ordering::SeqCst);\n        self.wake_task();",
        "        self.wake_task();",
        "loop_waker",
    ),
    (
        "wake_up_is_forgotten_after_the_poll",
        "engine/when_woken.rs",
        "        let polled = part(&mut Context::from_waker(waker));\n",
        "        let polled = part(&mut Context::from_waker(waker));\n        flag.is_woken.store(false, Ordering::SeqCst);\n",
        "when_woken",
    ),
    (
        "alarm_rings_before_it_is_set",
        "ground/alarm.rs",
        "        *self.is_set.lock().unwrap_or_else(PoisonError::into_inner) = true;\n        self.changed.notify_one();",
        "        self.changed.notify_one();\n        *self.is_set.lock().unwrap_or_else(PoisonError::into_inner) = true;",
        "alarm",
    ),
];
