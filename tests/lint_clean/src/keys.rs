//! Every part that a key can have.

use core::fmt::Display;

use redlocked::{LockError, distributed_lock};

/// Part of each key.
const TENANT: &str = "acme";

/// A newtype, as web frameworks have them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Path<T>(pub T);

/// Named fields, one of them named like a keyword.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Order {
    /// A number.
    pub id: u64,
    /// A keyword.
    pub r#type: String,
}

/// No placeholder at all.
#[distributed_lock(key = "nightly")]
pub async fn nightly() -> Result<(), LockError> {
    Ok(())
}

/// A placeholder, a format spec and a constant.
#[distributed_lock(key = "{TENANT}:{sku}:{number:04}:{sku:?}")]
pub async fn names(sku: &str, number: u32) -> Result<usize, LockError> {
    Ok(sku.len().saturating_add(usize::try_from(number).unwrap_or(0)))
}

/// Arguments that only the key uses.
#[distributed_lock(key = "{sku}:{number}")]
pub async fn only_the_key(sku: &str, number: u32) -> Result<(), LockError> {
    Ok(())
}

/// In a sync function.
#[distributed_lock(key = "{sku}:{number}")]
pub fn only_the_key_of_a_sync_function(sku: &str, number: u32) -> Result<(), LockError> {
    Ok(())
}

/// Paths of fields.
#[distributed_lock(key = "{TENANT}:{order.id}:{order.type}:{pair.0}:{{}}")]
pub async fn fields(order: &Order, pair: (u8, u8)) -> Result<u8, LockError> {
    Ok(pair.1)
}

/// Patterns.
#[distributed_lock(key = "{sku}:{id}:{first}:{whole:?}:{type}")]
pub async fn patterns(
    Path(sku): Path<String>,
    Order { id, .. }: Order,
    [first, ..]: [u8; 4],
    whole @ (_, _): (u8, u8),
    mut r#type: u8,
) -> Result<String, LockError> {
    r#type = r#type.wrapping_add(first);
    Ok(format!("{sku}{id}{whole:?}{type}"))
}

/// An expression.
#[distributed_lock(key = format!("order:{}", order.id))]
pub async fn expression(order: Order) -> Result<String, LockError> {
    Ok(order.r#type)
}

/// An operator, which needs parentheses.
#[expect(clippy::string_add, reason = "an operator is the point")]
#[distributed_lock(key = "order:".to_owned() + name)]
pub fn operator(name: &str) -> Result<usize, LockError> {
    Ok(name.len())
}

/// Generic parameters, lifetimes and `impl Trait`.
#[distributed_lock(key = "{id}:{tail}")]
pub async fn generics<'name, T, const N: usize>(
    id: &'name T,
    tail: impl Display + Send + Sync,
    list: [u8; N],
) -> Result<(&'name T, usize), LockError>
where
    T: Display + Sync + ?Sized,
{
    Ok((id, list.len()))
}

/// In a sync function.
#[distributed_lock(key = "{id}:{tail}")]
pub fn sync_generics<'name, T, const N: usize>(
    id: &'name T,
    tail: impl Display + Send + Sync,
    list: [u8; N],
) -> Result<(&'name T, usize), LockError>
where
    T: Display + Sync + ?Sized,
{
    Ok((id, list.len()))
}

/// Arguments that move into the body although it does not use them.
#[distributed_lock(key = "unused", constant_key)]
pub async fn unused(_first: String, _second: String) -> Result<u8, LockError> {
    Ok(1)
}

/// In a sync function.
#[distributed_lock(key = "unused", constant_key)]
pub fn unused_blocking(_first: String) -> Result<u8, LockError> {
    Ok(1)
}

/// The names that the expansion uses itself.
#[distributed_lock(key = "{lock}:{key}:{body}:{error}:{output}")]
pub async fn our_names(lock: u8, key: u8, body: u8, error: u8, output: u8) -> Result<[u8; 5], LockError> {
    Ok([lock, key, body, error, output])
}

/// Functions that a macro writes, with the attribute in the macro.
macro_rules! written {
    ($(#[$doc:meta] $name:ident($argument:ident): $key:literal;)*) => {
        $(
            #[$doc]
            #[distributed_lock(key = $key)]
            pub async fn $name($argument: &str) -> Result<usize, LockError> {
                Ok($argument.len())
            }
        )*
    };
}

written! {
    /// The first.
    written_by_a_macro(name): "first:{name}";
    /// The second.
    written_by_a_macro_again(other): "second:{other}";
}
