//! Strings: what a lock is.

use super::super::errors::{NOT_AN_INTEGER, SYNTAX};
use super::super::numbers;
use super::super::resp::{OK, Reply};
use super::super::store::Value;
use super::{Answer, Call};

pub(super) fn get(call: &mut Call<'_>) -> Answer {
    let key = &call.words[1];
    Ok(call.text(key)?.map_or(Reply::Nil, |text| Reply::Bulk(text.clone())))
}

/// `GETRANGE key start end`, with an end that counts from the start, as the scripts ask.
pub(super) fn getrange(call: &mut Call<'_>) -> Answer {
    let place = |number: i64| usize::try_from(number).unwrap_or(0);
    let (start, end) = (place(call.integer(2)?), place(call.integer(3)?));
    let key = &call.words[1];
    let text = call.text(key)?.map_or(&[][..], Vec::as_slice);
    Ok(Reply::Bulk(text.get(start..text.len().min(end.saturating_add(1))).unwrap_or_default().to_vec()))
}

/// `SET key value [NX | XX] [EX seconds | PX milliseconds | KEEPTTL]`
pub(super) fn set(call: &mut Call<'_>) -> Answer {
    let (mut only_new, mut only_old, mut keep, mut expiry) = (false, false, false, None);
    let mut at = 3;
    while at < call.words.len() {
        match &*call.keyword(at) {
            "NX" if !only_old => only_new = true,
            "XX" if !only_new => only_old = true,
            "KEEPTTL" if call.version().speaks_resp3() => keep = true,
            unit @ ("EX" | "PX") if expiry.is_none() && at + 1 < call.words.len() => {
                at += 1;
                let length = call.integer(at)?;
                if length <= 0 {
                    return Err(invalid_expire(call, "set").into());
                }
                let unit = if unit == "EX" { 1000 } else { 1 };
                expiry = Some(call.state.now_ms() + length.unsigned_abs() * unit);
            }
            _ => return Err(SYNTAX.into()),
        }
        at += 1;
    }
    let (database, key) = (call.database(), &call.words[1]);
    let before = call.state.get(database, key).map(|entry| entry.expires);
    if only_new && before.is_some() || only_old && before.is_none() {
        return Ok(Reply::Nil);
    }
    if keep {
        expiry = before.flatten();
    }
    call.state.put(database, key, Value::Text(call.words[2].clone()), expiry);
    Ok(OK)
}

pub(super) fn invalid_expire(call: &Call<'_>, command: &str) -> String {
    if call.version().is_7_or_later() {
        format!("ERR invalid expire time in '{command}' command")
    } else {
        format!("ERR invalid expire time in {command}")
    }
}

pub(super) fn getset(call: &mut Call<'_>) -> Answer {
    let (database, key) = (call.database(), &call.words[1]);
    let before = call.text(key)?.cloned();
    call.state.put(database, key, Value::Text(call.words[2].clone()), None);
    Ok(before.map_or(Reply::Nil, Reply::Bulk))
}

pub(super) fn incr(call: &mut Call<'_>) -> Answer {
    let (database, key) = (call.database(), &call.words[1]);
    let before = match call.text(key)? {
        Some(text) => numbers::integer(text).ok_or(NOT_AN_INTEGER)?,
        None => 0,
    };
    let number = before.checked_add(1).ok_or("ERR increment or decrement would overflow")?;
    let expires = call.state.get(database, key).and_then(|entry| entry.expires);
    call.state.put(database, key, Value::Text(number.to_string().into_bytes()), expires);
    Ok(Reply::Integer(number))
}

/// Valkey 9: deletes a key if it has this value.
pub(super) fn delifeq(call: &mut Call<'_>) -> Answer {
    let words = call.words;
    delete_if(call, &words[2])
}

/// Redis 8.4: `DELEX key [IFEQ value]`.
pub(super) fn delex(call: &mut Call<'_>) -> Answer {
    match call.words {
        [_, key] => {
            let database = call.database();
            Ok(Reply::Integer(call.state.remove(database, key).into()))
        }
        [_, _, condition, value] if condition.eq_ignore_ascii_case(b"IFEQ") => delete_if(call, value),
        _ => Err(SYNTAX.into()),
    }
}

fn delete_if(call: &mut Call<'_>, value: &[u8]) -> Answer {
    let (database, key) = (call.database(), &call.words[1]);
    let is_equal = call.text(key)?.is_some_and(|text| text == value);
    Ok(Reply::Integer((is_equal && call.state.remove(database, key)).into()))
}
