use std::borrow::Cow;
use std::fmt::Display;

use redlocked::{LockError, distributed_lock};

const TENANT: &str = "acme";
static REGION: &str = "eu";

struct Order {
    id: u64,
    parts: (u8, (u8, u8)),
}

#[distributed_lock(key = "no placeholder at all")]
fn constant() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "{{{id}}} {id:04} {id:>8} {id:#x} {id:?} {TENANT} {REGION}")]
fn specs(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = r##"{order.id:04}:"{order.parts.1.0}":{order.id}"##)]
fn fields(order: &Order) -> Result<u64, LockError> {
    Ok(order.id + u64::from(order.parts.0))
}

#[distributed_lock(key = "tab-free \u{e9} \\ {id}")]
fn escapes(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "\
    {id}")]
fn continued(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = TENANT)]
fn a_constant() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = format!("{}:{}", order.id, TENANT))]
fn formatted(order: Order) -> Result<u64, LockError> {
    Ok(order.id)
}

#[distributed_lock(key = concat!("a", ":", "b"))]
fn concatenated() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = name)]
fn borrowed(name: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = name)]
fn owned(name: String) -> Result<String, LockError> {
    Ok(name)
}

#[distributed_lock(key = name)]
fn cow(name: Cow<'_, str>) -> Result<Cow<'_, str>, LockError> {
    Ok(name)
}

#[distributed_lock(key = if *order > 1 { "many" } else { "one" })]
fn conditional(order: &u64) -> Result<u64, LockError> {
    Ok(*order)
}

#[distributed_lock(key = "{a}:{b}:{c}:{d}")]
fn values(a: impl Display, b: &mut u8, c: &&str, d: Box<dyn Display>) -> Result<(), LockError> {
    *b += 1;
    Ok(())
}

#[test]
fn compiles() {
    let _ = (constant, specs, fields, escapes, continued, a_constant, formatted, concatenated);
    let _ = (borrowed, owned, cow, conditional);
    let _ = |count: &mut u8| values(1, count, &"c", Box::new(2));
}
