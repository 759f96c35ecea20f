//! Keys of any type: their expiry, their deletion, and lists of them.

use super::super::errors::{SYNTAX, WRONG_TYPE};
use super::super::pattern;
use super::super::resp::{Bytes, OK, Reply};
use super::super::store::{Value, is_over};
use super::strings::invalid_expire;
use super::{Answer, Call};

pub(super) fn del(call: &mut Call<'_>) -> Answer {
    let database = call.database();
    let removed = call.words[1..].iter().filter(|key| call.state.remove(database, key)).count();
    Ok(Reply::count(removed))
}

pub(super) fn exists(call: &mut Call<'_>) -> Answer {
    let words = call.words;
    let found = words[1..].iter().filter(|key| call.value(key).is_some()).count();
    Ok(Reply::count(found))
}

pub(super) fn kind(call: &mut Call<'_>) -> Answer {
    let words = call.words;
    Ok(Reply::Status(call.value(&words[1]).map_or("none", Value::kind)))
}

pub(super) fn pexpire(call: &mut Call<'_>) -> Answer {
    expire_in(call, 1, "pexpire")
}

pub(super) fn expire(call: &mut Call<'_>) -> Answer {
    expire_in(call, 1000, "expire")
}

fn expire_in(call: &mut Call<'_>, unit: i64, name: &str) -> Answer {
    let now = i64::try_from(call.state.now_ms()).unwrap_or(i64::MAX);
    let length = call.integer(2)?.checked_mul(unit).and_then(|length| length.checked_add(now));
    let Some(expires) = length else {
        return Err(invalid_expire(call, name).into());
    };
    // The scripts use this option alone.
    let only_later = call.words.get(3).is_some_and(|option| option.eq_ignore_ascii_case(b"GT"));
    let (database, key) = (call.database(), &call.words[1]);
    let Some(entry) = call.state.get(database, key) else {
        return Ok(Reply::Integer(0));
    };
    let ends = entry.expires.map_or(i64::MAX, |ends| i64::try_from(ends).unwrap_or(i64::MAX));
    if only_later && expires <= ends {
        return Ok(Reply::Integer(0));
    }
    match u64::try_from(expires) {
        Ok(at) if expires > now => {
            call.state.database(database).set_expiry(key, Some(at));
            call.state.on_changed(database, key, call.state.writer());
        }
        _ => {
            call.state.remove(database, key);
        }
    }
    Ok(Reply::Integer(1))
}

pub(super) fn persist(call: &mut Call<'_>) -> Answer {
    let (database, key) = (call.database(), &call.words[1]);
    if call.state.get(database, key).is_none_or(|entry| entry.expires.is_none()) {
        return Ok(Reply::Integer(0));
    }
    call.state.database(database).set_expiry(key, None);
    call.state.on_changed(database, key, call.state.writer());
    Ok(Reply::Integer(1))
}

pub(super) fn pttl(call: &mut Call<'_>) -> Answer {
    Ok(Reply::Integer(left(call)))
}

pub(super) fn ttl(call: &mut Call<'_>) -> Answer {
    let left = left(call);
    Ok(Reply::Integer(if left < 0 { left } else { (left + 500) / 1000 }))
}

/// In milliseconds; -1 without an end, -2 without the key.
fn left(call: &mut Call<'_>) -> i64 {
    let (database, now) = (call.database(), call.state.now_ms());
    match call.state.get(database, &call.words[1]) {
        None => -2,
        Some(entry) => match entry.expires {
            None => -1,
            Some(expires) => i64::try_from(expires.saturating_sub(now)).unwrap_or(i64::MAX),
        },
    }
}

pub(super) fn dbsize(call: &mut Call<'_>) -> Answer {
    let database = call.database();
    Ok(Reply::count(call.state.database(database).len()))
}

pub(super) fn flushall(call: &mut Call<'_>) -> Answer {
    call.state.flush(None);
    Ok(OK)
}

pub(super) fn flushdb(call: &mut Call<'_>) -> Answer {
    let database = call.database();
    call.state.flush(Some(database));
    Ok(OK)
}

/// Keys that have expired are passed over, and stay.
pub(super) fn keys(call: &mut Call<'_>) -> Answer {
    let (database, now) = (call.database(), call.state.now_ms());
    let live = call.state.database(database).iter().filter(|(_, entry)| !is_over(entry.expires, now));
    let wanted = live.filter(|(key, _)| pattern::matches(&call.words[1], key));
    Ok(Reply::Array(wanted.map(|(key, _)| Reply::Bulk(key.to_vec())).collect()))
}

/// `SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]`. Keys come in the order of a digest, and
/// the cursor is the next digest: so a key that exists all the time is found, whatever becomes of
/// the others.
pub(super) fn scan(call: &mut Call<'_>) -> Answer {
    let cursor = std::str::from_utf8(call.word(1)).ok().and_then(|cursor| cursor.parse::<u64>().ok());
    let Some(cursor) = cursor else {
        return Err("ERR invalid cursor".into());
    };
    let (mut wanted, mut count, mut kind) = (None, 10, None);
    let mut at = 2;
    while at < call.words.len() {
        if at + 1 == call.words.len() {
            return Err(SYNTAX.into());
        }
        match &*call.keyword(at) {
            "MATCH" => wanted = Some(call.word(at + 1).to_vec()),
            "COUNT" => {
                let given = call.integer(at + 1)?;
                count = usize::try_from(given).ok().filter(|count| *count > 0).ok_or(SYNTAX)?;
            }
            "TYPE" if call.version().speaks_resp3() => kind = Some(call.word(at + 1).to_ascii_lowercase()),
            _ => return Err(SYNTAX.into()),
        }
        at += 2;
    }
    let database = call.database();
    let all = call.state.database(database).iter();
    let mut keys: Vec<(u64, Bytes)> = all.map(|(key, _)| (digest(key), key.to_vec())).collect();
    keys.sort_unstable();
    let rest = &keys[keys.partition_point(|(digest, _)| *digest < cursor)..];
    // All keys of one digest come together.
    let end = rest
        .get(count.saturating_sub(1))
        .map_or(rest.len(), |(last, _)| rest.partition_point(|(digest, _)| digest <= last));
    let next = rest.get(end).map_or(0, |(digest, _)| *digest);
    let mut found = Vec::new();
    for (_, key) in &rest[..end] {
        let is_wanted = wanted.as_ref().is_none_or(|wanted| pattern::matches(wanted, key));
        let has_kind = |value: &Value| kind.as_ref().is_none_or(|kind| value.kind().as_bytes() == &**kind);
        if is_wanted && call.value(key).is_some_and(has_kind) {
            found.push(Reply::Bulk(key.clone()));
        }
    }
    Ok(Reply::Array(vec![Reply::text(&next.to_string()), Reply::Array(found)]))
}

/// FNV-1a, in 48 bits, and never zero.
fn digest(key: &[u8]) -> u64 {
    let sum = key
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    (sum >> 16).max(1)
}

/// Makes a key that no lock can be.
pub(super) fn lpush(call: &mut Call<'_>) -> Answer {
    let (database, words) = (call.database(), call.words);
    let mut items = match call.value(&words[1]) {
        None => Vec::new(),
        Some(Value::List(items)) => items.clone(),
        Some(_) => return Err(WRONG_TYPE.into()),
    };
    for item in &words[2..] {
        items.insert(0, item.clone());
    }
    let length = items.len();
    let expires = call.state.get(database, &words[1]).and_then(|entry| entry.expires);
    call.state.put(database, &words[1], Value::List(items), expires);
    Ok(Reply::count(length))
}

#[cfg(test)]
mod tests {
    use super::digest;

    #[test]
    fn a_digest_is_a_cursor() {
        assert!(digest(b"") > 0 && digest(b"a") != digest(b"b"));
    }
}
