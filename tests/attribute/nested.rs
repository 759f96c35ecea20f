//! Annotated functions within annotated functions, and two attributes on one function.

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

/// A sync body may run a runtime that polls unrelated tasks.
mod polled_inside {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use redlocked::{LockManager, LockRequest};
    use tokio::runtime::{Builder, Handle, Runtime};
    use tokio::task::{LocalSet, block_in_place, spawn_blocking, spawn_local};

    use super::*;

    const MOMENT: Duration = Duration::from_millis(20);

    fn runtime() -> Result<Runtime, std::io::Error> {
        Builder::new_current_thread().enable_all().build()
    }

    #[test]
    fn unrelated_tasks_neither_join_nor_deadlock() -> Result<(), Box<dyn std::error::Error>> {
        let locks = LockManager::connect_blocking("memory://polled-inside")?;
        let runtime = runtime()?;
        let inside = Arc::new(AtomicU32::new(0));
        let (asking, mut asked) = tokio::sync::mpsc::channel(2);
        let unrelated = [true, false].map(|reentrant| {
            let request = locks.lock("k").wait(Duration::from_secs(20)).reentrant(reentrant);
            let (inside, asking) = (inside.clone(), asking.clone());
            runtime.spawn(async move {
                let _ = asking.send(()).await;
                let alone = request.run_value(async |_| {
                    let others = inside.fetch_add(1, Ordering::SeqCst);
                    tokio::time::sleep(MOMENT).await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    others == 0
                });
                alone.await
            })
        });
        locks.lock("k").run_value_blocking(|_| {
            inside.fetch_add(1, Ordering::SeqCst);
            // Polls both calls for the first time, and for long enough to let them enter.
            runtime.block_on(async {
                asked.recv().await;
                asked.recv().await;
                tokio::time::sleep(MOMENT).await;
            });
            inside.fetch_sub(1, Ordering::SeqCst);
        })?;
        for task in unrelated {
            assert!(runtime.block_on(task)??, "two callers are inside");
        }
        Ok(())
    }

    /// True when the library sees the body's call as nested, with and without `reentrant`.
    fn nests(request: &LockRequest, block_on: impl Fn(LockRequest) -> Result<(), LockError>) -> bool {
        let both = request.clone().run_value_blocking(|_| {
            let joined = block_on(request.clone().reentrant(true)).is_ok();
            joined && matches!(block_on(request.clone()), Err(LockError::Deadlock { .. }))
        });
        both == Ok(true)
    }

    #[test]
    fn a_call_of_the_body_is_nested_wherever_it_runs() -> Result<(), Box<dyn std::error::Error>> {
        let request = LockManager::connect_blocking("memory://calls-of-the-body")?.lock("k");
        let blocking = |request: LockRequest| request.acquire_blocking().map(drop);
        let by_handle = |request: LockRequest| Handle::current().block_on(request.acquire()).map(drop);
        assert!(nests(&request, blocking));
        let own = runtime()?;
        assert!(nests(&request, |request| own.block_on(request.acquire()).map(drop)));

        own.block_on(async {
            assert!(nests(&request, blocking), "in the future of `block_on`");
            let (first, second) = (request.clone(), request.clone());
            assert!(tokio::spawn(async move { nests(&first, blocking) }).await?, "in a task");
            let in_pool = spawn_blocking(move || nests(&second, blocking) && nests(&second, by_handle));
            assert!(in_pool.await?, "in a thread of the pool");
            let local = request.clone();
            let in_set = LocalSet::new();
            let in_local = async { spawn_local(async move { nests(&local, blocking) }).await };
            assert!(in_set.run_until(in_local).await?, "in a `LocalSet`");
            Ok::<(), tokio::task::JoinError>(())
        })?;
        let many = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let request = request.clone();
        let in_worker = many
            .spawn(async move { nests(&request, blocking) && block_in_place(|| nests(&request, by_handle)) });
        assert!(many.block_on(in_worker)?, "in a worker");
        Ok(())
    }
}
