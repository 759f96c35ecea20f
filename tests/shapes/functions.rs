//! Plain functions, `async` and not: returns, arguments, and calls within calls.

use super::*;

mod plain {
    use super::*;

    #[distributed_lock(key = "async:{id}", ttl = "10s", wait = "5s")]
    async fn asynchronous(id: u32) -> Outcome<u32> {
        held("async:7").await?;
        Ok(id)
    }

    #[tokio::test]
    async fn async_fn() -> Outcome {
        assert_eq!(locked("async:7", asynchronous(7)).await??, 7);
        Ok(())
    }

    #[distributed_lock(key = "sync:{id}", ttl = "10s", wait = "5s")]
    fn blocking(id: u32) -> Outcome<u32> {
        held_blocking("sync:7")?;
        Ok(id)
    }

    #[test]
    fn sync_fn() -> Outcome {
        assert_eq!(locked_blocking("sync:7", || blocking(7))??, 7);
        Ok(())
    }
}

mod early_return {
    use super::*;

    #[distributed_lock(key = "early:{early}")]
    async fn returns_early(early: bool) -> Outcome<&'static str> {
        held("early:true").await?;
        if early {
            return Ok("early");
        }
        Ok("late")
    }

    #[tokio::test]
    async fn early_return() -> Outcome {
        assert_eq!(locked("early:true", returns_early(true)).await??, "early");
        Ok(())
    }

    #[distributed_lock(key = "early:sync", global)]
    fn returns_early_blocking(early: bool) -> Outcome<&'static str> {
        held_blocking("early:sync")?;
        if early {
            return Ok("early");
        }
        Ok("late")
    }

    #[test]
    fn sync_early_return() -> Outcome {
        assert_eq!(locked_blocking("early:sync", || returns_early_blocking(true))??, "early");
        Ok(())
    }
}

mod question_mark {
    use super::*;

    #[derive(Debug, PartialEq)]
    enum ShopError {
        Locked(LockError),
        Number(std::num::ParseIntError),
    }

    impl From<LockError> for ShopError {
        fn from(error: LockError) -> Self {
            Self::Locked(error)
        }
    }

    impl From<std::num::ParseIntError> for ShopError {
        fn from(error: std::num::ParseIntError) -> Self {
            Self::Number(error)
        }
    }

    #[distributed_lock(key = "mark:{text}")]
    async fn question_mark(text: &str) -> Result<u32, ShopError> {
        held(&format!("mark:{text}")).await?;
        let number = text.parse::<u32>()?;
        Ok(number)
    }

    #[tokio::test]
    async fn question_mark_of_another_error() -> Outcome {
        assert_eq!(locked("mark:7", question_mark("7")).await?, Ok(7));
        let failed = locked("mark:seven", question_mark("seven")).await?;
        assert!(matches!(failed, Err(ShopError::Number(_))), "{failed:?}");
        Ok(())
    }
}

mod mutable_arguments {
    use super::*;

    #[distributed_lock(key = "mutable:{text}")]
    async fn mutable(mut text: String, mut count: u32) -> Outcome<String> {
        held("mutable:a").await?;
        text.push('b');
        count += 1;
        Ok(format!("{text}{count}"))
    }

    #[tokio::test]
    async fn mutable_arguments() -> Outcome {
        assert_eq!(locked("mutable:a", mutable("a".to_owned(), 1)).await??, "ab2");
        Ok(())
    }
}

mod inner_attributes {
    use super::*;

    #[distributed_lock(key = "inner")]
    async fn inner_attributes() -> Outcome {
        #![allow(unused_variables)]
        let unused = 1;
        held("inner").await
    }

    #[tokio::test]
    async fn inner_attribute() -> Outcome {
        locked("inner", inner_attributes()).await?
    }
}

mod send {
    use super::*;

    #[distributed_lock(key = "send", global, guard = lock)]
    async fn takes_a_cell(cell: Cell<u32>) -> Outcome<u32> {
        held("send").await?;
        assert!(lock.is_held());
        Ok(cell.get())
    }

    fn require_send<T: Send>(future: T) -> T {
        future
    }

    #[tokio::test]
    async fn send_stays_send() -> Outcome {
        // Not `Sync`: a reference to it that lives across an `.await` would not be `Send`.
        let cell = Cell::new(7);
        assert_eq!(locked("send", require_send(takes_a_cell(cell))).await??, 7);
        Ok(())
    }
}

mod nested {
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
}
