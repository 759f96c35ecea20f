//! Annotated functions within annotated functions, and two attributes on one.

use super::*;

mod within {
    use super::*;

    #[distributed_lock(key = "nested:outer")]
    async fn outer() -> Outcome {
        #[distributed_lock(key = "nested:inner")]
        async fn inner() -> Outcome {
            held("nested:outer").await?;
            held("nested:inner").await
        }
        held("nested:outer").await?;
        inner().await?;
        held("nested:outer").await
    }

    #[tokio::test]
    async fn annotated_within_annotated() -> Outcome {
        locked("nested:inner", locked("nested:outer", outer())).await??
    }

    #[distributed_lock(key = "nested:sync:outer:{id}")]
    fn outer_blocking(id: u32) -> Outcome<u32> {
        #[distributed_lock(key = "nested:sync:inner:{id}", guard = lock)]
        fn inner(id: u32) -> Outcome<u32> {
            held_blocking(&format!("nested:sync:outer:{id}"))?;
            held_blocking(lock.key())?;
            Ok(id)
        }
        let id = inner(id)?;
        held_blocking(&format!("nested:sync:outer:{id}"))?;
        Ok(id)
    }

    #[test]
    fn sync_annotated_within_annotated() -> Outcome {
        let call = || locked_blocking("nested:sync:outer:7", || outer_blocking(7));
        assert_eq!(locked_blocking("nested:sync:inner:7", call)???, 7);
        Ok(())
    }

    #[distributed_lock(key = "nested:mixed:{id}")]
    async fn calls_a_sync_function(id: u32) -> Outcome<u32> {
        held("nested:mixed:8").await?;
        let id = outer_blocking(id)?;
        held("nested:mixed:8").await?;
        Ok(id)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn sync_within_async() -> Outcome {
        let call = locked("nested:mixed:8", calls_a_sync_function(8));
        assert_eq!(locked("nested:sync:outer:8", call).await???, 8);
        Ok(())
    }

    #[distributed_lock(key = "nested:types")]
    async fn with_items() -> Outcome<u32> {
        #[derive(Debug)]
        struct Shop(u32);

        impl Shop {
            #[distributed_lock(key = "nested:method:{self.0}")]
            async fn count(&self) -> Outcome<u32> {
                held("nested:types").await?;
                held("nested:method:7").await?;
                Ok(self.0)
            }
        }

        Shop(7).count().await
    }

    #[tokio::test]
    async fn method_of_a_type_in_the_body() -> Outcome {
        assert_eq!(locked("nested:method:7", locked("nested:types", with_items())).await???, 7);
        Ok(())
    }
}

mod twice {
    use super::*;

    #[distributed_lock(key = "twice:1")]
    #[distributed_lock(key = "twice:2")]
    async fn twice() -> Outcome {
        held("twice:1").await?;
        held("twice:2").await
    }

    #[tokio::test]
    async fn two_locks() -> Outcome {
        locked("twice:1", locked("twice:2", twice())).await??
    }

    #[distributed_lock(key = "twice:sync:1", guard = outer)]
    #[distributed_lock(key = "twice:sync:2", guard = inner)]
    fn twice_blocking() -> Outcome {
        held_blocking("twice:sync:1")?;
        assert_eq!(outer.key(), "twice:sync:1");
        held_blocking("twice:sync:2")?;
        assert_eq!(inner.key(), "twice:sync:2");
        Ok(())
    }

    #[test]
    fn sync_two_locks() -> Outcome {
        locked_blocking("twice:sync:1", || locked_blocking("twice:sync:2", twice_blocking))??
    }
}
