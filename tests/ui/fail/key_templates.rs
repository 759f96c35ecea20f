//! Templates.

use redlocked::{LockError, distributed_lock};

#[distributed_lock(key = "stock:{sku..len}")]
async fn key_double_dot(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "")]
async fn key_empty(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku{sku}}")]
async fn key_nested_braces(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku:p}")]
async fn key_of_an_address(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:sku}")]
async fn key_stray_brace(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(
    key = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
)]
async fn key_too_long(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku")]
async fn key_unclosed(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku:q}")]
async fn key_unknown_format(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku.get(1)}")]
async fn key_with_a_call(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:${sku}")]
async fn key_with_a_dollar(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:\n{sku}")]
async fn key_with_a_line_break(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{config::SKU}")]
async fn key_with_a_path(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{0}")]
async fn key_with_a_position(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{r#type}")]
async fn key_with_a_raw_name(r#type: &str) -> Result<(), LockError> {
    let _ = r#type;
    Ok(())
}

#[distributed_lock(key = "stock:{&sku}")]
async fn key_with_a_reference(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{ sku }")]
async fn key_with_a_space(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku:width$}")]
async fn key_with_a_width_argument(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku[0]}")]
async fn key_with_an_index(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{sku+1}")]
async fn key_with_arithmetic(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{}")]
async fn key_without_a_name_in_braces(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "cell:{x}x{y}{z:02}")]
async fn key_without_a_separator(x: u32, y: u32, z: u32) -> Result<u32, LockError> {
    Ok(x + y + z)
}

#[distributed_lock(key = "stock:{}", sku)]
async fn arguments_behind_the_template(sku: &str) -> Result<usize, LockError> {
    Ok(sku.len())
}

#[distributed_lock(key = "stock:{:04}:{}", order.id, shop.name(7), ttl = "10s")]
async fn arguments_that_no_template_holds(order: &str, shop: &str) -> Result<usize, LockError> {
    Ok(order.len() + shop.len())
}

#[distributed_lock(key = "user:{user.get()?}")]
async fn question_mark(user: Option<u32>) -> Result<u32, LockError> {
    Ok(user.unwrap_or_default())
}

#[distributed_lock(keys = ["account:{from}" "account:{to}"])]
async fn keys_without_a_comma(from: u64, to: u64) -> Result<u64, LockError> {
    Ok(from + to)
}

#[distributed_lock(key = "user:{user["id"]}")]
async fn a_string_in_a_placeholder(user: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "user:{shop}:{user.get("first")?}", ttl = "10s")]
async fn a_string_in_one_of_two_placeholders(shop: &str, user: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{shop}:{a}", a = order.id)]
async fn a_named_argument(shop: &str, order: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{(shop.id)}")]
async fn parentheses(shop: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "stock:{names.get("a b")}")]
async fn key_with_a_string_and_spaces(names: &Names) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
