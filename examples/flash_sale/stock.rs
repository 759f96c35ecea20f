//! The number of items left, in Redis or in this process: only read and written.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands as _, RedisError};

/// The stock of each article.
#[derive(Clone)]
pub(crate) enum Stock {
    Redis(MultiplexedConnection),
    Memory(Arc<Mutex<HashMap<String, u32>>>),
}

impl Stock {
    pub(crate) async fn read(&self, sku: &str) -> Result<u32, RedisError> {
        match self {
            Self::Redis(connection) => {
                Ok(connection.clone().get::<_, Option<u32>>(stock_key(sku)).await?.unwrap_or(0))
            }
            Self::Memory(stock) => {
                Ok(stock.lock().unwrap_or_else(PoisonError::into_inner).get(sku).copied().unwrap_or(0))
            }
        }
    }

    pub(crate) async fn write(&self, sku: &str, left: u32) -> Result<(), RedisError> {
        match self {
            Self::Redis(connection) => connection.clone().set_ex(stock_key(sku), left, 600).await,
            Self::Memory(stock) => {
                stock.lock().unwrap_or_else(PoisonError::into_inner).insert(sku.to_owned(), left);
                Ok(())
            }
        }
    }
}

/// The key of the stock in Redis, for ten minutes at most. The lock is at another key,
/// `lock:stock:{sku}`.
pub(crate) fn stock_key(sku: &str) -> String {
    format!("flash-sale:stock:{sku}")
}
