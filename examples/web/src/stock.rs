//! [`Stock`]: how many pieces the shop has.

use redis::{AsyncCommands, RedisError};

/// How many pieces of each article are left, on the Redis server of the locks. Nothing here keeps two callers apart: that
/// is what the lock is for.
#[derive(Clone, Debug)]
pub struct Stock {
    redis: redis::Client,
}

impl Stock {
    /// On the server at `url`. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// The URL is not one of a Redis server.
    pub fn at(url: &str) -> Result<Self, RedisError> {
        Ok(Self { redis: redis::Client::open(url)? })
    }

    /// How many pieces are left.
    ///
    /// # Errors
    ///
    /// The server does not answer.
    pub async fn left(&self, sku: &str) -> Result<u32, RedisError> {
        let mut redis = self.redis.get_multiplexed_async_connection().await?;
        Ok(redis.get::<_, Option<u32>>(format!("left:{sku}")).await?.unwrap_or(0))
    }

    /// Writes how many pieces are left.
    ///
    /// # Errors
    ///
    /// The server does not answer.
    pub async fn set_left(&self, sku: &str, left: u32) -> Result<(), RedisError> {
        let mut redis = self.redis.get_multiplexed_async_connection().await?;
        redis.set(format!("left:{sku}"), left).await
    }
}
