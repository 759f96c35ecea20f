//! Each script fails at each of its commands: what it leaves on the server, and whether the same
//! request, sent again, succeeds.
//!
//! A server stops a script in the middle where access rules or the node of a slot change, where it is
//! full, or where a key is on its way to another node. So whatever a script has done by then must be
//! safe: nobody who is inside is put out, no lock is left to nobody for longer than a claim, and
//! those that wait get the lock, one after the other. The scripts come from the list of the engine:
//! one that is new has no scenario yet, and fails the test.

use std::collections::HashMap;

use redis::{RedisResult, Value};

use crate::by_hand::{
    CLAIM, CLOCK, HOLDERS, LOCK, PERMITS, QUEUE, Scripts, State, all_scripts, on_sharded_channels, source,
};

const ONCE: &str = "lock:k%queue%once";
const TICK: &str = "lock:k%queue%tick";
const LEADER: &str = "lock:k%queue%leader";
const OTHER: &str = "lock:l";

const TTL: &str = "10000";
const DAY: &str = "86400000";

/// The result of a body that has run.
const RESULT: &str = "42";

/// What one that was granted a lock has it for, at most, until it has claimed it, and the grace.
const CLAIMED: i64 = 1_101;

/// So stands at the start of a script: its command with this number fails, and those behind it, too,
/// if that lasts; or all that name a key that does not exist, as while a slot moves.
const FAILS: &str = "local calls, real = 0, redis
local fails_at, how = tonumber(real.call('GET', 'test:fails_at')), real.call('GET', 'test:how')
local NON_LOCAL = 'ERR Script attempted to access a non local key in a cluster node'
local function fails(...)
  calls = calls + 1
  local does = how ~= 'moves' and (calls == fails_at or how == 'lasts' and calls > fails_at)
  if how == 'moves' and not string.find(..., 'PUB', 1, true) then
    for _, argument in ipairs({...}) do
      local is_key = type(argument) == 'string' and string.sub(argument, 1, 5) == 'lock:'
      does = does or is_key and real.call('EXISTS', argument) == 0
    end
  end
  if does and how ~= 'moves' then real.call('SET', 'test:failed', '1') end
  return does
end
local redis = setmetatable({
  call = function(...) if fails(...) then error({err = NON_LOCAL}) end return real.call(...) end,
  pcall = function(...) if fails(...) then return {err = NON_LOCAL} end return real.pcall(...) end,
}, {__index = real})
";

/// Which commands fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fails {
    One,
    ThisAndLater,
    /// Those that name a key that does not exist.
    Missing,
}

/// One that holds the lock, waits for it, or makes the request that fails.
#[derive(Clone, Debug)]
struct Who {
    name: &'static str,
    token: String,
    inbox: &'static str,
    /// As in read.lua; `once` for one whose body runs once.
    kind: &'static str,
    /// It has been told that it holds the lock.
    is_inside: bool,
}

/// What becomes of the one that makes the request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Effect {
    /// It gets the lock, or waits for it.
    Asks,
    /// It tries once.
    Tries,
    Leaves,
    /// Nothing changes for anybody.
    Nothing,
    /// The holder loses its lock.
    TakesAway,
    /// It gets the lock from the holder.
    TakesOver,
}

struct Request {
    script: &'static str,
    /// Who makes it.
    by: &'static str,
    effect: Effect,
    keys: Vec<&'static str>,
    arguments: Vec<String>,
}

struct World {
    scripts: Scripts,
    client: redis::Connection,
    texts: HashMap<(&'static str, bool, bool), redis::Script>,
    those: Vec<Who>,
}

fn token(name: &str) -> String {
    format!("{name:0>22}@host:1/1790000000/m::f")
}

fn runner(token: &str) -> String {
    format!("{:0>32}", token.as_bytes()[21])
}

impl Request {
    fn is_granted_by(&self, answer: &Value) -> bool {
        match answer {
            Value::Int(fence) => *fence > 0 || *fence == 0 && self.script == "acquire",
            Value::Array(parts) if self.script == "acquire_all" => {
                parts.iter().all(|part| matches!(part, Value::Int(_)))
            }
            // The answer of a tick.
            Value::Array(parts) => {
                matches!(parts[..], [Value::BulkString(_), Value::Int(fence)] if fence >= 0)
            }
            _ => false,
        }
    }

    fn is_counted(&self) -> bool {
        self.arguments.get(6).is_some_and(|kind| kind.starts_with('n'))
    }
}

impl World {
    fn start() -> Self {
        let mut scripts = Scripts::start();
        for inbox in ["a", "b", "c"] {
            scripts.listen(inbox);
        }
        let client = scripts.server.client();
        Self { scripts, client, texts: HashMap::new(), those: Vec::new() }
    }

    fn who(&self, name: &str) -> &Who {
        self.those.iter().find(|who| who.name == name).unwrap()
    }

    fn comes(&mut self, name: &'static str, inbox: &'static str, kind: &'static str) {
        self.those.push(Who { name, token: token(name), inbox, kind, is_inside: false });
    }

    fn run_script(
        &mut self,
        script: &'static str,
        fails: bool,
        sharded: bool,
        keys: &[&str],
        arguments: &[String],
    ) -> RedisResult<Value> {
        let text = self.texts.entry((script, fails, sharded)).or_insert_with(|| {
            let text = if sharded { on_sharded_channels(&source(script)) } else { source(script) };
            redis::Script::new(&if fails { format!("{FAILS}{text}") } else { text })
        });
        let mut call = text.prepare_invoke();
        for key in keys {
            call.key(*key);
        }
        for argument in arguments {
            call.arg(argument);
        }
        call.invoke(&mut self.client)
    }

    /// As a client does: a call that has to go on is called again.
    fn run(&mut self, request: &Request) -> RedisResult<Value> {
        for _ in 0..4 {
            let answer = self.run_script(request.script, false, false, &request.keys, &request.arguments)?;
            let goes_on = match &answer {
                Value::Int(number) => *number == 2 && matches!(request.effect, Effect::Leaves),
                Value::Array(parts) => parts[..] == [Value::Int(3)],
                _ => false,
            };
            if !goes_on {
                return Ok(answer);
            }
        }
        panic!("{} does not end", request.script)
    }

    /// Asks as its kind does.
    fn asks(&self, name: &str, how: &str) -> Request {
        let who = self.who(name);
        let mut arguments =
            [&*who.token, TTL, how, who.inbox, "100", "", who.kind].map(str::to_owned).to_vec();
        let script = match who.kind {
            "once" => {
                arguments.extend(["-", DAY, &runner(&who.token), ""].map(str::to_owned));
                "acquire_once"
            }
            kind if kind.starts_with('n') => "acquire_counted",
            _ => "acquire",
        };
        let effect = if how == "0" { Effect::Tries } else { Effect::Asks };
        Request { script, by: who.name, effect, keys: all_keys(), arguments }
    }

    /// Releases as its kind does. `how`: of a body that runs once.
    fn leaves(&self, name: &str, left_free: &str, how: &str) -> Request {
        let who = self.who(name);
        let mut arguments =
            [&*who.token, TTL, left_free, who.inbox, "0", "", who.kind].map(str::to_owned).to_vec();
        let script = match who.kind {
            "once" => {
                arguments.extend(["-", DAY, &runner(&who.token), how, "result"].map(str::to_owned));
                "finish"
            }
            kind if kind.starts_with('n') => "release_counted",
            _ => "release",
        };
        Request { script, by: who.name, effect: Effect::Leaves, keys: all_keys(), arguments }
    }

    /// Whoever comes asks, and the answer is believed.
    fn enters(&mut self, name: &'static str, inbox: &'static str, kind: &'static str) {
        self.comes(name, inbox, kind);
        let request = self.asks(name, "join");
        let answer = self.run(&request).unwrap();
        self.believe(&request, &answer);
    }

    fn believe(&mut self, request: &Request, answer: &Value) {
        let is_granted = request.is_granted_by(answer);
        let at = self.those.iter().position(|who| who.name == request.by);
        match (request.effect, at) {
            (Effect::Asks, Some(at)) => self.those[at].is_inside = is_granted,
            (Effect::Tries, Some(at)) if is_granted => self.those[at].is_inside = true,
            (Effect::Tries | Effect::Leaves, Some(at)) => drop(self.those.remove(at)),
            (Effect::TakesOver, Some(at)) if is_granted => {
                let mut next = self.those.remove(at);
                next.is_inside = true;
                self.those.retain(|who| !who.is_inside);
                self.those.push(next);
            }
            (Effect::TakesAway, _) => self.those.retain(|who| !who.is_inside),
            _ => {}
        }
    }

    /// Nobody who believes to be inside is out, nobody else has the lock for longer than a claim, and
    /// no key stays forever. `by`: of this one nobody knows whether it is inside. `undoes`: where
    /// nothing can be undone, a queue may be left without its expiry, and the next waiter sets it.
    fn check(&mut self, by: Option<&Request>, undoes: bool) -> State {
        let state = self.scripts.state();
        let in_doubt = |name: &str| by.is_some_and(|request| request.by == name);
        let taken_away =
            by.is_some_and(|request| matches!(request.effect, Effect::TakesAway | Effect::TakesOver));
        for who in self.those.iter().filter(|who| who.is_inside && !in_doubt(who.name) && !taken_away) {
            assert!(state.inside.contains_key(&who.token), "{} is out: {state:?}", who.name);
        }
        for (token, left) in &state.inside {
            let who = self.those.iter().find(|who| who.token == *token);
            let who = who.unwrap_or_else(|| panic!("nobody has the lock: {state:?}"));
            assert!(who.inbox != "dead", "the lock was handed to {} , which is dead: {state:?}", who.name);
            let is_known = who.is_inside || in_doubt(who.name);
            assert!(is_known || *left <= CLAIMED, "{} has the lock for {left} ms: {state:?}", who.name);
        }
        for key in self.scripts.server.keys() {
            let lasts: i64 = self.scripts.run(&["PTTL", &key]);
            let may_stay =
                key == CLOCK || key == PERMITS || key.starts_with("test:") || !undoes && key != LOCK;
            assert!(lasts != -1 || may_stay, "{key} stays for ever");
        }
        state
    }

    /// All that are there get the lock, leave, and nothing is left.
    fn drain(&mut self, undoes: bool) {
        self.those.retain(|who| who.inbox != "dead");
        for _ in 0..40 {
            let state = self.check(None, undoes);
            let name = match self.those.iter().find(|who| state.inside.contains_key(&who.token)) {
                Some(inside) => inside.name,
                // Nobody is inside: each asks in turn.
                None => match self.those.first() {
                    Some(first) => first.name,
                    None => break,
                },
            };
            if !self.who(name).is_inside {
                let request = self.asks(name, "again");
                let answer = self.run(&request).unwrap();
                self.believe(&request, &answer);
                if let Value::Array(parts) = &answer
                    && matches!(parts[..], [Value::Int(5..=7), ..])
                {
                    self.those.retain(|who| who.name != name);
                }
            }
            if self.those.iter().any(|who| who.name == name && who.is_inside) {
                let request = self.leaves(name, "0", "undone");
                let answer = self.run(&request).unwrap();
                self.believe(&request, &answer);
            } else if let Some(at) = self.those.iter().position(|who| who.name == name) {
                let waits = self.those.remove(at);
                self.those.push(waits);
            }
        }
        assert!(self.those.is_empty(), "{:?} do not get the lock: {:?}", self.those, self.scripts.state());
        let state = self.check(None, true);
        assert!(state.value.is_empty() || state.is_counted() && state.inside.is_empty(), "{state:?}");
    }

    fn holds(&mut self, name: &str) -> bool {
        let state = self.scripts.state();
        self.those.iter().any(|who| who.name == name && state.inside.contains_key(&who.token))
    }

    fn reset(&mut self) {
        self.scripts.forget_all();
        // Above the number below which the short ways draw none.
        self.scripts.run::<()>(&["SET", CLOCK, "1700000000000000"]);
        self.those.clear();
    }
}

/// Another request of the one that is there.
fn other(
    script: &'static str,
    by: &'static str,
    effect: Effect,
    keys: &[&'static str],
    arguments: &[&str],
) -> Request {
    let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
    Request { script, by, effect, keys: keys.to_vec(), arguments }
}

fn all_keys() -> Vec<&'static str> {
    vec![LOCK, QUEUE, CLOCK, CLAIM, HOLDERS, PERMITS, ONCE]
}

type Scenario = fn(&mut World) -> Request;

/// Who is there, and what is asked of the script. More than one where it has several ways.
#[expect(clippy::too_many_lines, reason = "one arm for each script")]
fn scenarios(script: &str) -> &'static [Scenario] {
    match script {
        "acquire" => &[
            |w| newcomer(w, free, "", "join"),
            |w| newcomer(w, free_without_clock, "", "join"),
            |w| newcomer(w, free, "", "0"),
            |w| newcomer(w, free, "unfenced", "join"),
            |w| newcomer(w, held, "", "join"),
            |w| newcomer(w, held, "", "0"),
            |w| newcomer(w, held_with_queue, "", "join"),
            |w| newcomer(w, over_with_queue, "", "join"),
            |w| newcomer(w, over_with_queue, "unfenced", "join_again"),
            |w| newcomer(w, over_with_dead, "", "join"),
            |w| newcomer(w, two_readers, "", "join"),
            |w| newcomer(w, over_with_readers, "", "join"),
            |w| again(w, over_with_queue, "first"),
            |w| again(w, over_with_queue, "second"),
            |w| again(w, over_with_dead, "second"),
            |w| again(w, granted, "first"),
            |w| again(w, held_with_queue, "first"),
            |w| again(w, held, "holder"),
        ],
        "acquire_counted" => &[
            |w| newcomer(w, free, "n0", "join"),
            |w| newcomer(w, free_without_clock, "n0", "join"),
            |w| newcomer(w, free, "n2", "0"),
            |w| newcomer(w, held, "n0", "join"),
            |w| newcomer(w, held_with_queue, "n0", "join"),
            |w| newcomer(w, over_with_queue, "n0", "join"),
            |w| newcomer(w, two_readers, "n0", "join"),
            |w| newcomer(w, two_readers, "n2", "join"),
            |w| newcomer(w, two_permits_with_queue, "n5", "join"),
            |w| newcomer(w, permits_are_set, "n5", "join"),
            |w| newcomer(w, readers_and_writer, "n0", "join"),
            |w| again(w, readers_and_writer, "behind"),
            |w| again(w, over_with_readers, "first"),
            |w| again(w, over_with_readers, "second"),
            |w| again(w, two_readers, "reader"),
            // As an older client has granted it.
            |w| {
                w.enters("newcomer", "a", "");
                w.those[0].kind = "n0";
                w.asks("newcomer", "again")
            },
        ],
        "acquire_once" => &[
            |w| newcomer(w, free, "once", "join"),
            |w| newcomer(w, held, "once", "join"),
            |w| newcomer(w, over_with_queue, "once", "join"),
            |w| newcomer(w, once_with_waiters, "once", "join"),
            |w| again(w, once_with_waiters, "first"),
            runs_again,
        ],
        "tick" => &[|w| tick(w, free), |w| tick(w, held), |w| tick(w, over_with_queue)],
        "acquire_all" => {
            &[|w| all_of_two(w, free), |w| all_of_two(w, held), |w| all_of_two(w, over_with_queue)]
        }
        "renew" => &[
            |w| of_the_holder(w, held, "renew", &[TTL]),
            |w| of_the_holder(w, held_with_queue, "renew", &[TTL]),
            |w| of_the_holder(w, held_with_queue, "renew", &["9000", "exactly"]),
            |w| of_the_holder(w, held, "renew", &["9000", "ticket"]),
            |w| of_the_holder(w, held_with_queue, "renew", &["9000", "ticket"]),
        ],
        "pass_on" => &[
            |w| passed_on(w, "", ""),
            |w| passed_on(w, "", TTL),
            |w| passed_on(w, "ticket", ""),
            |w| passed_on(w, "ticket", TTL),
        ],
        "renew_counted" => &[|w| {
            two_readers(w);
            let token = w.who("reader").token.clone();
            other(
                "renew_counted",
                "reader",
                Effect::Nothing,
                &[LOCK, HOLDERS],
                &[&token, "20000", "", "a", "n0"],
            )
        }],
        "expire_counted" => &[|w| {
            readers_and_writer(w);
            let token = w.who("reader").token.clone();
            let arguments = [&token, "20000", "exactly", "a", "", "", "n0"];
            other("expire_counted", "reader", Effect::Nothing, &all_keys(), &arguments)
        }],
        "downgrade" => &[
            |w| downgrade(w, held),
            |w| downgrade(w, held_with_queue),
            |w| downgrade(w, held_with_readers),
            |w| downgrade(w, held_with_one_dead),
            // The answer to an earlier one was lost.
            |w| {
                let earlier = downgrade(w, held_with_readers);
                w.run(&earlier).unwrap();
                other("downgrade", "holder", Effect::Nothing, &all_keys()[..5], &texts(&earlier.arguments))
            },
        ],
        "release" => &[
            |w| release(w, held, "holder", "0"),
            |w| release(w, held_with_queue, "holder", "0"),
            |w| release(w, held_with_queue, "holder", "128"),
            |w| release(w, held_with_dead, "holder", "0"),
            |w| release(w, held_with_many_dead, "holder", "0"),
            |w| release(w, held_with_one_dead, "holder", "0"),
            |w| release(w, held_with_readers, "holder", "0"),
            |w| release(w, held_with_queue, "first", "0"),
            |w| release(w, held_with_queue, "second", "0"),
            |w| release(w, granted, "first", "0"),
            |w| release(w, granted_before_dead, "first", "0"),
            |w| release(w, over_with_queue, "first", "0"),
            |w| release(w, over_with_dead, "second", "0"),
            |w| release(w, readers_and_writer, "writer", "0"),
        ],
        "release_counted" => &[
            |w| release(w, two_readers, "reader", "0"),
            |w| release(w, one_reader, "reader", "0"),
            |w| release(w, one_reader_with_queue, "reader", "0"),
            |w| release(w, one_reader_with_queue, "reader", "128"),
            |w| release(w, one_reader_before_dead, "reader", "0"),
            |w| release(w, readers_and_writer, "reader", "0"),
            |w| release(w, readers_and_writer, "behind", "0"),
            |w| release(w, held_with_readers, "first", "0"),
            |w| release(w, two_permits_with_queue, "one", "0"),
            |w| release(w, two_permits_with_queue, "first", "0"),
        ],
        "finish" => &[
            |w| finish(w, "finish", "done"),
            |w| finish(w, "finish", "undone"),
            |w| finish(w, "finish", "interrupted"),
            |w| finish_again(w, "finish"),
        ],
        "renew_once" => &[|w| renew_once(w, &[LOCK, ONCE], ""), |w| renew_once(w, &all_keys(), "exactly")],
        "finish_alone" => &[
            |w| finish_again(w, "finish_alone"),
            |w| finish(w, "finish_alone", "done"),
            |w| finish(w, "finish_alone", "undone"),
        ],
        "end_tick" => &[
            |w| end_tick(w, held, "end_tick", "record"),
            |w| end_tick(w, held_with_queue, "end_tick", "record"),
            |w| end_tick(w, held_with_dead, "end_tick", "undo"),
        ],
        "give_up_tick" => {
            &[|w| end_tick(w, held, "give_up_tick", "record"), |w| end_tick(w, held, "give_up_tick", "undo")]
        }
        "force_release" => &[
            |w| taken_away(w, held, "force_release"),
            |w| taken_away(w, held_with_queue, "force_release"),
            |w| taken_away(w, held_with_dead, "force_release"),
            |w| taken_away(w, two_readers, "force_release"),
            |w| taken_away(w, one_reader_with_queue, "force_release"),
        ],
        "revoke" => &[
            |w| revoked(w, two_readers, "reader"),
            |w| revoked(w, one_reader, "reader"),
            |w| revoked(w, one_reader_with_queue, "reader"),
            |w| revoked(w, one_reader_before_dead, "reader"),
            |w| revoked(w, readers_and_writer, "reader"),
        ],
        "set_permits" => &[
            |w| sets_permits(w, two_permits_with_queue, "4"),
            |w| sets_permits(w, two_permits_with_queue, ""),
            |w| sets_permits(w, one_reader_before_dead, "3"),
            |w| sets_permits(w, held_with_readers, "3"),
        ],
        "take_away" => &[|w| {
            held(w);
            let digits =
                token("holder").bytes().fold(String::new(), |digits, byte| digits + &format!("{byte:02x}"));
            other("take_away", "nobody", Effect::TakesAway, &[LOCK], &[&digits])
        }],
        "delete" => &[|w| leaving(w, held, "delete")],
        "give_up" => &[|w| leaving(w, held, "give_up"), |w| leaving(w, held_with_queue, "give_up")],
        "inspect" => &[
            |w| reading(w, held_with_queue, "inspect", &[LOCK, QUEUE, HOLDERS, PERMITS], &[]),
            |w| reading(w, readers_and_writer, "inspect", &[LOCK, QUEUE, HOLDERS, PERMITS], &[]),
        ],
        "watch" => &[|w| reading(w, held, "watch", &[LOCK], &["holder"])],
        "leader" => &[|w| reading(w, held, "leader", &[LOCK, LEADER], &[])],
        "announce" => {
            &[|w| reading(w, held, "announce", &[LOCK, LEADER], &["holder", TTL, "5", "7", "text"])]
        }
        "draw" => &[|w| of_the_holder(w, held, "draw", &[TTL])],
        "reserve" => &[|w| reading(w, held, "reserve", &[LOCK, CLOCK], &["holder", "5"])],
        "raise_fence" => {
            &[|w| reading(w, held, "raise_fence", &[LOCK, CLOCK], &["holder", "1900000000000000"])]
        }
        "repair" => &[
            |w| reading(w, held, "repair", &[LOCK], &["holder", TTL]),
            |w| {
                w.comes("newcomer", "a", "");
                other("repair", "newcomer", Effect::Asks, &[LOCK], &[&token("newcomer"), TTL])
            },
        ],
        "renew_all" => {
            &[|w| reading(w, held_with_queue, "renew_all", &[LOCK, OTHER], &["holder", TTL, "x", TTL])]
        }
        "vote" => &[|w| vote(w, free), |w| vote(w, held)],
        "redeem" => &[|w| redeem(w, held), |w| redeem(w, held_with_queue)],
        other => panic!("{other} is new: say here who is there, and what it is asked"),
    }
}

fn free(_: &mut World) {}

fn free_without_clock(w: &mut World) {
    w.scripts.run::<i64>(&["DEL", CLOCK]);
}

fn held(w: &mut World) {
    w.enters("holder", "a", "");
}

fn held_with_queue(w: &mut World) {
    held(w);
    w.enters("first", "b", "");
    w.enters("second", "c", "unfenced");
}

fn held_with_dead(w: &mut World) {
    held(w);
    w.enters("dead", "dead", "");
    w.enters("first", "b", "");
    w.enters("second", "c", "");
}

fn held_with_many_dead(w: &mut World) {
    held(w);
    for name in ["dead1", "dead2", "dead3", "dead4"] {
        w.enters(name, "dead", "");
    }
    w.enters("first", "b", "");
}

fn held_with_one_dead(w: &mut World) {
    held(w);
    w.enters("dead", "dead", "");
}

fn held_with_readers(w: &mut World) {
    held(w);
    w.enters("first", "b", "n0");
    w.enters("second", "c", "n0");
    w.enters("writer", "a", "");
}

/// The lease of the holder has ended.
fn over(w: &mut World) {
    w.scripts.run::<i64>(&["DEL", LOCK]);
    w.those.retain(|who| who.name != "holder");
}

fn over_with_queue(w: &mut World) {
    held_with_queue(w);
    over(w);
}

fn over_with_dead(w: &mut World) {
    held_with_dead(w);
    over(w);
}

fn over_with_readers(w: &mut World) {
    held_with_readers(w);
    over(w);
}

fn granted(w: &mut World) {
    held_with_dead(w);
    let release = w.leaves("holder", "0", "");
    let answer = w.run(&release).unwrap();
    w.believe(&release, &answer);
}

/// All its keys exist, and nobody else is there.
fn granted_before_dead(w: &mut World) {
    held(w);
    w.enters("first", "b", "");
    w.enters("dead", "dead", "");
    let release = w.leaves("holder", "0", "");
    let answer = w.run(&release).unwrap();
    w.believe(&release, &answer);
}

fn one_reader_before_dead(w: &mut World) {
    one_reader(w);
    w.enters("dead", "dead", "");
    w.scripts.run::<()>(&["SET", CLAIM, "a", "PX", "60000"]);
}

fn one_reader(w: &mut World) {
    w.enters("reader", "a", "n0");
}

fn two_readers(w: &mut World) {
    one_reader(w);
    w.enters("other", "b", "n0");
}

fn one_reader_with_queue(w: &mut World) {
    one_reader(w);
    w.enters("first", "b", "");
    w.enters("second", "c", "n0");
}

fn readers_and_writer(w: &mut World) {
    two_readers(w);
    w.enters("writer", "c", "");
    w.enters("behind", "b", "n0");
}

fn permits_are_set(w: &mut World) {
    w.scripts.run::<()>(&["SET", PERMITS, "2"]);
}

/// As many as an operator allows.
fn two_permits_with_queue(w: &mut World) {
    w.scripts.run::<()>(&["SET", PERMITS, "2"]);
    w.enters("one", "a", "n5");
    w.enters("two", "b", "n3");
    w.enters("first", "c", "n5");
    w.enters("second", "b", "n5");
}

fn once_with_waiters(w: &mut World) {
    w.enters("holder", "a", "once");
    w.enters("first", "b", "once");
    w.enters("second", "c", "once");
}

/// A body that has a result, which the newcomer cannot decode.
fn runs_again(w: &mut World) -> Request {
    let record = format!("-|d|1790000000000|{:0>32}|host:1/1790000000/m::f|{RESULT}", 1);
    w.scripts.run::<()>(&["SET", ONCE, &record, "PX", DAY]);
    w.comes("holder", "a", "once");
    let mut request = w.asks("holder", "join");
    let digest: String = w.scripts.run(&["EVAL", "return redis.sha1hex(ARGV[1])", "0", RESULT]);
    request.arguments.push(digest);
    request
}

/// It has failed, so the result before it is kept.
fn finish_again(w: &mut World, script: &'static str) -> Request {
    let request = runs_again(w);
    let answer = w.run(&request).unwrap();
    w.believe(&request, &answer);
    Request { script, ..w.leaves("holder", "0", "undone") }
}

fn renew_once(w: &mut World, keys: &[&'static str], how: &str) -> Request {
    once_with_waiters(w);
    let token = token("holder");
    other("renew_once", "holder", Effect::Nothing, keys, &[&token, TTL, how, DAY, &runner(&token)])
}

fn newcomer(w: &mut World, there: fn(&mut World), kind: &'static str, how: &str) -> Request {
    there(w);
    w.comes("newcomer", "a", kind);
    w.asks("newcomer", how)
}

fn again(w: &mut World, there: fn(&mut World), name: &str) -> Request {
    there(w);
    w.asks(name, "again")
}

fn release(w: &mut World, there: fn(&mut World), name: &str, left_free: &str) -> Request {
    there(w);
    w.leaves(name, left_free, "")
}

fn finish(w: &mut World, script: &'static str, how: &str) -> Request {
    once_with_waiters(w);
    Request { script, ..w.leaves("holder", "0", how) }
}

fn of_the_holder(w: &mut World, there: fn(&mut World), script: &'static str, behind: &[&str]) -> Request {
    there(w);
    let token = w.who("holder").token.clone();
    let arguments: Vec<_> = std::iter::once(&*token).chain(behind.iter().copied()).collect();
    other(script, "holder", Effect::Nothing, &all_keys(), &arguments)
}

fn texts(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

fn downgrade(w: &mut World, there: fn(&mut World)) -> Request {
    there(w);
    let token = w.who("holder").token.clone();
    let arguments = [&token, TTL, "1700000000000001", "a", TTL, "", "n0", ""];
    other("downgrade", "holder", Effect::Nothing, &all_keys()[..5], &arguments)
}

fn leaving(w: &mut World, there: fn(&mut World), script: &'static str) -> Request {
    there(w);
    other(script, "holder", Effect::Leaves, &[LOCK], &[&token("holder")])
}

/// `holder` among the arguments stands for its token.
fn reading(
    w: &mut World,
    there: fn(&mut World),
    script: &'static str,
    keys: &[&'static str],
    arguments: &[&str],
) -> Request {
    there(w);
    let holder = token("holder");
    let arguments: Vec<_> = arguments.iter().map(|it| if *it == "holder" { &holder } else { *it }).collect();
    other(script, "nobody", Effect::Nothing, keys, &arguments)
}

fn taken_away(w: &mut World, there: fn(&mut World), script: &'static str) -> Request {
    there(w);
    other(script, "nobody", Effect::TakesAway, &all_keys(), &["", "0", "0", "", "0", ""])
}

/// By an operator whose process has an inbox of its own.
fn revoked(w: &mut World, there: fn(&mut World), name: &'static str) -> Request {
    there(w);
    other("revoke", name, Effect::Leaves, &all_keys(), &[&token(name), "0", "0", "d", "", ""])
}

fn sets_permits(w: &mut World, there: fn(&mut World), to: &str) -> Request {
    there(w);
    other("set_permits", "nobody", Effect::Nothing, &all_keys(), &[to, "", "", "d", "", ""])
}

fn passed_on(w: &mut World, how: &str, ttl_in_places: &str) -> Request {
    w.enters("holder", "a", "unfenced");
    w.enters("first", "a", "unfenced");
    w.enters("second", "c", "unfenced");
    let [from, to] = [token("holder"), token("first")];
    other("pass_on", "first", Effect::TakesOver, &all_keys(), &[&from, TTL, how, "a", ttl_in_places, &to])
}

fn tick(w: &mut World, there: fn(&mut World)) -> Request {
    there(w);
    w.comes("newcomer", "a", "");
    let Request { mut arguments, .. } = w.asks("newcomer", "join");
    arguments.extend(["", "3600000", "0", DAY, DAY, "record"].map(str::to_owned));
    let keys = vec![LOCK, QUEUE, CLOCK, CLAIM, HOLDERS, PERMITS, TICK];
    Request { script: "tick", by: "newcomer", effect: Effect::Asks, keys, arguments }
}

fn end_tick(w: &mut World, there: fn(&mut World), script: &'static str, how: &str) -> Request {
    there(w);
    let now: Vec<String> = w.scripts.run(&["TIME"]);
    let tick = format!("{}000", now[0]);
    w.scripts.run::<()>(&["SET", TICK, &format!("{tick}|{}", token("holder")), "PX", DAY]);
    let Request { mut arguments, .. } = w.leaves("holder", "0", "");
    arguments.extend([how, &tick, DAY, "5"].map(str::to_owned));
    let keys = vec![LOCK, QUEUE, CLOCK, CLAIM, HOLDERS, PERMITS, TICK];
    Request { script, by: "holder", effect: Effect::Leaves, keys, arguments }
}

fn all_of_two(w: &mut World, there: fn(&mut World)) -> Request {
    there(w);
    w.comes("newcomer", "a", "");
    let token = token("newcomer");
    let of_one = [&*token, TTL, "join", "100"];
    let arguments: Vec<_> = ["a", ""].into_iter().chain(of_one).chain(of_one).collect();
    let of_the_other =
        ["lock:l", "lock:l%queue", "lock:l%queue%claim", "lock:l%queue%holders", "lock:l%queue%permits"];
    let keys: Vec<_> =
        [LOCK, QUEUE, CLAIM, HOLDERS, PERMITS].into_iter().chain(of_the_other).chain([CLOCK]).collect();
    other("acquire_all", "newcomer", Effect::Asks, &keys, &arguments)
}

fn vote(w: &mut World, there: fn(&mut World)) -> Request {
    there(w);
    w.comes("newcomer", "a", "");
    let arguments = [&*token("newcomer"), TTL, "1800000000000000", ""];
    other("vote", "newcomer", Effect::Tries, &[LOCK, CLOCK], &arguments)
}

/// The holder has left it to whoever has the ticket.
fn redeem(w: &mut World, there: fn(&mut World)) -> Request {
    there(w);
    w.comes("newcomer", "a", "");
    let ticket = token("holder");
    let arguments = [&*token("newcomer"), TTL, "0", "a", "0", "", "", &ticket];
    other("redeem", "newcomer", Effect::TakesOver, &[LOCK, QUEUE, CLOCK, CLAIM], &arguments)
}

/// The command with this number fails. False when there are not so many.
fn fails_at(w: &mut World, scenario: Scenario, nth: usize, fails: Fails, sharded: bool) -> bool {
    w.reset();
    let (request, undoes) = (scenario(w), fails != Fails::ThisAndLater);
    let was_there = w.those.clone();
    let has_result = |w: &mut World| {
        w.scripts.run::<Option<String>>(&["GET", ONCE]).is_some_and(|record| record.ends_with(RESULT))
    };
    let was_stored = has_result(w);
    w.scripts.run::<()>(&["SET", "test:fails_at", &nth.to_string()]);
    let how = match fails {
        Fails::One => "one",
        Fails::ThisAndLater => "lasts",
        Fails::Missing => "moves",
    };
    w.scripts.run::<()>(&["SET", "test:how", how]);
    // A node whose slot moves runs no script unless all keys exist that its client names.
    let named = if request.is_counted() { 6 } else { 4 };
    let frees = fails == Fails::Missing
        && request.effect == Effect::Leaves
        && w.holds(request.by)
        && request.keys.iter().take(named).all(|key| w.scripts.run::<i64>(&["EXISTS", key]) == 1);
    let answer = w.run_script(request.script, true, sharded, &request.keys, &request.arguments);
    let failed: i64 = w.scripts.run(&["DEL", "test:failed"]);
    w.scripts.run::<i64>(&["DEL", "test:fails_at", "test:how"]);
    let state = w.check(Some(&request), undoes);
    // Where it was answered as if nothing had failed, that is so.
    if matches!(request.effect, Effect::Asks | Effect::Tries | Effect::TakesOver)
        && answer.is_ok_and(|answer| request.is_granted_by(&answer))
    {
        let token = &was_there.iter().find(|who| who.name == request.by).unwrap().token;
        assert!(state.inside.contains_key(token), "granted, and it is not inside: {state:?}");
    }
    if frees {
        let token = &was_there.iter().find(|who| who.name == request.by).unwrap().token;
        let is_free = !state.inside.contains_key(token) && (!state.is_counted() || !state.inside.is_empty());
        assert!(is_free, "whoever has released has the lock: {state:?}");
    }
    let answer = w.run(&request).unwrap_or_else(|error| panic!("the same request fails again: {error}"));
    w.believe(&request, &answer);
    // Nobody waits for the second lock of a call for two.
    let other: Option<String> = w.scripts.run(&["GET", OTHER]);
    assert!(other.is_none_or(|other| was_there.iter().any(|who| other.starts_with(&who.token))));
    w.scripts.run::<i64>(&["DEL", OTHER]);
    assert!(!was_stored || has_result(w), "the result of a body is gone");
    w.check(None, undoes);
    w.drain(undoes);
    failed == 1
}

/// What is wrong with these scripts: `most` of it.
fn wrong_in(names: &[String], most: usize) -> Vec<String> {
    let (mut w, mut wrong) = (World::start(), Vec::new());
    for name in names {
        for (number, scenario) in scenarios(name).iter().enumerate() {
            let ways = [Fails::One, Fails::ThisAndLater, Fails::Missing];
            for (fails, sharded) in ways.into_iter().flat_map(|way| [(way, false), (way, true)]) {
                for nth in 1.. {
                    assert!(nth < 200, "{name} does not end");
                    if wrong.len() == most {
                        return wrong;
                    }
                    let run = || fails_at(&mut w, *scenario, nth, fails, sharded);
                    let panic = match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
                        Ok(true) => continue,
                        Ok(false) => break,
                        Err(panic) => panic,
                    };
                    let words = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                    let kind = if sharded { "in a Cluster" } else { "on one server" };
                    wrong.push(format!(
                        "{name}, scenario {number} {kind}, command {nth}, {fails:?}: {words:.300}"
                    ));
                    if fails == Fails::Missing {
                        break;
                    }
                }
            }
        }
    }
    wrong
}

fn each_of(part: usize) {
    let names = all_scripts();
    assert!(names.len() >= 30, "{names:?}");
    let names: Vec<_> = names.into_iter().skip(part).step_by(2).collect();
    let wrong = wrong_in(&names, 100);
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn each_script_is_safe_to_fail_at_each_of_its_commands() {
    each_of(0);
}

/// In a thread of its own.
#[test]
fn each_other_script_is_safe_to_fail_at_each_of_its_commands() {
    each_of(1);
}

/// For the mistakes that these find.
pub(crate) fn those_that_enter_and_leave() {
    let wrong = wrong_in(&["acquire_counted", "release"].map(str::to_owned), 1);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// As `those_that_enter_and_leave`.
pub(crate) fn those_that_downgrade() {
    let wrong = wrong_in(&["downgrade".to_owned()], 1);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
