//! Primary and replicas.

use super::super::client::Waiting;
use super::super::replication::Role;
use super::super::resp::Reply;
use super::{Answer, Call};

pub(super) fn role(call: &mut Call<'_>) -> Answer {
    if call.state.settings.sentinel {
        let names = call.state.primaries.keys().map(|name| Reply::text(name)).collect();
        return Ok(Reply::Array(vec![Reply::text("sentinel"), Reply::Array(names)]));
    }
    let offset = |offset: u64| Reply::Integer(i64::try_from(offset).unwrap_or(i64::MAX));
    Ok(Reply::Array(match &call.state.role {
        Role::Primary { replicas } => {
            let each = replicas.iter().map(|replica| {
                Reply::Array(vec![
                    Reply::text(&replica.host),
                    Reply::text(&replica.port.to_string()),
                    Reply::text(&replica.acknowledged.to_string()),
                ])
            });
            vec![Reply::text("master"), offset(call.state.offset), Reply::Array(each.collect())]
        }
        Role::Replica { host, port, link_is_up, .. } => {
            let (link, offset) = if *link_is_up {
                ("connected", offset(call.state.offset))
            } else {
                ("connect", Reply::Integer(-1))
            };
            vec![
                Reply::text("slave"),
                Reply::text(host),
                Reply::Integer((*port).into()),
                Reply::text(link),
                offset,
            ]
        }
    }))
}

/// `WAIT replicas milliseconds`: 0 ms wait forever.
pub(super) fn wait(call: &mut Call<'_>) -> Answer {
    if !call.state.is_primary() {
        let since = if call.version().is_valkey() { "" } else { "since Redis 4.0 " };
        return Err(format!(
            "ERR WAIT cannot be used with replica instances. Please also note that {since}if a replica is configured to \
             be writable (which is not the default) writes to replicas are just local and are not propagated."
        )
        .into());
    }
    let replicas = usize::try_from(call.integer(1)?).unwrap_or(0);
    let Ok(millis) = u64::try_from(call.integer(2)?) else {
        return Err("ERR timeout is negative".into());
    };
    let (now, offset) = (call.state.now, call.me()?.written);
    let reached = call.state.replicas_with(offset);
    if reached >= replicas {
        return Ok(Reply::count(reached));
    }
    let until = (millis > 0).then(|| now + millis * 1000);
    call.me()?.waits = Some(Waiting { replicas, offset, until });
    Ok(Reply::Later)
}
