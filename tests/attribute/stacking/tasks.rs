//! `#[tokio::test]` and `#[tokio::main]` turn an `async` function into a sync one: above them the
//! lock is taken inside the runtime, below them outside.

use super::*;

mod test {
    use super::*;

    // Each has to find the manager before its own body runs.
    #[distributed_lock(key = "test:above", manager = managers()?.0)]
    #[tokio::test]
    async fn above() -> Outcome {
        held("test:above").await
    }

    #[tokio::test]
    #[distributed_lock(key = "test:below", manager = managers()?.0)]
    async fn below() -> Outcome {
        held("test:below").await
    }

    #[distributed_lock(key = "test:threads:above", manager = managers()?.0)]
    #[tokio::test(flavor = "multi_thread")]
    async fn above_with_threads() -> Outcome {
        held("test:threads:above").await
    }

    #[tokio::test(flavor = "multi_thread")]
    #[distributed_lock(key = "test:threads:below", manager = managers()?.0)]
    async fn below_with_threads() -> Outcome {
        held("test:threads:below").await
    }

    #[distributed_lock(key = "test:plain:above", manager = managers()?.0)]
    #[test]
    fn sync_above() -> Outcome {
        held_blocking("test:plain:above")
    }

    #[test]
    #[distributed_lock(key = "test:plain:below", manager = managers()?.0)]
    fn sync_below() -> Outcome {
        held_blocking("test:plain:below")
    }
}

mod main {
    use super::*;

    #[distributed_lock(key = "main:above", guard = lock)]
    #[tokio::main]
    async fn above() -> Outcome {
        held(lock.key()).await?;
        held("main:above").await
    }

    #[tokio::main]
    #[distributed_lock(key = "main:below", guard = lock)]
    async fn below() -> Outcome {
        held(lock.key()).await?;
        held("main:below").await
    }

    #[distributed_lock(key = "main:current:above:{n}")]
    #[tokio::main(flavor = "current_thread")]
    async fn above_on_one_thread(n: u32) -> Outcome<u32> {
        held("main:current:above:7").await?;
        Ok(n)
    }

    #[tokio::main(flavor = "current_thread")]
    #[distributed_lock(key = "main:current:below:{n}")]
    async fn below_on_one_thread(n: u32) -> Outcome<u32> {
        held("main:current:below:7").await?;
        Ok(n)
    }

    #[test]
    fn from_a_plain_thread() -> Outcome {
        locked_blocking("main:above", above)??;
        locked_blocking("main:below", below)??;
        assert_eq!(locked_blocking("main:current:above:7", || above_on_one_thread(7))??, 7);
        assert_eq!(locked_blocking("main:current:below:7", || below_on_one_thread(7))??, 7);
        Ok(())
    }
}
