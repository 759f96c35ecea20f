//! The shop: a handler that reads the stock, thinks for a moment and writes it back, with the lock
//! and without.

use std::fmt;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use redlocked::{LockError, LockManager, distributed_lock};
use serde::{Deserialize, Serialize};

use crate::diary::Diary;
use crate::stock::Stock;

/// The state of one server.
#[derive(Clone)]
pub(crate) struct Shop {
    pub(crate) server: usize,
    pub(crate) locks: LockManager,
    pub(crate) stock: Stock,
    pub(crate) diary: Diary,
}

/// The answer to a customer who has bought an item.
#[derive(Serialize, Deserialize)]
pub(crate) struct Receipt {
    pub(crate) sku: String,
    pub(crate) server: usize,
    pub(crate) left: u32,
}

/// With the lock: one customer at a time for each `sku`, whichever server they are at.
#[distributed_lock(key = "stock:{sku}", ttl = "10s", wait = "30s", manager = shop.locks)]
pub(crate) async fn buy(
    State(shop): State<Shop>,
    Path(sku): Path<String>,
) -> Result<Json<Receipt>, ApiError> {
    sell(&shop, sku).await
}

/// Makes the purchase without the lock.
pub(crate) async fn buy_unlocked(
    State(shop): State<Shop>,
    Path(sku): Path<String>,
) -> Result<Json<Receipt>, ApiError> {
    sell(&shop, sku).await
}

/// Correct only if no other customer runs it at the same time.
async fn sell(shop: &Shop, sku: String) -> Result<Json<Receipt>, ApiError> {
    let _visit = shop.diary.enter();
    let stock = shop.stock.read(&sku).await?;
    let Some(left) = stock.checked_sub(1) else {
        return Err(ApiError::SoldOut);
    };
    // The rest of a real purchase: prices, vouchers, a look at the customer's account.
    tokio::time::sleep(Duration::from_micros(500)).await;
    shop.stock.write(&sku, left).await?;
    Ok(Json(Receipt { sku, server: shop.server, left }))
}

/// One of the two handlers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sale {
    Unlocked,
    Locked,
}

impl Sale {
    /// The path of the handler on a server.
    pub(crate) fn route(self) -> &'static str {
        match self {
            Self::Unlocked => "/unlocked/buy/",
            Self::Locked => "/buy/",
        }
    }
}

impl fmt::Display for Sale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Unlocked => "without the lock",
            Self::Locked => "with the lock",
        })
    }
}

/// Why there is no receipt.
pub(crate) enum ApiError {
    SoldOut,
    Lock(LockError),
    Stock(redis::RedisError),
}

/// The annotation needs this conversion.
impl From<LockError> for ApiError {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

impl From<redis::RedisError> for ApiError {
    fn from(error: redis::RedisError) -> Self {
        Self::Stock(error)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        match self {
            Self::SoldOut => (StatusCode::CONFLICT, "sold out".to_owned()),
            Self::Lock(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
            Self::Stock(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        }
        .into_response()
    }
}
