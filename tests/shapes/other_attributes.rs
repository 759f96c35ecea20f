//! Above and below the attributes of others.

use super::boxed::{Bank, bank};
use super::*;

#[distributed_lock(key = "traced:above:{n}")]
#[tracing::instrument]
async fn above_instrument(n: u32) -> Outcome<u32> {
    held("traced:above:7").await?;
    Ok(n)
}

#[tracing::instrument(skip(n), fields(n = n))]
#[distributed_lock(key = "traced:below:{n}")]
async fn below_instrument(n: u32) -> Outcome<u32> {
    held("traced:below:7").await?;
    Ok(n)
}

#[distributed_lock(key = "traced:sync:above:{n}")]
#[tracing::instrument(err)]
fn sync_above_instrument(n: u32) -> Outcome<u32> {
    held_blocking("traced:sync:above:7")?;
    Ok(n)
}

#[tracing::instrument(err)]
#[distributed_lock(key = "traced:sync:below:{n}")]
fn sync_below_instrument(n: u32) -> Outcome<u32> {
    held_blocking("traced:sync:below:7")?;
    Ok(n)
}

#[async_trait::async_trait]
trait Traced {
    async fn above(&self, n: u32) -> Outcome<u32>;
    async fn below(&self, n: u32) -> Outcome<u32>;
}

#[async_trait::async_trait]
impl Traced for Bank {
    #[distributed_lock(key = "traced:{self.name}:above:{n}")]
    #[tracing::instrument(skip(self))]
    async fn above(&self, n: u32) -> Outcome<u32> {
        held("traced:b:above:7").await?;
        Ok(n)
    }

    #[tracing::instrument(skip(self))]
    #[distributed_lock(key = "traced:{self.name}:below:{n}")]
    async fn below(&self, n: u32) -> Outcome<u32> {
        held("traced:b:below:7").await?;
        Ok(n)
    }
}

#[tokio::test]
async fn tracing_instrument() -> Outcome {
    assert_eq!(locked("traced:above:7", above_instrument(7)).await??, 7);
    assert_eq!(locked("traced:below:7", below_instrument(7)).await??, 7);
    let bank = bank()?;
    assert_eq!(locked("traced:b:above:7", bank.above(7)).await??, 7);
    assert_eq!(locked("traced:b:below:7", bank.below(7)).await??, 7);
    Ok(())
}

#[test]
fn sync_tracing_instrument() -> Outcome {
    assert_eq!(locked_blocking("traced:sync:above:7", || sync_above_instrument(7))??, 7);
    assert_eq!(locked_blocking("traced:sync:below:7", || sync_below_instrument(7))??, 7);
    Ok(())
}

/// Needs the global manager before its own body runs.
#[distributed_lock(key = "test:above", manager = managers()?.0)]
#[tokio::test]
async fn above_tokio_test() -> Outcome {
    held("test:above").await
}

#[tokio::test]
#[distributed_lock(key = "test:below", manager = managers()?.0)]
async fn below_tokio_test() -> Outcome {
    held("test:below").await
}

#[distributed_lock(key = "test:threads", manager = managers()?.0)]
#[tokio::test(flavor = "multi_thread")]
async fn above_tokio_test_with_threads() -> Outcome {
    held("test:threads").await
}
