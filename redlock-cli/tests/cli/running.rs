use std::fs;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kit::{RedisServer, eventually};

use crate::tool::{Running, Scratch, report, said, tool};

#[test]
fn the_exit_code_is_that_of_the_command() {
    let server = RedisServer::start();
    for (script, code) in
        [("exit 0", 0), ("exit 3", 3), ("exit 255", 255), ("kill -KILL $$", 137), ("kill $$", 143)]
    {
        let said = said(&server.url(), &["run", "k", "--", "sh", "-c", script]);
        assert_eq!((said.code, &*said.err), (Some(code), ""), "{script}");
    }
    assert!(server.keys().is_empty(), "the lock is free at once");
}

#[test]
fn a_command_that_cannot_be_started_leaves_no_lock() {
    let server = RedisServer::start();
    let said = said(&server.url(), &["run", "k", "--", "/no/such/command"]);
    assert_eq!(said.code, Some(69));
    assert!(said.err.starts_with("redlocked: cannot start /no/such/command: "), "{}", said.err);
    assert!(server.keys().is_empty());
}

#[test]
fn the_command_has_the_key_a_growing_fencing_token_and_the_streams() {
    let server = RedisServer::start();
    let script = "echo $REDLOCK_KEY $REDLOCK_FENCING_TOKEN; echo oops >&2";
    let token = || {
        let said = said(&server.url(), &["run", "a key", "--", "sh", "-c", script]);
        assert_eq!((said.code, &*said.err), (Some(0), "oops\n"));
        said.out.trim().strip_prefix("a key ").unwrap().parse::<u64>().unwrap()
    };
    let first = token();
    assert!(token() > first);

    let mut command = tool(&server.url(), &["run", "k", "--", "sort"]);
    let input = Scratch::new();
    fs::write(input.path(), "b\na\n").unwrap();
    command.stdin(fs::File::open(input.path()).unwrap());
    assert_eq!(command.output().unwrap().stdout, b"a\nb\n");
}

#[test]
fn a_lock_that_is_held_gives_1_or_the_code_that_was_asked_for() {
    let server = RedisServer::start();
    let mut holder = Running::start(&server.url(), &["run", "k", "--", "sleep", "60"]);
    eventually("it is held", || !server.keys().is_empty());
    let run = |options: &[&str]| {
        let ran = Scratch::new();
        let arguments = [&["run"], options, &["k", "--", "touch", ran.path()]].concat();
        let said = said(&server.url(), &arguments);
        assert!(!fs::exists(ran.path()).unwrap(), "the command does not start");
        (said.code, said.err)
    };
    let (code, err) = run(&["-n"]);
    assert_eq!(code, Some(1));
    assert!(err.starts_with("redlocked: `k` is held by "), "{err}");
    assert_eq!(run(&["--nonblock", "-E", "9"]).0, Some(9));
    let (code, err) = run(&["--wait", "200ms", "--conflict-exit-code", "0"]);
    assert_eq!(code, Some(0));
    assert!(err.starts_with("redlocked: timed out after "), "{err}");
    assert!(holder.is_running());
}

#[test]
fn a_job_once_for_each_tick_also_if_its_runner_is_killed() {
    let server = RedisServer::start();
    let done = Scratch::new();
    let script = format!("echo done >>{}", done.path());
    let run = |wait, script: &str| {
        let arguments = ["run", "--ttl", "2s", "--wait", wait, "--min-hold", "60s", "k", "--", "sh", "-c"];
        Running::start(&server.url(), &[&arguments[..], &[script]].concat())
    };
    let mut killed = run("20s", "sleep 60");
    eventually("it is held", || !server.keys().is_empty());
    let next = run("20s", &script);
    eventually("it waits", || server.run::<usize>("ZCARD lock:k%queue") == 1);
    assert!(killed.is_running());
    killed.signal("-KILL");
    assert_eq!(next.said().code, Some(0), "the next one runs the job");
    let late = run("200ms", &script).said();
    assert_eq!((late.code, &*done.text()), (Some(1), "done\n"), "a late one finds it done: {}", late.err);
}

#[test]
fn without_a_limit_it_waits_in_the_queue() {
    let server = RedisServer::start();
    let order = Scratch::new();
    let script = |name: &str| format!("echo {name} >>{}; sleep 0.2; echo {name} >>{0}", order.path());
    let holder = Running::start(&server.url(), &["run", "k", "--", "sh", "-c", &script("first")]);
    eventually("it runs", || order.text() == "first\n");
    let next = Running::start(&server.url(), &["run", "k", "--", "sh", "-c", &script("second")]);
    assert_eq!((holder.said().code, next.said().code), (Some(0), Some(0)));
    assert_eq!(order.text(), "first\nfirst\nsecond\nsecond\n");
}

#[test]
fn after_a_second_it_says_whom_it_waits_for_and_its_place_in_the_queue() {
    let server = RedisServer::start();
    let mut holder = Running::start(&server.url(), &["run", "k", "--", "sleep", "60"]);
    eventually("it is held", || !server.keys().is_empty());
    let waits = |arguments: &[&str]| Running::start(&server.url(), arguments);
    let queued = |number| eventually("it waits", || server.run::<usize>("ZCARD lock:k%queue") == number);
    let first = waits(&["run", "-w", "2s", "k", "--", "true"]);
    queued(1);
    let second = waits(&["run", "-w", "2s", "k", "--", "true"]);
    queued(2);
    let silent = waits(&["run", "-w", "2s", "--quiet", "k", "--", "true"]);
    let beside = waits(&["wait", "--timeout", "2s", "k"]);
    let by = format!(":{} in sleep, lease left 2", holder.id());
    for (waiter, place) in [(first, ", place 1 of "), (second, ", place 2 of "), (beside, " in the queue\n")]
    {
        let said = waiter.said();
        assert_eq!(said.code, Some(1), "{}", said.err);
        let line = said.err.lines().next().unwrap().to_owned() + "\n";
        assert!(line.starts_with("redlocked: waiting for 1."), "{line}");
        assert!(line.contains("`k` is held by ") && line.contains(&by) && line.contains(place), "{line}");
        assert!(line.ends_with(" in the queue\n"), "{line}");
    }
    let said = silent.said();
    assert!(
        said.err.starts_with("redlocked: timed out after ") && said.err.lines().count() == 1,
        "{}",
        said.err
    );
    assert!(holder.is_running());
}

#[test]
fn during_an_outage_it_says_what_it_waits_for() {
    let mut server = RedisServer::start();
    let url = server.url();
    server.kill();
    let mut waiter = Running::start(&url, &["run", "k", "--", "echo", "done"]);
    let mut text = String::new();
    waiter.errors_until(&mut text, "\n");
    assert!(text.starts_with("redlocked: waiting for "), "{text}");
    assert!(text.contains("refused"), "{text}");
    server.restart();
    assert_eq!(waiter.said().out, "done\n");
}

#[test]
fn a_tool_that_is_told_to_end_while_it_waits_leaves_the_queue() {
    let server = RedisServer::start();
    let holder = Running::start(&server.url(), &["run", "k", "--", "sleep", "60"]);
    eventually("it is held", || !server.keys().is_empty());
    for (signal, code) in [("-TERM", 143), ("-INT", 130)] {
        let waiter = Running::start(&server.url(), &["run", "k", "--", "true"]);
        eventually("it waits", || server.run::<usize>("ZCARD lock:k%queue") == 1);
        waiter.signal(signal);
        assert_eq!(waiter.said().code, Some(code));
        assert_eq!(server.run::<usize>("ZCARD lock:k%queue"), 0);
    }
    drop(holder);
}

#[test]
fn it_waits_through_an_outage_but_not_where_the_server_refuses() {
    let mut server = RedisServer::with_password("secret");
    let refused = said(&server.url().replace("secret", "wrong"), &["run", "k", "--", "true"]);
    assert_eq!(refused.code, Some(78), "{}", refused.err);
    server.kill();
    let away = said(&server.url(), &["run", "-n", "k", "--", "true"]);
    assert_eq!(away.code, Some(75), "{}", away.err);
    let waiting = Running::start(&server.url(), &["run", "k", "--", "true"]);
    server.restart();
    assert_eq!(waiting.said().code, Some(0));
}

#[test]
fn settings_that_leave_no_time_to_end_the_command_are_refused() {
    for (settings, hint) in [
        (&["--ttl", "900ms"][..], "at least 1s"),
        (&["--ttl", "10s", "--kill-after", "6s"], "at most half of the ttl, 5.0 s"),
        (&["--ttl", "10"], "time unit needed"),
        (&["-n", "--wait", "5s"], "cannot be used with"),
    ] {
        let said = said("memory://", &[&["run"], settings, &["k", "--", "true"]].concat());
        assert_eq!(said.code, Some(64), "{}", said.err);
        assert!(said.err.contains(hint), "{}", said.err);
    }
}

#[test]
fn a_parent_that_ignores_its_children_changes_nothing() {
    let server = RedisServer::start();
    let tool = tool(&server.url(), &["run", "--ttl", "1s", "k", "--", "sh", "-c", "exit 3"]);
    let mut shell = std::process::Command::new("bash");
    shell.args(["-c", "trap '' CHLD; exec \"$0\" \"$@\""]).arg(tool.get_program()).args(tool.get_args());
    let mut shell = shell.env("REDLOCK_URL", server.url()).spawn().unwrap();
    let mut code = None;
    eventually("it ends", || {
        code = shell.try_wait().unwrap();
        code.is_some()
    });
    assert_eq!(code.unwrap().code(), Some(3));
}

#[test]
fn a_signal_that_nohup_ignores_stays_ignored() {
    let server = RedisServer::start();
    let done = Scratch::new();
    let script = format!("echo ready >>{0}; read -r _; echo done >>{0}", done.path());
    let tool = tool(&server.url(), &["run", "k", "--", "sh", "-c", &script]);
    let mut command = std::process::Command::new("nohup");
    command.arg(tool.get_program()).args(tool.get_args()).env("REDLOCK_URL", server.url());
    let mut nohup = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    eventually("it runs", || done.text() == "ready\n");
    crate::tool::signal_to("-HUP", nohup.id());
    drop(nohup.stdin.take());
    assert_eq!(nohup.wait().unwrap().code(), Some(0));
    assert_eq!(done.text(), "ready\ndone\n");
}

#[test]
fn a_leader_runs_the_command_and_the_next_one_when_it_is_killed() {
    let server = RedisServer::start();
    let order = Scratch::new();
    let script = |name: &str| format!("echo {name} $REDLOCK_FENCING_TOKEN >>{}; sleep 60", order.path());
    let lead = |name: &str| {
        let (script, address) = (script(name), format!("10.0.0.5:{name}"));
        let arguments =
            ["--leader", "--ttl", "2s", "--announce", &address, "loop", "--", "sh", "-c", &script];
        Running::start(&server.url(), &[&["run"], &arguments[..]].concat())
    };
    let first = lead("1");
    eventually("it leads", || order.text().lines().count() == 1);
    let shown = || said(&server.url(), &["leader", "loop"]).out;
    eventually("it has announced itself", || shown().contains("announced:  10.0.0.5:1\n"));
    let mut second = lead("2");
    eventually("the other candidate waits", || server.run::<usize>("ZCARD lock:loop%queue") == 1);
    first.signal("-KILL");
    eventually("the other one leads", || order.text().lines().count() == 2);
    let text = order.text();
    let terms: Vec<(&str, u64)> = text
        .lines()
        .filter_map(|line| line.split_once(' ').and_then(|(name, term)| Some((name, term.parse().ok()?))))
        .collect();
    assert!(matches!(terms[..], [("1", first), ("2", second)] if first < second), "{terms:?}");
    assert!(second.is_running());
    second.signal("-TERM");
    assert_eq!(second.said().code, Some(143));
    assert!(server.keys().is_empty(), "the lead is free at once: {:?}", server.keys());
}

/// A waiter is granted the lock for one second, and its first renewal makes the ttl of it.
#[test]
fn a_command_that_has_waited_is_not_ended_before_its_first_renewal() {
    for kind in [&["run", "--leader"][..], &["run", "--quiet"]] {
        for lease in [&["--ttl", "2s"][..], &["--ttl", "10s", "--kill-after", "400ms"], &["--ttl", "1s"]] {
            let server = RedisServer::start();
            let run = |command: &[&str]| {
                Running::start(&server.url(), &[kind, lease, &["loop", "--"], command].concat())
            };
            let holder = run(&["sleep", "60"]);
            eventually("it has the lock", || server.run::<u32>("EXISTS lock:loop") == 1);
            let next = run(&["sleep", "1.2"]);
            eventually("the other one waits", || server.run::<usize>("ZCARD lock:loop%queue") == 1);
            holder.signal("-TERM");
            let ended = next.said();
            assert_eq!((ended.code, &*ended.err), (Some(0), ""), "{kind:?} {lease:?}");
        }
    }
}

/// The watchdog ends the command in its place. The lease is long enough for the command to say so before
/// it is killed, also on a machine that is busy.
#[test]
fn a_leader_that_is_frozen_past_its_lease_waits_again_without_a_word_of_a_failure() {
    let server = RedisServer::start();
    let order = Scratch::new();
    let script = format!(
        "trap 'echo end >>{0}; exit 1' TERM; echo begin >>{0}; while :; do sleep 0.05; done",
        order.path()
    );
    let leader =
        Running::start(&server.url(), &["run", "--leader", "--ttl", "3s", "loop", "--", "sh", "-c", &script]);
    eventually("it leads", || order.text() == "begin\n");
    leader.signal("-STOP");
    eventually("its command is ended", || order.text() == "begin\nend\n");
    eventually("its lease is over", || server.run::<u32>("EXISTS lock:loop") == 0);
    leader.signal("-CONT");
    eventually("it leads again", || order.text() == "begin\nend\nbegin\n");
    leader.signal("-TERM");
    let said = leader.said();
    assert!(!said.err.contains("watchdog") && !said.err.contains("the command ended"), "{}", said.err);
    assert!(server.keys().is_empty());
}

#[test]
fn a_leader_whose_command_fails_waits_again_and_ends_with_one_that_succeeds() {
    let server = RedisServer::start();
    let runs = Scratch::new();
    let script = format!("echo run >>{0}; [ $(wc -l <{0}) -gt 1 ] || exit 3", runs.path());
    let ended = said(&server.url(), &["run", "--leader", "loop", "--", "sh", "-c", &script]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert_eq!(ended.err, "redlocked: the command ended with 3: waiting to lead again\n");
    assert_eq!(runs.text(), "run\nrun\n");
    assert!(server.keys().is_empty());
}

#[test]
fn a_leader_that_resigns_ends_its_command_first_and_one_that_waits_ends_at_a_signal() {
    let server = RedisServer::start();
    let order = Scratch::new();
    // It has its whole process group killed only where it does not end by itself.
    let script = format!(
        "trap 'echo end >>{0}; exit 0' TERM; echo begin >>{0}; while :; do sleep 0.05; done",
        order.path()
    );
    let mut leader = Running::start(&server.url(), &["run", "--leader", "loop", "--", "sh", "-c", &script]);
    eventually("it leads", || order.text() == "begin\n");
    let candidate =
        Running::start(&server.url(), &["run", "--leader", "loop", "--", "touch", "/no/such/folder/file"]);
    eventually("the other candidate waits", || server.run::<usize>("ZCARD lock:loop%queue") == 1);
    candidate.signal("-INT");
    let candidate = candidate.said();
    assert_eq!((candidate.code, &*candidate.err), (Some(130), ""));

    let resigns = || said(&server.url(), &["resign", "loop", "--yes"]).code == Some(0);
    eventually("its record is there, and it resigns", resigns);
    eventually("it leads again", || order.text().matches("begin\n").count() == 2);
    assert!(leader.is_running());
    leader.signal("-TERM");
    let ended = leader.said();
    assert_eq!(ended.code, Some(0), "as the command has ended: {}", ended.err);
    assert!(ended.err.contains("the lead of `loop` was lost: ending the command"), "{}", ended.err);
    assert!(order.text().ends_with("end\n"));
    assert!(server.keys().is_empty());
}

#[test]
fn a_leader_whose_command_cannot_be_started_ends_and_takes_no_options_of_a_wait() {
    let server = RedisServer::start();
    let missing = said(&server.url(), &["run", "--leader", "loop", "--", "/no/such/command"]);
    assert_eq!(missing.code, Some(69));
    assert!(missing.err.starts_with("redlocked: cannot start /no/such/command: "), "{}", missing.err);
    assert!(server.keys().is_empty());
    for option in [&["--wait", "1s"][..], &["-n"], &["-E", "3"], &["--min-hold", "1s"], &["--quiet"]] {
        let refused = said(&server.url(), &[&["run", "--leader"], option, &["loop", "--", "true"]].concat());
        assert_eq!(refused.code, Some(64), "{option:?}");
    }
    assert_eq!(said(&server.url(), &["run", "--announce", "a", "loop", "--", "true"]).code, Some(64));
}

#[test]
fn of_all_machines_that_start_a_tick_one_runs_it() {
    let server = RedisServer::start();
    let run = |options: &[&str], script: &str| {
        let arguments = [&["run", "--tick", "366d"], options, &["k", "--", "sh", "-c", script]].concat();
        let said = said(&server.url(), &arguments);
        (said.code, said.err)
    };
    assert_eq!(run(&[], "exit 3").0, Some(3));
    let (code, err) = run(&[], "exit 0");
    assert!(code == Some(1) && err.starts_with("redlocked: the tick of `k` at "), "it is over: {err}");
    assert_eq!(run(&["-E", "0"], "exit 5").0, Some(0));
    let shown = said(&server.url(), &["show", "k"]);
    assert!(shown.out.contains("last tick:") && shown.out.contains(" in sh"), "{}", shown.out);

    let _: String = server.run("FLUSHALL");
    let retry = ["--tick-missed", "retry"];
    assert_eq!(run(&retry, "exit 3").0, Some(3));
    assert_eq!(run(&retry, "exit 0").0, Some(0), "it has failed before");
    assert_eq!(run(&retry, "exit 0").0, Some(1));
    for options in [&["--min-hold", "1s"][..], &["--tick-missed", "again"], &["--leader"]] {
        assert_eq!(run(options, "exit 0").0, Some(64), "{options:?}");
    }
}

/// A new holder has a claim of a second until it renews.
#[test]
fn the_next_one_starts_its_command_without_waiting_for_a_renewal() {
    let server = RedisServer::start();
    for options in [&["run"][..], &["run", "--leader"]] {
        let fastest = (0..3).map(|_| {
            let [ended, begun, go] = [(); 3].map(|()| Scratch::new());
            let first =
                format!("until [ -e {} ]; do sleep 0.01; done; date +%s%N >{}", go.path(), ended.path());
            let first = [options, &["k", "--", "sh", "-c", &first]].concat();
            let first = Running::start(&server.url(), &first);
            eventually("it is held", || !server.keys().is_empty());
            let second = format!("date +%s%N >{}", begun.path());
            let second = [options, &["k", "--", "sh", "-c", &second]].concat();
            let second = Running::start(&server.url(), &second);
            eventually("it waits", || server.run::<usize>("ZCARD lock:k%queue") == 1);
            fs::write(go.path(), "").unwrap();
            assert_eq!((first.said().code, second.said().code), (Some(0), Some(0)));
            let at = |file: &Scratch| file.text().trim().parse::<u64>().unwrap();
            Duration::from_nanos(at(&begun) - at(&ended))
        });
        let fastest = fastest.min().unwrap();
        report(&format!("{options:?}: the next command started after {fastest:?}"));
        assert!(fastest < Duration::from_millis(250), "{options:?}: {fastest:?}");
    }
}

#[test]
fn readers_and_permits_run_at_once_and_a_writer_alone() {
    let server = RedisServer::start();
    let mut running: Vec<_> = (0..2)
        .map(|_| Running::start(&server.url(), &["run", "--shared", "k", "--", "sleep", "60"]))
        .chain(
            (0..2)
                .map(|_| Running::start(&server.url(), &["run", "--permits", "2", "p", "--", "sleep", "60"])),
        )
        .collect();
    for key in ["k", "p"] {
        let holders = format!("ZCARD lock:{key}%queue%holders");
        eventually("both are inside", || server.run::<usize>(&holders) == 2);
    }
    for refused in
        [&["run", "-n", "k", "--", "true"][..], &["run", "-n", "--permits", "2", "p", "--", "true"]]
    {
        assert_eq!(said(&server.url(), refused).code, Some(1));
    }
    assert_eq!(said(&server.url(), &["run", "-n", "--shared", "k", "--", "true"]).code, Some(0));
    assert!(running.iter_mut().all(Running::is_running), "none of them has lost its lock");
    // The watchdog releases nothing for one of several: the others keep theirs.
    running[0].signal("-KILL");
    eventually("its command has ended", || !running[0].is_running());
    assert!(running[1].is_running());
    assert_eq!(said(&server.url(), &["run", "-n", "k", "--", "true"]).code, Some(1));
    let both = said(&server.url(), &["run", "--shared", "--permits", "2", "k", "--", "true"]);
    assert_eq!(both.code, Some(64), "{}", both.err);
}

#[test]
fn commands_that_take_several_permits_run_together_as_long_as_there_are_enough() {
    let server = RedisServer::start();
    let start = |take: &str| {
        let job = ["run", "--permits", "16", "--take", take, "gpu", "--", "sleep", "60"];
        Running::start(&server.url(), &job)
    };
    let ends_with = |take: &[&str]| {
        let job = [&["run", "-n", "--permits", "16"], take, &["gpu", "--", "true"]].concat();
        said(&server.url(), &job).code
    };
    let _jobs = [start("8"), start("7")];
    eventually("both are inside", || server.run::<usize>("ZCARD lock:gpu%queue%holders") == 2);
    let shown = said(&server.url(), &["show", "gpu", "--quick"]).out;
    assert!(shown.contains("15 of 16 permits, 2 holders"), "{shown}");
    assert_eq!(ends_with(&["--take", "2"]), Some(1), "one permit is left");
    assert_eq!(ends_with(&["--take", "1"]), Some(0));
    assert_eq!(ends_with(&[]), Some(0), "as without the option");
}

#[test]
fn taking_more_permits_than_there_are_is_refused_and_so_is_taking_some_of_no_number() {
    let server = RedisServer::start();
    let run = |options: &[&str]| {
        let said = said(&server.url(), &[&["run"], options, &["gpu", "--", "true"]].concat());
        (said.code, said.err)
    };
    let (code, err) = run(&["--permits", "3", "--take", "4"]);
    assert!(code == Some(64) && err.contains("take at most 3"), "{code:?} {err}");
    let (code, err) = run(&["--permits", "3", "--take", "0"]);
    assert!(code == Some(64) && err.contains("out of range"), "{code:?} {err}");
    let (code, err) = run(&["--take", "2"]);
    assert!(code == Some(64) && err.contains("--permits <NUMBER>"), "{code:?} {err}");
    for other in [&["--shared"][..], &["--leader"], &["--tick", "1h"]] {
        assert_eq!(run(&[other, &["--take", "2"]].concat()).0, Some(64), "{other:?}");
    }
    assert!(server.keys().is_empty(), "nothing was taken: {:?}", server.keys());
}

#[test]
fn a_command_starts_as_often_as_its_rate_says_and_nothing_is_held() {
    let server = RedisServer::start();
    let run = |options: &[&str], command: &[&str]| {
        let said = said(&server.url(), &[&["run"], options, &["partner", "--"], command].concat());
        (said.code, said.out, said.err)
    };
    let two = ["-n", "--rate", "2/1m"];
    let (code, out, err) = run(&two, &["sh", "-c", "echo $REDLOCK_KEY; exit 7"]);
    assert_eq!((code, &*out, &*err), (Some(7), "partner\n", ""), "the code of the command");
    assert_eq!(run(&two, &["true"]).0, Some(0));
    let (code, _, err) = run(&two, &["true"]);
    assert!(code == Some(1) && err.contains("`partner` has had its 2 starts in 1 min"), "{code:?} {err}");
    assert_eq!(run(&["-n", "-E", "9", "--rate", "2/1m"], &["true"]).0, Some(9));
    // A tool that waits exits on SIGTERM, and a later start is still granted.
    let url = server.url();
    let waits = ["run", "--rate", "2/1m", "partner", "--", "true"];
    let mut waiting = Running::start(&url, &waits);
    eventually("it waits", || server.run::<usize>("ZCARD lock:partner%queue") == 1);
    waiting.signal("-TERM");
    eventually("it has ended", || !waiting.is_running());
    for _ in 0..3 {
        assert_eq!(said(&url, &["run", "--rate", "1/1s", "other", "--", "true"]).code, Some(0));
    }
    let missing = said(&url, &["run", "--rate", "1/1s", "other", "--", "/no/such/program"]);
    assert!(missing.code == Some(69) && missing.err.contains("/no/such/program"), "{}", missing.err);
}

#[test]
fn a_rate_that_is_none_or_with_an_option_of_a_lock_is_refused() {
    let server = RedisServer::start();
    let refused = |options: &[&str]| {
        let said = said(&server.url(), &[&["run"], options, &["partner", "--", "true"]].concat());
        assert_eq!(said.code, Some(64), "{options:?}: {}", said.err);
        said.err
    };
    assert!(refused(&["--rate", "5"]).contains("such as 5/1m"));
    for wrong in ["x/1m", "5/x", "0/1m", "5/0s", "5/"] {
        refused(&["--rate", wrong]);
    }
    for other in [
        &["--shared"][..],
        &["--permits", "3"],
        &["--leader"],
        &["--tick", "1h"],
        &["--ttl", "5s"],
        &["--min-hold", "1s"],
        &["--max-hold", "1m"],
        &["--kill-after", "1s"],
    ] {
        refused(&[&["--rate", "5/1m"], other].concat());
    }
    assert!(server.keys().is_empty(), "nothing was started: {:?}", server.keys());
}

#[test]
fn a_policy_that_is_changed_under_a_command_is_told_once_and_ends_nothing() {
    for options in [&["run"][..], &["run", "--leader"]] {
        let server = RedisServer::start();
        let () = server.run("CONFIG SET maxmemory 100mb");
        let mut running = Running::start(&server.url(), &[options, &["k", "--", "sleep", "20"]].concat());
        eventually("it is held", || server.run::<u32>("EXISTS lock:k") == 1);
        let () = server.run("CONFIG SET maxmemory-policy allkeys-lru");
        let _: u32 = server.run("CLIENT KILL TYPE pubsub");
        let mut told = String::new();
        running.errors_until(&mut told, "was changed: set it to noeviction\n");
        assert!(told.starts_with("redlocked: Redis may evict locks"), "{told}");
        assert!(running.is_running() && server.run::<u32>("EXISTS lock:k") == 1);
        running.signal("-TERM");
        assert_eq!(running.said().err, "", "it is told once");
    }
}

#[test]
fn a_command_ends_with_its_longest_hold() {
    let server = RedisServer::start();
    let run = |longest: &str| {
        said(
            &server.url(),
            &["run", "--ttl", "2s", "--kill-after", "100ms", "--max-hold", longest, "k", "--", "sleep", "60"],
        )
    };
    let start = Instant::now();
    let ended = run("1500ms");
    assert_eq!(ended.code, Some(70), "{}", ended.err);
    assert!(
        start.elapsed() < Duration::from_secs(10) && ended.err.contains("ending the command"),
        "{}",
        ended.err
    );
    assert!(server.keys().is_empty(), "it is released");
    let short = run("100ms");
    assert_eq!(short.code, Some(64), "{}", short.err);
}

#[test]
fn a_job_runs_once_for_its_nominal_time() {
    let server = RedisServer::start();
    let run = |time: &str| {
        let said = said(&server.url(), &["run", "--tick-at", time, "-E", "9", "k", "--", "echo", "ran"]);
        (said.code, said.out)
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let ran = (Some(0), "ran\n".to_owned());
    assert_eq!(run(&now.to_string()), ran);
    assert_eq!(run(&now.to_string()), (Some(9), String::new()));
    let next = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(now + 1)).to_string();
    assert_eq!(run(&next), ran);
    assert_eq!(run(&next), (Some(9), String::new()));
    assert_eq!(run("tomorrow").0, Some(64));
}
