//! Plain functions, `async` and not: returns, arguments and bodies.

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

    #[distributed_lock(key = "early:sync", constant_key)]
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

    #[distributed_lock(key = "mark:sync:{text}")]
    fn question_mark_blocking(text: &str) -> Result<u32, ShopError> {
        held_blocking(&format!("mark:sync:{text}"))?;
        Ok(text.parse::<u32>()?)
    }

    #[test]
    fn sync_question_mark_of_another_error() -> Outcome {
        assert_eq!(locked_blocking("mark:sync:7", || question_mark_blocking("7"))?, Ok(7));
        let failed = locked_blocking("mark:sync:seven", || question_mark_blocking("seven"))?;
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

    #[distributed_lock(key = "mutable:sync:{text}")]
    fn mutable_blocking(mut text: String, (mut first, second): (u32, u32)) -> Outcome<String> {
        held_blocking("mutable:sync:a")?;
        text.push('b');
        first += second;
        Ok(format!("{text}{first}"))
    }

    #[test]
    fn sync_mutable_arguments() -> Outcome {
        let call = || mutable_blocking("a".to_owned(), (1, 2));
        assert_eq!(locked_blocking("mutable:sync:a", call)??, "ab3");
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

    #[distributed_lock(key = "inner:sync")]
    fn inner_attributes_blocking() -> Outcome {
        //! A comment, which is an attribute as well.
        #![allow(unused_variables)]
        let unused = 1;
        held_blocking("inner:sync")
    }

    #[test]
    fn sync_inner_attribute() -> Outcome {
        locked_blocking("inner:sync", inner_attributes_blocking)?
    }

    #[async_trait::async_trait]
    trait Job {
        async fn run(&self) -> Outcome;
    }

    #[async_trait::async_trait]
    impl Job for u32 {
        #[distributed_lock(key = "inner:trait:{self}")]
        async fn run(&self) -> Outcome {
            #![allow(unused_variables)]
            let unused = 1;
            held("inner:trait:7").await
        }
    }

    #[tokio::test]
    async fn inner_attribute_in_async_trait() -> Outcome {
        locked("inner:trait:7", 7.run()).await?
    }
}

mod send {
    use super::*;

    #[distributed_lock(key = "send", constant_key, guard = lock)]
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

mod external {
    use super::*;

    /// A panic cannot unwind out of these functions.
    fn is_held(key: &str) -> bool {
        let refused = managers().and_then(|managers| managers.1.lock(key).acquire_blocking());
        refused.is_err_and(|error| error.is_busy())
    }

    #[distributed_lock(key = "extern:{n}", on_error = |_| 0)]
    extern "C" fn blocking(n: u32) -> u32 {
        u32::from(is_held("extern:7")) * n
    }

    #[distributed_lock(key = "extern:system:{n}", on_error = |_| 0)]
    extern "system" fn system(n: u32) -> u32 {
        u32::from(is_held("extern:system:7")) * n
    }

    #[expect(improper_ctypes_definitions)]
    #[distributed_lock(key = "extern:async:{n}")]
    async extern "C" fn asynchronous(n: u32) -> Outcome<u32> {
        held("extern:async:7").await?;
        Ok(n)
    }

    #[test]
    fn extern_fn() -> Outcome {
        let pointer: extern "C" fn(u32) -> u32 = blocking;
        assert_eq!(locked_blocking("extern:7", || pointer(7))?, 7);
        assert_eq!(locked_blocking("extern:system:7", || system(7))?, 7);
        Ok(())
    }

    #[tokio::test]
    async fn async_extern_fn() -> Outcome {
        assert_eq!(locked("extern:async:7", asynchronous(7)).await??, 7);
        Ok(())
    }
}

mod empty_and_diverging_bodies {
    use std::time::Duration;

    use super::*;

    #[distributed_lock(key = "empty", on_error = drop)]
    async fn empty() {}

    #[distributed_lock(key = "empty:sync", on_error = drop)]
    fn empty_blocking() {}

    #[distributed_lock(key = "diverges:{fail}")]
    async fn diverges(fail: bool) -> Outcome {
        held("diverges:false").await?;
        loop {
            if !fail {
                return Ok(());
            }
            std::future::pending::<()>().await;
        }
    }

    #[expect(clippy::panic, reason = "the shape under test")]
    #[distributed_lock(key = "diverges:sync")]
    fn panics() -> Outcome {
        held_blocking("diverges:sync")?;
        panic!("on purpose")
    }

    #[tokio::test]
    async fn async_fn() -> Outcome {
        locked("empty", empty()).await?;
        locked("diverges:false", diverges(false)).await?
    }

    #[test]
    fn sync_fn() -> Outcome {
        locked_blocking("empty:sync", empty_blocking)?;
        let panicked = std::panic::catch_unwind(panics);
        let next = managers()?.1.lock("diverges:sync").wait(Duration::from_secs(30));
        next.acquire_blocking()?.release_blocking()?;
        let words = panicked.err().and_then(|words| words.downcast::<&str>().ok());
        assert_eq!(words.as_deref(), Some(&"on purpose"), "the lock is released, the panic goes on");
        Ok(())
    }
}

mod visibility {
    use super::*;

    mod shop {
        use super::*;

        #[distributed_lock(key = "visible:{id}")]
        pub(in crate::functions) async fn visible(id: u32) -> Outcome<u32> {
            held("visible:7").await?;
            Ok(id)
        }
    }

    #[tokio::test]
    async fn async_fn() -> Outcome {
        assert_eq!(locked("visible:7", shop::visible(7)).await??, 7);
        Ok(())
    }
}
