//! What a server says of itself.

use super::super::pattern;
use super::super::replication::Role;
use super::super::resp::Reply;
use super::super::state::State;
use super::{Answer, Call};

pub(super) fn time(call: &mut Call<'_>) -> Answer {
    let (seconds, micros) = (call.state.now / 1_000_000, call.state.now % 1_000_000);
    Ok(Reply::Array(vec![Reply::text(&seconds.to_string()), Reply::text(&micros.to_string())]))
}

/// The sections that we read.
pub(super) fn info(call: &mut Call<'_>) -> Answer {
    let wanted = call.words.get(1).map(|name| String::from_utf8_lossy(name).to_ascii_lowercase());
    let is_wanted = |name: &str| {
        wanted
            .as_deref()
            .is_none_or(|wanted| wanted == name || matches!(wanted, "all" | "default" | "everything"))
    };
    let sections = [
        ("server", server(call.state)),
        ("memory", memory(call.state)),
        ("replication", replication(call.state)),
    ];
    let texts: Vec<String> =
        sections.into_iter().filter(|(name, _)| is_wanted(name)).map(|(_, text)| text).collect();
    Ok(Reply::Verbatim(texts.join("\r\n")))
}

fn server(state: &State) -> String {
    let (settings, version) = (&state.settings, state.version);
    let numbers = if version.is_valkey() {
        format!("redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:{}\r\n", version.number())
    } else {
        format!("redis_version:{}\r\n", version.number())
    };
    let mode = settings.mode();
    let mode_field = if version.is_valkey() { "server_mode" } else { "redis_mode" };
    let up_for = state.now.saturating_sub(settings.started) / 1_000_000;
    format!(
        "# Server\r\n{numbers}{mode_field}:{mode}\r\nprocess_id:1\r\nrun_id:{}\r\ntcp_port:{}\r\nuptime_in_seconds:{up_for}\r\n",
        settings.run_id, settings.port
    )
}

fn memory(state: &State) -> String {
    let settings = &state.settings;
    format!(
        "# Memory\r\nused_memory:1000000\r\nmaxmemory:{}\r\nmaxmemory_policy:{}\r\n",
        settings.max_memory, settings.eviction
    )
}

fn replication(state: &State) -> String {
    let what = match &state.role {
        Role::Primary { replicas } => format!("role:master\r\nconnected_slaves:{}\r\n", replicas.len()),
        Role::Replica { host, port, link_is_up, .. } => {
            let link = if *link_is_up { "up" } else { "down" };
            format!("role:slave\r\nmaster_host:{host}\r\nmaster_port:{port}\r\nmaster_link_status:{link}\r\n")
        }
    };
    format!("# Replication\r\n{what}master_repl_offset:{}\r\n", state.offset)
}

/// `CONFIG GET pattern`
pub(super) fn config(call: &mut Call<'_>) -> Answer {
    if call.keyword(1) != "GET" {
        return Err(call.unknown_subcommand("CONFIG"));
    }
    let ([_, _, wanted], settings) = (call.words, &call.state.settings) else {
        return Err(call.wrong_number_of_arguments("CONFIG"));
    };
    let (max_clients, max_memory) = (settings.max_clients.to_string(), settings.max_memory.to_string());
    let (appends, syncs) = if settings.durable { ("yes", "always") } else { ("no", "everysec") };
    let directory = call.version().is_7_or_later().then_some(("appenddirname", "appendonlydir"));
    let known = [("appendonly", appends), ("appendfilename", "appendonly.aof"), ("appendfsync", syncs)]
        .into_iter()
        .chain(directory)
        .chain([
            ("maxclients", &*max_clients),
            ("maxmemory", &*max_memory),
            ("maxmemory-policy", &*settings.eviction),
        ]);
    let found = known.filter(|(name, _)| pattern::matches(wanted, name.as_bytes()));
    Ok(Reply::Map(found.flat_map(|(name, value)| [Reply::text(name), Reply::text(value)]).collect()))
}
