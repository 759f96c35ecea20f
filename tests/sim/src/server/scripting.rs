//! Lua 5.1, as Redis runs it: one interpreter for all servers of a thread.
//!
//! The server that executes a script lends its state to the interpreter until the script is over.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::mem::swap;

use mlua::{ChunkMode, Function, HookTriggers, Lua, LuaOptions, MultiValue, StdLib, Table, Value};

use super::client::ClientId;
use super::commands;
use super::errors::ErrorReply;
use super::numbers;
use super::resp::{Bytes, Reply};
use super::state::State;
use super::version::Version;

/// In front of all scripts. `...` reads an error of a command.
const PRELUDE: &str = "
    local raw, words = pcall, ...
    local function plain(ok, first, ...)
      if not ok and type(first) == 'userdata' then first = words(first) end
      return ok, first, ...
    end
    function pcall(f, ...) return plain(raw(f, ...)) end
    setmetatable(_G, {
      __index = function(_, name)
        error(\"Script attempted to access nonexistent global variable '\" .. tostring(name) .. \"'\", 2)
      end,
      __newindex = function() error('Attempt to modify a readonly table', 2) end,
    })
";

/// Instructions after which a script is looked at. A script that has gone on for all of them is
/// stopped: a real server would be busy forever.
const LONG: u32 = 5_000_000;

thread_local! {
    /// How many scripts have begun, and how many had when one was last looked at.
    static BEGUN: Cell<u64> = const { Cell::new(0) };
    static LOOKED_AT: Cell<u64> = const { Cell::new(0) };
    static INTERPRETER: Result<Interpreter, String> = Interpreter::new().map_err(|error| error.to_string());
    static EXECUTION: RefCell<Execution> = RefCell::default();
}

struct Interpreter {
    lua: Lua,
    globals: Table,
    /// By the digest of what is executed.
    compiled: RefCell<BTreeMap<String, Function>>,
}

/// The server whose script is running; another state while none is.
#[derive(Default)]
struct Execution {
    state: State,
    client: Option<ClientId>,
    has_written: bool,
}

/// A compiled script, under the digest of what the client has sent.
pub(super) struct Chunk {
    pub(super) digest: String,
    function: Function,
}

impl Interpreter {
    fn new() -> mlua::Result<Self> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::default())?;
        let redis = lua.create_table()?;
        redis.set("call", lua.create_function(|lua, words| call(lua, &words, true))?)?;
        redis.set("pcall", lua.create_function(|lua, words| call(lua, &words, false))?)?;
        redis
            .set("error_reply", lua.create_function(|lua, words: mlua::String| error_reply(lua, &words))?)?;
        let status = |lua: &Lua, words: Value| single(lua, "ok", words);
        redis.set("status_reply", lua.create_function(status)?)?;
        let digest = |lua: &Lua, text: mlua::String| lua.create_string(digest_of(&text.as_bytes()));
        redis.set("sha1hex", lua.create_function(digest)?)?;
        redis.set("replicate_commands", lua.create_function(|_, ()| Ok(true))?)?;
        redis.set("log", lua.create_function(|_, _: MultiValue| Ok(()))?)?;
        lua.set_global_hook(HookTriggers::new().every_nth_instruction(LONG), |_, _| stop_endless())?;
        let globals = lua.globals();
        globals.set("redis", redis)?;
        lua.load(PRELUDE).call::<()>(lua.create_function(|lua, error: Value| words_of(lua, error))?)?;
        Ok(Self { lua, globals, compiled: RefCell::default() })
    }

    fn function(&self, source: &str) -> Result<Function, String> {
        let digest = digest_of(source.as_bytes());
        if let Some(function) = self.compiled.borrow().get(&digest) {
            return Ok(function.clone());
        }
        let chunk = self.lua.load(source).set_name("@user_script").set_mode(ChunkMode::Text);
        let function = chunk.into_function().map_err(|error| match error {
            mlua::Error::SyntaxError { message, .. } => message,
            other => other.to_string(),
        })?;
        self.compiled.borrow_mut().insert(digest, function.clone());
        Ok(function)
    }

    fn run(&self, chunk: &Chunk, keys: &[Bytes], arguments: &[Bytes]) -> mlua::Result<Reply> {
        self.globals.raw_set("KEYS", self.list(keys)?)?;
        self.globals.raw_set("ARGV", self.list(arguments)?)?;
        let value: Value = chunk.function.call(())?;
        reply(&value)
    }

    fn list(&self, items: &[Bytes]) -> mlua::Result<Table> {
        let list = self.lua.create_table_with_capacity(items.len(), 0)?;
        for (index, item) in items.iter().enumerate() {
            list.raw_set(index + 1, self.lua.create_string(item)?)?;
        }
        Ok(list)
    }
}

impl Chunk {
    /// `digest`: that of the script that was sent for this one.
    pub(super) fn compile(digest: &str, source: &str) -> Result<Self, String> {
        INTERPRETER.with(|interpreter| {
            let interpreter = interpreter.as_ref().map_err(Clone::clone)?;
            Ok(Self { digest: digest.to_owned(), function: interpreter.function(source)? })
        })
    }
}

/// As `EVALSHA` names a script. Clients send the same few scripts again and again, so their digests
/// are kept.
pub(super) fn digest_of(source: &[u8]) -> String {
    const KEPT: usize = 200;
    thread_local! {
        static DIGESTS: RefCell<BTreeMap<Bytes, String>> = RefCell::default();
    }
    DIGESTS.with_borrow_mut(|digests| {
        if let Some(digest) = digests.get(source) {
            return digest.clone();
        }
        let digest = sha1_smol::Sha1::from(source).digest().to_string();
        if digests.len() < KEPT {
            digests.insert(source.to_vec(), digest.clone());
        }
        digest
    })
}

/// Executes a script of a client.
pub(super) fn run(
    state: &mut State,
    client: ClientId,
    chunk: &Chunk,
    keys: &[Bytes],
    arguments: &[Bytes],
) -> Result<Reply, ErrorReply> {
    let version = state.version;
    BEGUN.set(BEGUN.get() + 1);
    lend(state, Some(client));
    let outcome = INTERPRETER.with(|interpreter| match interpreter {
        Ok(interpreter) => {
            interpreter.run(chunk, keys, arguments).map_err(|error| told(&error, &chunk.digest, version))
        }
        Err(error) => Err(error.clone()),
    });
    lend(state, None);
    outcome.map_err(ErrorReply)
}

fn stop_endless() -> mlua::Result<mlua::VmState> {
    let running = BEGUN.get();
    if LOOKED_AT.replace(running) == running {
        return Err(mlua::Error::runtime("Script killed by user with SCRIPT KILL..."));
    }
    Ok(mlua::VmState::Continue)
}

/// The state goes to the interpreter, or back.
fn lend(state: &mut State, client: Option<ClientId>) {
    EXECUTION.with_borrow_mut(|execution| {
        swap(&mut execution.state, state);
        execution.client = client;
        execution.has_written = false;
    });
}

// What scripts call.

/// The error of a command in a script.
#[derive(Debug)]
struct Raised {
    words: String,
    line: usize,
}

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl std::error::Error for Raised {}

fn call(lua: &Lua, words: &MultiValue, raises: bool) -> mlua::Result<Value> {
    let words: Option<Vec<Bytes>> = words.iter().map(word).collect();
    let outcome = EXECUTION.with_borrow_mut(|Execution { state, client, has_written }| {
        let line = || line_of_caller(lua);
        match client {
            Some(client) => commands::run_in_script(state, *client, words.as_deref(), has_written, line),
            None => Err(ErrorReply::from("ERR no script is running")),
        }
    });
    match outcome {
        Ok(reply) => value(lua, reply),
        Err(ErrorReply(words)) if raises => {
            Err(mlua::Error::external(Raised { words, line: line_of_caller(lua) }))
        }
        Err(ErrorReply(words)) => single(lua, "err", Value::String(lua.create_string(words)?)),
    }
}

/// Returns the line of the script, from 1.
fn line_of_caller(lua: &Lua) -> usize {
    let mut line = None;
    lua.inspect_stack(1, |caller| line = caller.current_line());
    line.unwrap_or(0)
}

fn word(value: &Value) -> Option<Bytes> {
    match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        Value::Integer(number) => Some(number.to_string().into_bytes()),
        Value::Number(number) => Some(numbers::exact(*number).into_bytes()),
        _ => None,
    }
}

fn single(lua: &Lua, name: &str, value: Value) -> mlua::Result<Value> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set(name, value)?;
    Ok(Value::Table(table))
}

/// From Redis 7.0 on, a single word gets a code in front.
fn error_reply(lua: &Lua, words: &mlua::String) -> mlua::Result<Value> {
    let words = words.to_string_lossy();
    let since_7 = EXECUTION.with_borrow(|execution| execution.state.version.is_7_or_later());
    let words = if since_7 && !words.contains(' ') { format!("ERR {words}") } else { words };
    single(lua, "err", Value::String(lua.create_string(words)?))
}

/// The text of an error that a script has caught.
fn words_of(lua: &Lua, error: Value) -> mlua::Result<Value> {
    let words = match &error {
        Value::Error(error) => match raised(error) {
            Some(raised) => raised.words.clone(),
            None => error.to_string(),
        },
        _ => return Ok(error),
    };
    lua.create_string(words).map(Value::String)
}

fn raised(error: &mlua::Error) -> Option<&Raised> {
    match error {
        mlua::Error::CallbackError { cause, .. } => raised(cause),
        mlua::Error::ExternalError(error) => error.downcast_ref(),
        _ => None,
    }
}

/// The reply to a client whose script has failed.
fn told(error: &mlua::Error, digest: &str, version: Version) -> String {
    let (words, line) = match (raised(error), error) {
        (Some(Raised { words, line }), _) => (words.clone(), *line),
        (None, mlua::Error::RuntimeError(message)) => {
            let words = message.split("\nstack traceback:").next().unwrap_or_default();
            let line = words.strip_prefix("user_script:").and_then(|at| at.split(':').next()?.parse().ok());
            let words = if version.is_7_or_later() { format!("ERR {words}") } else { words.to_owned() };
            (words, line.unwrap_or(0))
        }
        (None, other) => (format!("ERR {other}"), 0),
    };
    match version {
        Version::Redis5 | Version::Redis62 => {
            let end = if version == Version::Redis5 { " " } else { "" };
            format!("ERR Error running script (call to f_{digest}): @user_script:{line}: {words}{end}")
        }
        Version::Valkey9 => format!("{words} script: on @user_script:{line}."),
        _ => format!("{words} script: {digest}, on @user_script:{line}."),
    }
}

// Values.

fn value(lua: &Lua, reply: Reply) -> mlua::Result<Value> {
    Ok(match reply {
        Reply::Status(status) => single(lua, "ok", Value::String(lua.create_string(status)?))?,
        Reply::Said(status) => single(lua, "ok", Value::String(lua.create_string(status)?))?,
        Reply::Error(words) => single(lua, "err", Value::String(lua.create_string(words)?))?,
        #[expect(clippy::cast_precision_loss, reason = "a number of Lua is a double")]
        Reply::Integer(number) => Value::Number(number as f64),
        Reply::Bulk(bytes) => Value::String(lua.create_string(bytes)?),
        Reply::Verbatim(text) | Reply::Score(text) => Value::String(lua.create_string(text)?),
        Reply::Nil | Reply::NilArray | Reply::Each(_) | Reply::Later => Value::Boolean(false),
        Reply::Array(items) | Reply::Map(items) | Reply::Push(items) => {
            let list = lua.create_table_with_capacity(items.len(), 0)?;
            for (index, item) in items.into_iter().enumerate() {
                list.raw_set(index + 1, value(lua, item)?)?;
            }
            Value::Table(list)
        }
    })
}

fn reply(value: &Value) -> mlua::Result<Reply> {
    Ok(match value {
        Value::Integer(number) => Reply::Integer(*number),
        #[expect(clippy::cast_possible_truncation, reason = "Redis cuts off the fraction")]
        Value::Number(number) => Reply::Integer(*number as i64),
        Value::String(text) => Reply::Bulk(text.as_bytes().to_vec()),
        Value::Boolean(true) => Reply::Integer(1),
        Value::Table(table) => {
            if let Value::String(words) = table.raw_get("err")? {
                return Ok(Reply::Error(words.to_string_lossy()));
            }
            if let Value::String(status) = table.raw_get("ok")? {
                return Ok(Reply::Said(status.as_bytes().to_vec()));
            }
            let mut items = Vec::new();
            loop {
                match table.raw_get(items.len() + 1)? {
                    Value::Nil => break,
                    item => items.push(reply(&item)?),
                }
            }
            Reply::Array(items)
        }
        _ => Reply::Nil,
    })
}

#[cfg(test)]
mod tests {
    use crate::server::{Server, ServerSettings, Version};

    #[test]
    fn a_script_without_an_end_is_stopped_and_no_other_is() {
        let mut server = Server::new(Version::Redis70, ServerSettings::default());
        for _ in 0..3 {
            let said = server.run(0, &["EVAL", "while true do end", "0"]);
            assert!(said.starts_with(b"-ERR") && said.windows(6).any(|word| word == b"killed"), "{said:?}");
        }
        let count = "local sum = 0 for i = 1, 10000 do sum = sum + 1 end return sum";
        for _ in 0..2000 {
            assert_eq!(server.run(0, &["EVAL", count, "0"]), b":10000\r\n");
        }
    }
}
