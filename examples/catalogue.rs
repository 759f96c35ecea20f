//! Many read a catalogue at once, and nobody while it is written: in one queue, so the writer is not
//! kept out by readers that come later.
//!
//! On Redis when `REDIS_URL` is set, else on `memory://`, which is this process alone.

#![allow(clippy::print_stdout, reason = "a program that talks to its user")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redlocked::{LockError, LockManager, distributed_lock};
use tokio::time::sleep;

/// What the shop sells, in two parts that belong together.
#[derive(Default)]
struct Catalogue {
    prices: AtomicU32,
    stock: AtomicU32,
}

impl Catalogue {
    #[distributed_lock(key = "catalogue:{shop}", shared, wait = "10s")]
    async fn read(&self, shop: &str, reader: &str) -> Result<u32, LockError> {
        let prices = self.prices.load(Ordering::SeqCst);
        sleep(Duration::from_millis(200)).await;
        let stock = self.stock.load(Ordering::SeqCst);
        assert_eq!(prices, stock, "no writer came in between");
        println!("{reader} has read version {prices} of {shop}");
        Ok(prices)
    }

    #[distributed_lock(key = "catalogue:{shop}", wait = "10s")]
    async fn write(&self, shop: &str) -> Result<(), LockError> {
        let version = self.prices.fetch_add(1, Ordering::SeqCst) + 1;
        sleep(Duration::from_millis(200)).await;
        self.stock.fetch_add(1, Ordering::SeqCst);
        println!("version {version} of {shop} is written");
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), LockError> {
    kit::no_arguments();
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "memory://".to_owned());
    let locks = LockManager::builder(url).prefix("catalogue-example:").connect().await?;
    locks.clone().set_global();

    let shop = Catalogue::default();
    // Ann and Bob read together. The writer comes next, and Cleo behind it: she reads what it wrote.
    let later = async |millis, reader| {
        sleep(Duration::from_millis(millis)).await;
        shop.read("acme", reader).await
    };
    let write = async {
        sleep(Duration::from_millis(50)).await;
        shop.write("acme").await
    };
    let (ann, bob, (), cleo) = tokio::try_join!(later(0, "Ann"), later(0, "Bob"), write, later(100, "Cleo"))?;
    assert_eq!((ann, bob, cleo), (0, 0, 1));
    locks.shutdown(Duration::from_secs(5)).await
}
