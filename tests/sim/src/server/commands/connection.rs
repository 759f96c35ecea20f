//! What a client says of itself.

use super::super::access::DEFAULT_USER;
use super::super::client::{Client, ClientId, TrackingMode};
use super::super::errors::{ErrorReply, NOT_AN_INTEGER, Refusal, SYNTAX};
use super::super::numbers;
use super::super::replication::Role;
use super::super::resp::{Bytes, OK, Protocol, Reply};
use super::super::state::{DATABASES, State};
use super::super::version::Version;
use super::{Answer, Call};

pub(super) fn ping(call: &mut Call<'_>) -> Answer {
    let listens = call.me().is_ok_and(|me| me.only_listens());
    match call.words {
        [_] if listens => Ok(Reply::Array(vec![Reply::text("pong"), Reply::text("")])),
        [_] => Ok(Reply::Status("PONG")),
        [_, text] if listens => Ok(Reply::Array(vec![Reply::text("pong"), Reply::Bulk(text.clone())])),
        [_, text] => Ok(Reply::Bulk(text.clone())),
        _ => Err(ErrorReply(Refusal::Arity { command: "ping".to_owned() }.words(call.version()))),
    }
}

pub(super) fn echo(call: &mut Call<'_>) -> Answer {
    Ok(Reply::Bulk(call.words[1].clone()))
}

pub(super) fn quit(call: &mut Call<'_>) -> Answer {
    call.me()?.is_closing = true;
    Ok(OK)
}

/// As if it had just connected.
pub(super) fn reset(call: &mut Call<'_>) -> Answer {
    let user = call.state.users.at_first();
    let client = call.client;
    let me = call.me()?;
    let fresh = Client {
        input: std::mem::take(&mut me.input),
        ..Client::new(client, &me.address, me.connected, user)
    };
    call.state.forget_client(client);
    call.state.clients.insert(client, fresh);
    Ok(Reply::Status("RESET"))
}

pub(super) fn select(call: &mut Call<'_>) -> Answer {
    let number = numbers::integer(call.word(1));
    let Some(number) = number else {
        let before_6 = call.version() == Version::Redis5;
        return Err(if before_6 { "ERR invalid DB index" } else { NOT_AN_INTEGER }.into());
    };
    match usize::try_from(number) {
        Ok(number) if number > 0 && call.state.settings.cluster => Err(match call.version() {
            Version::Valkey9 => "ERR DB index is out of range",
            _ => "ERR SELECT is not allowed in cluster mode",
        }
        .into()),
        Ok(number) if number < DATABASES => {
            call.me()?.database = number;
            Ok(OK)
        }
        _ => Err("ERR DB index is out of range".into()),
    }
}

const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";

pub(super) fn auth(call: &mut Call<'_>) -> Answer {
    let text = |word: &Bytes| String::from_utf8_lossy(word).into_owned();
    let (user, password) = match call.words {
        [_, password] => {
            let has_password =
                call.state.users.get(DEFAULT_USER).is_some_and(|user| user.passwords.is_some());
            if !has_password && call.version() == Version::Redis5 {
                return Err("ERR Client sent AUTH, but no password is set".into());
            }
            if !has_password {
                return Err(
                    "ERR AUTH <password> called without any password configured for the default user. Are \
                            you sure your configuration is correct?"
                        .into(),
                );
            }
            (DEFAULT_USER.to_owned(), text(password))
        }
        [_, user, password] => (text(user), text(password)),
        _ => return Err(SYNTAX.into()),
    };
    log_in(call, &user, &password)?;
    Ok(OK)
}

fn log_in(call: &mut Call<'_>, user: &str, password: &str) -> Result<(), ErrorReply> {
    if !call.state.users.accepts(user, password) {
        let before_6 = call.version() == Version::Redis5;
        return Err(if before_6 { "ERR invalid password" } else { WRONG_PASSWORD }.into());
    }
    call.me()?.user = Some(user.to_owned());
    Ok(())
}

/// `HELLO [2 | 3 [AUTH user password] [SETNAME name]]`
pub(super) fn hello(call: &mut Call<'_>) -> Answer {
    let protocol = match call.words.get(1).map(|number| numbers::integer(number)) {
        None => None,
        Some(None) => return Err("ERR Protocol version is not an integer or out of range".into()),
        Some(Some(2)) => Some(Protocol::Resp2),
        Some(Some(3)) => Some(Protocol::Resp3),
        Some(Some(_)) => return Err("NOPROTO unsupported protocol version".into()),
    };
    let (mut at, mut name) = (2, None);
    while at < call.words.len() {
        let text = |word: &Bytes| String::from_utf8_lossy(word).into_owned();
        match (&*call.keyword(at), &call.words[at + 1..]) {
            ("AUTH", [user, password, ..]) => {
                log_in(call, &text(user), &text(password))?;
                at += 3;
            }
            ("SETNAME", [given, ..]) => {
                name = Some(given.clone());
                at += 2;
            }
            (other, _) => {
                return Err(format!("ERR Syntax error in HELLO option '{}'", other.to_lowercase()).into());
            }
        }
    }
    if call.me()?.user.is_none() {
        let proto = if call.version().is_72_or_later() { "<proto> " } else { "" };
        return Err(format!(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO {proto}AUTH \
             <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the \
             same time"
        )
        .into());
    }
    let me = call.me()?;
    me.name = name.unwrap_or(std::mem::take(&mut me.name));
    me.protocol = protocol.unwrap_or(me.protocol);
    let state = &call.state;
    let server = if state.version.is_valkey() { "valkey" } else { "redis" };
    let mode = state.settings.mode();
    let role = if matches!(state.role, Role::Primary { .. }) { "master" } else { "replica" };
    let protocol = if call.speaks_resp3() { 3 } else { 2 };
    let id = i64::try_from(call.client.0).unwrap_or(i64::MAX);
    let mut fields = vec![
        ("server", Reply::text(server)),
        ("version", Reply::text(state.version.number())),
        ("proto", Reply::Integer(protocol)),
        ("id", Reply::Integer(id)),
        ("mode", Reply::text(mode)),
    ];
    if !state.settings.sentinel {
        fields.push(("role", Reply::text(role)));
    }
    fields.push(("modules", Reply::Array(Vec::new())));
    Ok(Reply::Map(fields.into_iter().flat_map(|(name, value)| [Reply::text(name), value]).collect()))
}

pub(super) fn client(call: &mut Call<'_>) -> Answer {
    let version = call.version();
    match (&*call.keyword(1), call.words.len()) {
        ("ID", 2) => Ok(Reply::Integer(i64::try_from(call.client.0).unwrap_or(i64::MAX))),
        ("INFO", 2) if version.speaks_resp3() => {
            let line = described(call.state, call.client);
            Ok(Reply::Verbatim(line))
        }
        ("LIST", 2) => {
            let ids: Vec<ClientId> = call.state.clients.keys().copied().collect();
            Ok(Reply::Verbatim(ids.into_iter().map(|id| described(call.state, id)).collect()))
        }
        ("GETNAME", 2) => {
            let name = call.me()?.name.clone();
            Ok(if name.is_empty() { Reply::Nil } else { Reply::Bulk(name) })
        }
        ("SETNAME", 3) => {
            let name = call.words[2].clone();
            if has_special_characters(&name) {
                return Err("ERR Client names cannot contain spaces, newlines or special characters.".into());
            }
            call.me()?.name = name;
            Ok(OK)
        }
        ("SETINFO", 4) if version.is_72_or_later() => set_info(call),
        ("KILL", 3..) => kill(call),
        ("TRACKING", 3..) if version.speaks_resp3() => tracking(call),
        ("CACHING", 3) if version.speaks_resp3() => caching(call),
        ("INFO" | "TRACKING" | "CACHING", _) if !version.speaks_resp3() => {
            Err(call.unknown_subcommand("CLIENT"))
        }
        ("SETINFO", _) if !version.is_72_or_later() => Err(call.unknown_subcommand("CLIENT")),
        ("ID" | "INFO" | "LIST" | "GETNAME" | "SETNAME" | "SETINFO" | "KILL" | "TRACKING" | "CACHING", _) => {
            Err(call.wrong_number_of_arguments("CLIENT"))
        }
        _ => Err(call.unknown_subcommand("CLIENT")),
    }
}

fn has_special_characters(text: &[u8]) -> bool {
    text.iter().any(|byte| !(b'!'..=b'~').contains(byte))
}

fn described(state: &State, id: ClientId) -> String {
    let Some(client) = state.clients.get(&id) else {
        return String::new();
    };
    let flags = match (client.listens(), client.tracking) {
        (true, Some(_)) => "Pt",
        (true, None) => "P",
        (false, Some(_)) => "t",
        (false, None) => "N",
    };
    let age = state.now.saturating_sub(client.connected) / 1_000_000;
    let laddr = format!("{}:{}", state.settings.host, state.settings.port);
    let laddr = if state.version.speaks_resp3() { format!(" laddr={laddr}") } else { String::new() };
    let ssub =
        if state.version.is_7_or_later() { format!(" ssub={}", client.sharded.len()) } else { String::new() };
    let user = client.user.as_deref().unwrap_or(DEFAULT_USER);
    let resp = if client.protocol == Protocol::Resp3 { 3 } else { 2 };
    format!(
        "id={} addr={}{laddr} fd={} name={} age={age} idle=0 flags={flags} db={} sub={} psub={}{ssub} multi=-1 user={user} \
         resp={resp} lib-name={} lib-ver={}\n",
        id.0,
        client.address,
        id.0 + 7,
        String::from_utf8_lossy(&client.name),
        client.database,
        client.channels.len(),
        client.patterns.len(),
        String::from_utf8_lossy(&client.library[0]),
        String::from_utf8_lossy(&client.library[1]),
    )
}

fn set_info(call: &mut Call<'_>) -> Answer {
    let (which, what) = match &*call.keyword(2) {
        name @ "LIB-NAME" => (0, name.to_owned()),
        name @ "LIB-VER" => (1, name.to_owned()),
        _ => {
            return Err(format!("ERR Unrecognized option '{}'", String::from_utf8_lossy(call.word(2))).into());
        }
    };
    let text = call.words[3].clone();
    if has_special_characters(&text) {
        return Err(format!("ERR {what} cannot contain spaces, newlines or special characters.").into());
    }
    call.me()?.library[which] = text;
    Ok(OK)
}

/// `CLIENT KILL addr`, or `CLIENT KILL [ID id] [ADDR addr] [SKIPME yes | no]`
fn kill(call: &mut Call<'_>) -> Answer {
    if let [_, _, address] = call.words {
        let found = call.state.clients.values().find(|client| client.address.as_bytes() == address);
        let Some(found) = found.map(|client| client.id) else {
            return Err("ERR No such client".into());
        };
        end(call, found);
        return Ok(OK);
    }
    let (mut id, mut address, mut skips_me) = (None, None, true);
    for pair in call.words[2..].chunks(2) {
        let [name, value] = pair else {
            return Err(SYNTAX.into());
        };
        match &*String::from_utf8_lossy(name).to_ascii_uppercase() {
            "ID" => match numbers::integer(value) {
                Some(number @ 1..) => id = Some(ClientId(number.unsigned_abs())),
                _ if call.version() == Version::Redis5 => return Err("ERR Invalid client ID".into()),
                _ => return Err("ERR client-id should be greater than 0".into()),
            },
            "ADDR" => address = Some(value.clone()),
            "SKIPME" if value.eq_ignore_ascii_case(b"yes") => skips_me = true,
            "SKIPME" if value.eq_ignore_ascii_case(b"no") => skips_me = false,
            _ => return Err(SYNTAX.into()),
        }
    }
    let me = call.client;
    let is_meant = |client: &&Client| {
        id.is_none_or(|id| client.id == id)
            && address.as_ref().is_none_or(|address| client.address.as_bytes() == address)
            && !(skips_me && client.id == me)
    };
    let meant: Vec<ClientId> = call.state.clients.values().filter(is_meant).map(|client| client.id).collect();
    for id in &meant {
        end(call, *id);
    }
    Ok(Reply::count(meant.len()))
}

/// A client that ends itself gets the reply.
fn end(call: &mut Call<'_>, id: ClientId) {
    if id != call.client {
        call.state.close_client(id);
    } else if let Ok(me) = call.me() {
        me.is_closing = true;
    }
}

/// `CLIENT TRACKING ON | OFF [OPTIN] [NOLOOP]`
fn tracking(call: &mut Call<'_>) -> Answer {
    let (mut opt_in, mut no_loop) = (false, false);
    for at in 3..call.words.len() {
        match &*call.keyword(at) {
            "OPTIN" => opt_in = true,
            "NOLOOP" => no_loop = true,
            _ => return Err(SYNTAX.into()),
        }
    }
    let mode = match &*call.keyword(2) {
        "ON" => Some(TrackingMode { opt_in, no_loop }),
        "OFF" => None,
        _ => return Err(SYNTAX.into()),
    };
    let before = call.me()?.tracking;
    if mode.zip(before).is_some_and(|(mode, before)| mode.opt_in != before.opt_in) {
        return Err("ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode.".into());
    }
    call.me()?.tracking = mode;
    Ok(OK)
}

fn caching(call: &mut Call<'_>) -> Answer {
    let opt_in = call.me()?.tracking.is_some_and(|mode| mode.opt_in);
    if !opt_in {
        return Err("ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled".into());
    }
    match &*call.keyword(2) {
        "YES" => {
            call.me()?.caching = true;
            Ok(OK)
        }
        "NO" => Err("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.".into()),
        _ => Err(SYNTAX.into()),
    }
}
