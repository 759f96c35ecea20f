//! The compiler's own attributes. Our attribute receives those above it and those below it with the
//! function.

use std::panic::Location;

use super::*;

mod cfg {
    use super::*;

    #[cfg(test)]
    #[distributed_lock(key = "cfg:above:{n}")]
    async fn above(n: u32) -> Outcome<u32> {
        held("cfg:above:7").await?;
        Ok(n)
    }

    #[cfg(any())]
    #[distributed_lock(key = "cfg:above:{n}")]
    async fn above(n: NoSuchType) -> Outcome<u32> {
        no_such_function()
    }

    #[distributed_lock(key = "cfg:below:{n}")]
    #[cfg(test)]
    fn below(n: u32) -> Outcome<u32> {
        held_blocking("cfg:below:7")?;
        Ok(n)
    }

    #[distributed_lock(key = "cfg:below:{n}")]
    #[cfg(any())]
    fn below(n: NoSuchType) -> Outcome<u32> {
        no_such_function()
    }

    #[distributed_lock(key = "cfg:argument:{n}")]
    async fn argument(#[cfg(any())] n: NoSuchType, #[cfg(test)] n: u32) -> Outcome<u32> {
        held("cfg:argument:7").await?;
        Ok(n)
    }

    #[tokio::test]
    async fn async_fn() -> Outcome {
        assert_eq!(locked("cfg:above:7", above(7)).await??, 7);
        assert_eq!(locked("cfg:argument:7", argument(7)).await??, 7);
        Ok(())
    }

    #[test]
    fn sync_fn() -> Outcome {
        assert_eq!(locked_blocking("cfg:below:7", || below(7))??, 7);
        Ok(())
    }
}

mod cfg_attr {
    use super::*;

    #[cfg_attr(test, distributed_lock(key = "cfg_attr:{n}"))]
    #[cfg_attr(any(), no_such_attribute)]
    async fn asynchronous(n: u32) -> Outcome<u32> {
        held("cfg_attr:7").await?;
        Ok(n)
    }

    #[cfg_attr(test, distributed_lock(key = "cfg_attr:sync:{n}"), tracing::instrument(err))]
    fn blocking(n: u32) -> Outcome<u32> {
        held_blocking("cfg_attr:sync:7")?;
        Ok(n)
    }

    /// Not locked: the condition is false.
    #[cfg_attr(any(), distributed_lock(key = "cfg_attr:off"))]
    fn unlocked() -> Outcome {
        managers()?.1.lock("cfg_attr:off").acquire_blocking()?.release_blocking()?;
        Ok(())
    }

    #[tokio::test]
    async fn async_fn() -> Outcome {
        assert_eq!(locked("cfg_attr:7", asynchronous(7)).await??, 7);
        Ok(())
    }

    #[test]
    fn sync_fn() -> Outcome {
        assert_eq!(locked_blocking("cfg_attr:sync:7", || blocking(7))??, 7);
        unlocked()
    }
}

mod inert {
    use super::*;

    /// A comment,
    #[doc = "and another one."]
    #[doc(hidden)]
    #[must_use = "it is counted"]
    #[inline]
    #[cold]
    #[deprecated(note = "on purpose")]
    #[distributed_lock(key = "inert:above", on_error = |_| 0)]
    async fn above() -> u32 {
        let held = held_blocking("inert:above");
        u32::from(held.is_ok()) * 7
    }

    #[distributed_lock(key = "inert:below", on_error = |_| 0)]
    /// A comment,
    #[doc = "and another one."]
    #[doc(hidden)]
    #[must_use = "it is counted"]
    #[inline(never)]
    #[cold]
    #[deprecated(note = "on purpose")]
    async fn below() -> u32 {
        let held = held_blocking("inert:below");
        u32::from(held.is_ok()) * 7
    }

    /// A comment.
    #[must_use]
    #[inline(always)]
    #[expect(clippy::inline_always)]
    #[distributed_lock(key = "inert:sync:above", on_error = |_| 0)]
    fn above_blocking() -> u32 {
        u32::from(held_blocking("inert:sync:above").is_ok()) * 7
    }

    #[distributed_lock(key = "inert:sync:below", on_error = |_| 0)]
    /// A comment.
    #[must_use]
    #[inline(always)]
    #[expect(clippy::inline_always)]
    fn below_blocking() -> u32 {
        u32::from(held_blocking("inert:sync:below").is_ok()) * 7
    }

    #[tokio::test]
    #[expect(deprecated)]
    async fn async_fn() -> Outcome {
        assert_eq!(locked("inert:above", above()).await?, 7);
        assert_eq!(locked("inert:below", below()).await?, 7);
        Ok(())
    }

    #[test]
    fn sync_fn() -> Outcome {
        assert_eq!(locked_blocking("inert:sync:above", above_blocking)?, 7);
        assert_eq!(locked_blocking("inert:sync:below", below_blocking)?, 7);
        Ok(())
    }
}

mod track_caller {
    use super::*;

    struct Shop(u32);

    impl Shop {
        #[track_caller]
        #[distributed_lock(key = "caller:above:{self.0}")]
        fn above(&self) -> Outcome<u32> {
            held_blocking("caller:above:7")?;
            Ok(Location::caller().line())
        }

        #[distributed_lock(key = "caller:below:{self.0}")]
        #[track_caller]
        fn below(&self) -> Outcome<u32> {
            held_blocking("caller:below:7")?;
            Ok(Location::caller().line())
        }
    }

    // The body is a closure, so `#[track_caller]` gives the function's own location.
    #[test]
    fn sync_method() -> Outcome {
        let line = line!();
        assert!(locked_blocking("caller:above:7", || Shop(7).above())?? < line);
        assert!(locked_blocking("caller:below:7", || Shop(7).below())?? < line);
        Ok(())
    }
}

mod in_async_trait {
    use super::*;

    #[async_trait::async_trait]
    trait Account {
        async fn book(&mut self, amounts: (u32, u32)) -> Outcome<u32>;
        async fn close(self) -> Outcome<u32>;
    }

    #[async_trait::async_trait]
    impl Account for u32 {
        /// A comment.
        #[cfg(test)]
        #[inline]
        #[distributed_lock(key = "inert:trait:{self}:{first}")]
        #[cfg_attr(test, allow(unused_variables))]
        async fn book(&mut self, (first, second): (u32, u32)) -> Outcome<u32> {
            #![allow(clippy::unreachable)]
            held("inert:trait:1:7").await?;
            *self += first + second;
            Ok(*self)
        }

        #[distributed_lock(key = "inert:trait:{self}")]
        /// A comment.
        #[cfg(test)]
        #[cold]
        async fn close(self) -> Outcome<u32> {
            held("inert:trait:16").await?;
            Ok(self)
        }

        #[cfg(any())]
        #[distributed_lock(key = "inert:trait:{self}")]
        async fn close(self) -> NoSuchType {}
    }

    #[tokio::test]
    async fn async_method() -> Outcome {
        let mut total = 1;
        assert_eq!(locked("inert:trait:1:7", total.book((7, 8))).await??, 16);
        assert_eq!(locked("inert:trait:16", total.close()).await??, 16);
        Ok(())
    }
}
