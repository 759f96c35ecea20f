//! Publish and subscribe, plain and sharded.

use super::super::client::{Client, ClientId};
use super::super::pattern;
use super::super::pubsub::Channels;
use super::super::resp::{Bytes, Reply};
use super::super::state::State;
use super::{Answer, Call};
use std::collections::BTreeSet;

/// A kind of subscription: its words, where a client has it, and where the server has it.
struct Kind {
    join: &'static str,
    leave: &'static str,
    of_client: fn(&mut Client) -> &mut BTreeSet<Bytes>,
    of_server: fn(&mut State) -> &mut Channels,
    count: fn(&Client) -> usize,
}

const PLAIN: Kind = Kind {
    join: "subscribe",
    leave: "unsubscribe",
    of_client: |client| &mut client.channels,
    of_server: |state| &mut state.channels,
    count: |client| client.channels.len() + client.patterns.len(),
};
const PATTERN: Kind = Kind {
    join: "psubscribe",
    leave: "punsubscribe",
    of_client: |client| &mut client.patterns,
    of_server: |state| &mut state.patterns,
    count: PLAIN.count,
};
const SHARDED: Kind = Kind {
    join: "ssubscribe",
    leave: "sunsubscribe",
    of_client: |client| &mut client.sharded,
    of_server: |state| &mut state.sharded,
    count: |client| client.sharded.len(),
};

pub(super) fn subscribe(call: &mut Call<'_>) -> Answer {
    join(call, &PLAIN)
}

pub(super) fn psubscribe(call: &mut Call<'_>) -> Answer {
    join(call, &PATTERN)
}

pub(super) fn ssubscribe(call: &mut Call<'_>) -> Answer {
    join(call, &SHARDED)
}

fn join(call: &mut Call<'_>, kind: &Kind) -> Answer {
    let (client, mut replies) = (call.client, Vec::new());
    for channel in &call.words[1..] {
        let me = call.me()?;
        (kind.of_client)(me).insert(channel.clone());
        replies.push(told(kind.join, Reply::Bulk(channel.clone()), (kind.count)(me)));
        (kind.of_server)(call.state).join(channel, client);
    }
    Ok(Reply::Each(replies))
}

pub(super) fn unsubscribe(call: &mut Call<'_>) -> Answer {
    leave(call, &PLAIN)
}

pub(super) fn punsubscribe(call: &mut Call<'_>) -> Answer {
    leave(call, &PATTERN)
}

pub(super) fn sunsubscribe(call: &mut Call<'_>) -> Answer {
    leave(call, &SHARDED)
}

fn leave(call: &mut Call<'_>, kind: &Kind) -> Answer {
    let (client, mut replies) = (call.client, Vec::new());
    let all = (kind.of_client)(call.me()?).clone();
    let channels: Vec<Bytes> = match &call.words[1..] {
        [] => all.into_iter().collect(),
        named => named.to_vec(),
    };
    for channel in channels {
        (kind.of_server)(call.state).leave(&channel, client);
        let me = call.me()?;
        (kind.of_client)(me).remove(&channel);
        let count = (kind.count)(me);
        replies.push(told(kind.leave, Reply::Bulk(channel), count));
    }
    if replies.is_empty() {
        let count = (kind.count)(call.me()?);
        replies.push(told(kind.leave, Reply::Nil, count));
    }
    Ok(Reply::Each(replies))
}

fn told(what: &str, channel: Reply, count: usize) -> Reply {
    Reply::Push(vec![Reply::text(what), channel, Reply::count(count)])
}

pub(super) fn publish(call: &mut Call<'_>) -> Answer {
    let (channel, message) = (&call.words[1], &call.words[2]);
    if message.starts_with(b"granted|") {
        call.state.grants.push((call.state.now, message.clone()));
    }
    let count = call.state.publish(channel, message);
    if call.state.settings.cluster {
        call.state.broadcasts.push((channel.clone(), message.clone()));
    }
    Ok(Reply::count(count))
}

pub(super) fn spublish(call: &mut Call<'_>) -> Answer {
    let (channel, message) = (&call.words[1], &call.words[2]);
    let listeners = call.state.sharded.listeners(channel);
    for listener in &listeners {
        call.state.push(*listener, message_on("smessage", channel, message));
    }
    Ok(Reply::count(listeners.len()))
}

fn message_on(kind: &str, channel: &[u8], message: &[u8]) -> Reply {
    Reply::Push(vec![Reply::text(kind), Reply::Bulk(channel.to_vec()), Reply::Bulk(message.to_vec())])
}

impl State {
    /// To the clients of this server that listen: how many they are.
    pub(in super::super) fn publish(&mut self, channel: &[u8], message: &[u8]) -> usize {
        let listeners = self.channels.listeners(channel);
        let mut count = listeners.len();
        for listener in listeners {
            self.push(listener, message_on("message", channel, message));
        }
        for (pattern, listeners) in self.patterns.matching(channel) {
            count += listeners.len();
            for listener in listeners {
                let told = [b"pmessage".to_vec(), pattern.clone(), channel.to_vec(), message.to_vec()];
                self.push(listener, Reply::Push(told.into_iter().map(Reply::Bulk).collect()));
            }
        }
        count
    }

    /// A sharded channel is elsewhere now: its listeners get a message.
    pub(in super::super) fn end_sharded(&mut self, moved: impl Fn(&[u8]) -> bool) {
        let channels: Vec<Bytes> = self.sharded.names().filter(|channel| moved(channel)).cloned().collect();
        for channel in channels {
            for listener in self.sharded.listeners(&channel) {
                self.leave_sharded(&channel, listener);
            }
        }
    }

    fn leave_sharded(&mut self, channel: &[u8], listener: ClientId) {
        self.sharded.leave(channel, listener);
        if let Some(client) = self.clients.get_mut(&listener) {
            client.sharded.remove(channel);
            let count = client.sharded.len();
            let push = told(SHARDED.leave, Reply::Bulk(channel.to_vec()), count);
            self.say(listener, &push);
        }
    }
}

/// `PUBSUB NUMSUB | SHARDNUMSUB | CHANNELS | SHARDCHANNELS | NUMPAT`
pub(super) fn pubsub(call: &mut Call<'_>) -> Answer {
    let since_7 = call.version().is_7_or_later();
    let counts = |channels: &Channels, names: &[Bytes]| {
        let each =
            names.iter().flat_map(|name| [Reply::Bulk(name.clone()), Reply::count(channels.count(name))]);
        Reply::Array(each.collect())
    };
    let list = |channels: &Channels, wanted: Option<&Bytes>| {
        let names =
            channels.names().filter(|name| wanted.is_none_or(|wanted| pattern::matches(wanted, name)));
        Reply::Array(names.cloned().map(Reply::Bulk).collect())
    };
    let names = &call.words[2..];
    match &*call.keyword(1) {
        "NUMSUB" => Ok(counts(&call.state.channels, names)),
        "SHARDNUMSUB" if since_7 => Ok(counts(&call.state.sharded, names)),
        "CHANNELS" => Ok(list(&call.state.channels, names.first())),
        "SHARDCHANNELS" if since_7 => Ok(list(&call.state.sharded, names.first())),
        "NUMPAT" => Ok(Reply::count(call.state.patterns.names().count())),
        _ => Err(call.unknown_subcommand("PUBSUB")),
    }
}
