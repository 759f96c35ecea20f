//! Sorted sets: what the queue of a lock is.

use super::super::errors::{NOT_A_FLOAT, NOT_AN_INTEGER, SYNTAX};
use super::super::numbers;
use super::super::resp::{Bytes, Reply};
use super::super::sorted_set::SortedSet;
use super::super::store::Value;
use super::{Answer, Call};

pub(super) fn zcard(call: &mut Call<'_>) -> Answer {
    let words = call.words;
    Ok(Reply::count(call.sorted_set(&words[1])?.map_or(0, SortedSet::len)))
}

pub(super) fn zscore(call: &mut Call<'_>) -> Answer {
    let (words, version) = (call.words, call.version());
    let score = call.sorted_set(&words[1])?.and_then(|set| set.score(&words[2]));
    Ok(score.map_or(Reply::Nil, |score| written(score, version.is_72_or_later())))
}

/// Redis 7.2 and later write the shortest text of a number.
fn written(score: f64, shortest: bool) -> Reply {
    Reply::Score(if shortest { numbers::shortest(score) } else { numbers::exact(score) })
}

pub(super) fn zrank(call: &mut Call<'_>) -> Answer {
    let words = call.words;
    if words.len() > 3 {
        return Err(SYNTAX.into());
    }
    let rank = call.sorted_set(&words[1])?.and_then(|set| set.rank(&words[2]));
    Ok(rank.map_or(Reply::Nil, Reply::count))
}

/// `ZADD key [NX | XX] score member …`
pub(super) fn zadd(call: &mut Call<'_>) -> Answer {
    let (database, words) = (call.database(), call.words);
    let (mut only_new, mut only_old, mut at) = (false, false, 2);
    loop {
        match &*call.keyword(at) {
            "NX" => only_new = true,
            "XX" => only_old = true,
            _ => break,
        }
        at += 1;
    }
    let pairs = words.get(at..).unwrap_or_default();
    if pairs.is_empty() || pairs.len() % 2 == 1 {
        return Err(SYNTAX.into());
    }
    if only_new && only_old {
        return Err("ERR XX and NX options at the same time are not compatible".into());
    }
    let mut scores = Vec::new();
    for pair in pairs.chunks_exact(2) {
        scores.push((numbers::float(&pair[0]).ok_or(NOT_A_FLOAT)?, &pair[1]));
    }
    if call.sorted_set(&words[1])?.is_none() {
        if only_old {
            return Ok(Reply::Integer(0));
        }
        call.state.database(database).put(&words[1], new_set());
    }
    let (mut added, mut changed) = (0, 0);
    if let Some(Value::SortedSet(set)) = call.state.database(database).value_mut(&words[1]) {
        for (score, member) in scores {
            match set.score(member) {
                None if !only_old => {
                    set.insert(member, score);
                    added += 1;
                }
                Some(before) if !only_new && before.total_cmp(&score).is_ne() => {
                    set.insert(member, score);
                    changed += 1;
                }
                _ => {}
            }
        }
    }
    if added + changed > 0 {
        call.state.on_changed(database, &words[1], call.state.writer());
    }
    Ok(Reply::Integer(added))
}

fn new_set() -> super::super::store::Entry {
    super::super::store::Entry { value: Value::SortedSet(SortedSet::default()), expires: None }
}

pub(super) fn zrem(call: &mut Call<'_>) -> Answer {
    let words = call.words;
    let removed =
        change(call, |set| words[2..].iter().filter(|member| set.remove(member).is_some()).count())?;
    Ok(Reply::count(removed.unwrap_or(0)))
}

/// Members leave a set; an empty set is none.
fn change(
    call: &mut Call<'_>,
    leave: impl FnOnce(&mut SortedSet) -> usize,
) -> Result<Option<usize>, super::ErrorReply> {
    let (database, key) = (call.database(), &call.words[1]);
    if call.sorted_set(key)?.is_none() {
        return Ok(None);
    }
    let Some(Value::SortedSet(set)) = call.state.database(database).value_mut(key) else {
        return Ok(None);
    };
    let count = leave(set);
    if set.is_empty() {
        call.state.database(database).remove(key);
    }
    if count > 0 {
        call.state.on_changed(database, key, call.state.writer());
    }
    Ok(Some(count))
}

pub(super) fn zpopmin(call: &mut Call<'_>) -> Answer {
    if call.words.len() > 3 {
        return Err(SYNTAX.into());
    }
    let (nested, shortest) = (call.speaks_resp3() && call.words.len() == 3, call.version().is_72_or_later());
    let count = match call.words.get(2) {
        None => 1,
        Some(count) => match numbers::integer(count) {
            Some(count) if count >= 0 => usize::try_from(count).unwrap_or(usize::MAX),
            _ if call.version().is_7_or_later() => {
                return Err("ERR value is out of range, must be positive".into());
            }
            Some(_) => 0,
            None => return Err(NOT_AN_INTEGER.into()),
        },
    };
    let mut popped: Vec<(f64, Bytes)> = Vec::new();
    change(call, |set| {
        while popped.len() < count
            && let Some(first) = set.pop_first()
        {
            popped.push(first);
        }
        popped.len()
    })?;
    let pairs = popped.into_iter().map(|(score, member)| [Reply::Bulk(member), written(score, shortest)]);
    Ok(Reply::Array(if nested {
        pairs.map(|pair| Reply::Array(pair.into())).collect()
    } else {
        pairs.flatten().collect()
    }))
}

/// `ZRANGE key start stop [WITHSCORES]`, by rank.
pub(super) fn zrange(call: &mut Call<'_>) -> Answer {
    let words = call.words;
    let with_scores = match words.len() {
        4 => false,
        5 if call.keyword(4) == "WITHSCORES" => true,
        _ => return Err(SYNTAX.into()),
    };
    let (start, stop) = (call.integer(2)?, call.integer(3)?);
    let (nested, shortest) = (call.speaks_resp3(), call.version().is_72_or_later());
    let Some(set) = call.sorted_set(&words[1])? else {
        return Ok(Reply::Array(Vec::new()));
    };
    let mut members = Vec::new();
    for (member, score) in set.range(start, stop) {
        let member = Reply::Bulk(member.to_vec());
        match (with_scores, nested) {
            (false, _) => members.push(member),
            (true, true) => members.push(Reply::Array(vec![member, written(score, shortest)])),
            (true, false) => members.extend([member, written(score, shortest)]),
        }
    }
    Ok(Reply::Array(members))
}

/// `ZCOUNT key min max`, inclusive.
pub(super) fn zcount(call: &mut Call<'_>) -> Answer {
    let words = call.words;
    let bound = |word: &[u8]| numbers::float(word).ok_or("ERR min or max is not a float");
    let (least, most) = (bound(&words[2])?, bound(&words[3])?);
    let within = |set: &SortedSet| set.iter().filter(|(_, score)| (least..=most).contains(score)).count();
    Ok(Reply::count(call.sorted_set(&words[1])?.map_or(0, within)))
}
