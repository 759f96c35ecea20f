//! Names that could collide with ours, and attributes inside macros.

use super::*;

mod our_names {
    use super::*;

    /// Arguments with the names of the expansion's variables.
    #[distributed_lock(key = "{key}:{lock}:{guard}:{body}:{error}:{output}:{unreachable_output}")]
    #[allow(clippy::too_many_arguments)]
    async fn names(
        key: u8,
        lock: u8,
        guard: u8,
        body: u8,
        error: u8,
        output: u8,
        unreachable_output: u8,
    ) -> Outcome<u8> {
        held("1:2:3:4:5:6:7").await?;
        Ok(key + lock + guard + body + error + output + unreachable_output)
    }

    #[distributed_lock(key = "{key.0}:{key_0}:{lock}:{error}", guard = output)]
    fn names_blocking(key: (u8, u8), key_0: u8, lock: u8, error: u8, guard: u8) -> Outcome<u8> {
        held_blocking("1:2:3:4")?;
        assert_eq!(output.key(), "1:2:3:4");
        Ok(key.0 + key_0 + lock + error + guard)
    }

    #[tokio::test]
    async fn arguments_named_like_our_variables() -> Outcome {
        assert_eq!(locked("1:2:3:4:5:6:7", names(1, 2, 3, 4, 5, 6, 7)).await??, 28);
        Ok(())
    }

    #[test]
    fn sync_arguments_named_like_our_variables() -> Outcome {
        assert_eq!(locked_blocking("1:2:3:4", || names_blocking((1, 9), 2, 3, 4, 5))??, 15);
        Ok(())
    }
}

mod shadowed_names {
    use super::*;

    mod shadowed {
        #![allow(dead_code, non_camel_case_types, unused_macros)]

        mod core {}
        mod std {}
        mod redlocked {}

        pub(super) struct Result;
        struct Option;
        struct Ok;
        struct Err;
        struct Some;
        struct Arc;
        struct Box;
        struct LockGuard;
        struct LockManager;
        trait Future {}

        #[::redlocked::distributed_lock(key = "shadowed", constant_key, ttl = "10s", wait = "1s", guard = lock, on_busy = ::core::result::Result::Ok(0))]
        pub(super) async fn shadowed(n: u32) -> super::Outcome<u32> {
            super::held("shadowed").await?;
            assert_eq!(lock.key(), "shadowed");
            ::core::result::Result::Ok(n)
        }

        #[::redlocked::distributed_lock(key = "shadowed:sync:{n}", on_error = ::core::result::Result::Err)]
        pub(super) fn blocking(n: u32) -> super::Outcome<u32> {
            super::held_blocking("shadowed:sync:7")?;
            ::core::result::Result::Ok(n)
        }
    }

    #[tokio::test]
    async fn shadowed_names() -> Outcome {
        assert_eq!(locked("shadowed", shadowed::shadowed(7)).await??, 7);
        Ok(())
    }

    #[test]
    fn sync_shadowed_names() -> Outcome {
        let _ = shadowed::Result;
        assert_eq!(locked_blocking("shadowed:sync:7", || shadowed::blocking(7))??, 7);
        Ok(())
    }
}

mod raw_identifiers {
    use super::*;

    #[distributed_lock(key = "raw:{fn}:{match.in}")]
    async fn r#async(r#fn: u32, r#match: Raw) -> Outcome<u32> {
        held("raw:7:8").await?;
        Ok(r#fn + r#match.r#in)
    }

    struct Raw {
        r#in: u32,
    }

    #[tokio::test]
    async fn raw_identifiers() -> Outcome {
        assert_eq!(locked("raw:7:8", r#async(7, Raw { r#in: 8 })).await??, 15);
        Ok(())
    }
}

mod hostile_trait {
    use super::*;

    /// Its methods take everything by value, so method lookup finds them before those of a
    /// reference.
    #[expect(dead_code, reason = "the expansion calls none of them")]
    #[allow(clippy::wrong_self_convention, reason = "a user may name a method like this, and take anything")]
    trait Hostile: Sized {
        fn escape<T>(self, _: T) {}
        fn render<T>(self, _: T) {}
        fn is_busy(self) {}
        fn ttl<T>(self, _: T) {}
        fn wait<T>(self, _: T) {}
        fn wait_forever(self) {}
        fn max_hold<T>(self, _: T) {}
        fn min_hold<T>(self, _: T) {}
        fn renew<T>(self, _: T) {}
        fn on_lost<T>(self, _: T) {}
        fn reentrant<T>(self, _: T) {}
        fn lock<T>(self, _: T) {}
        fn lock_all<T>(self, _: T) {}
        fn from_lock_error<T>(self, _: T) {}
        fn on_error<T>(self, _: T) {}
        fn probe(self) {}
        fn run(self) {}
    }

    impl<T> Hostile for T {}

    #[distributed_lock(
        key = "hostile:{id}", ttl = "10s", wait = "1s", max_hold = "1m", min_hold = "0s", renew = true, reentrant,
        on_lost = "finish", on_busy = Ok(0)
    )]
    async fn asynchronous(id: u32) -> Outcome<u32> {
        held("hostile:7").await?;
        Ok(id)
    }

    #[distributed_lock(keys = ["hostile:sync:{id}", "hostile:sync"], wait = "forever", on_error = |_| Some(0))]
    fn blocking(id: u32) -> Option<u32> {
        held_blocking("hostile:sync:7").ok()?;
        Some(id)
    }

    #[tokio::test]
    async fn async_fn() -> Outcome {
        assert_eq!(locked("hostile:7", asynchronous(7)).await??, 7);
        Ok(())
    }

    #[test]
    fn sync_fn() -> Outcome {
        assert_eq!(locked_blocking("hostile:sync:7", || blocking(7))?, Some(7));
        Ok(())
    }
}

mod use_in_the_body {
    use super::*;

    #[derive(Debug, PartialEq)]
    enum Shadow {
        Outcome,
    }

    /// The `use` in the body shadows the return type inside the body.
    #[expect(clippy::items_after_statements, reason = "the shape under test")]
    #[distributed_lock(key = "use")]
    async fn uses() -> Outcome<Shadow> {
        held("use").await?;
        use Shadow::*;
        let outcome: Shadow = Outcome;
        Ok(outcome)
    }

    #[tokio::test]
    async fn use_in_the_body() -> Outcome {
        assert_eq!(locked("use", uses()).await??, Shadow::Outcome);
        Ok(())
    }
}

mod keywords {
    use super::*;

    struct Words {
        r#type: u32,
        r#gen: (u32, u32),
    }

    #[distributed_lock(key = "words:{gen}:{try.type}:{try.gen.0}:{dyn}", guard = r#yield)]
    async fn asynchronous(r#gen: u32, r#try: Words, (r#dyn, r#final): (u32, u32)) -> Outcome<u32> {
        held("words:1:2:3:4").await?;
        assert_eq!(r#yield.key(), "words:1:2:3:4");
        Ok(r#gen + r#try.r#type + r#try.r#gen.0 + r#dyn + r#final)
    }

    impl Words {
        #[distributed_lock(key = "words:{self.type}:{self.gen.1}:{type}:{async:03}", guard = r#loop)]
        fn r#match<'a, T: Display>(&'a self, r#type: T, mut r#async: u32) -> Outcome<(&'a Self, u32)> {
            held_blocking("words:2:9:t:007")?;
            assert_eq!(r#loop.key(), "words:2:9:t:007");
            let _ = r#type;
            r#async += 1;
            Ok((self, r#async))
        }
    }

    #[tokio::test]
    async fn async_fn() -> Outcome {
        let call = asynchronous(1, Words { r#type: 2, r#gen: (3, 9) }, (4, 5));
        assert_eq!(locked("words:1:2:3:4", call).await??, 15);
        Ok(())
    }

    #[test]
    fn sync_method() -> Outcome {
        let words = Words { r#type: 2, r#gen: (3, 9) };
        assert_eq!(locked_blocking("words:2:9:t:007", || words.r#match("t", 7).map(|it| it.1))??, 8);
        Ok(())
    }
}

mod generics_named_like_types {
    use super::*;

    #[distributed_lock(key = "types:{error}", guard = lock)]
    async fn asynchronous<LockGuard: Display, Duration, Arc: From<LockError>>(
        error: LockGuard,
        output: Duration,
    ) -> Result<Duration, Arc> {
        held("types:7").await?;
        assert_eq!(lock.key(), "types:7");
        let _ = error;
        Ok(output)
    }

    #[distributed_lock(key = "types:sync:{error}", guard = lock, ttl = "1m")]
    fn blocking<LockGuard: Display, Duration, FromLockError>(
        error: LockGuard,
        output: Duration,
    ) -> Outcome<Duration>
    where
        FromLockError: Default,
    {
        held_blocking("types:sync:7")?;
        assert_eq!(lock.key(), "types:sync:7");
        let _ = (error, FromLockError::default());
        Ok(output)
    }

    #[tokio::test]
    async fn async_fn() -> Outcome {
        assert_eq!(locked("types:7", asynchronous::<_, _, LockError>(7, 8)).await??, 8);
        Ok(())
    }

    #[test]
    fn sync_fn() -> Outcome {
        assert_eq!(locked_blocking("types:sync:7", || blocking::<_, _, u8>(7, 8))??, 8);
        Ok(())
    }
}

mod items_named_like_our_variables {
    use super::*;

    // `#[tokio::test]` has a variable called `body`, so the tests are elsewhere.
    mod items {
        #![allow(non_upper_case_globals, non_camel_case_types, dead_code)]

        use super::*;

        const lock: u32 = 1;
        const key: u32 = 2;
        const guard: u32 = 3;
        const error: u32 = 4;
        static body: u32 = 5;
        static output: u32 = 6;
        struct unreachable_output;

        #[distributed_lock(key = "items named:{id}", on_busy = Ok(0))]
        pub(super) async fn asynchronous(id: u32) -> Outcome<u32> {
            held("items named:7").await?;
            Ok(lock + key + guard + error + body + output + id)
        }

        #[distributed_lock(key = "items named:guard:{id}", guard = held_lock)]
        pub(super) async fn with_guard(id: u32) -> Outcome<u32> {
            held("items named:guard:7").await?;
            assert_eq!(held_lock.key(), "items named:guard:7");
            Ok(lock + key + guard + error + body + output + id)
        }

        #[distributed_lock(key = "items named:sync:{id}", on_busy = Ok(0))]
        pub(super) fn blocking(id: u32) -> Outcome<u32> {
            held_blocking("items named:sync:7")?;
            Ok(lock + key + guard + error + body + output + id)
        }
    }

    use items::{asynchronous, blocking, with_guard};

    #[tokio::test]
    async fn async_fn() -> Outcome {
        assert_eq!(locked("items named:7", asynchronous(7)).await??, 28);
        assert_eq!(locked("items named:guard:7", with_guard(7)).await??, 28);
        Ok(())
    }

    #[test]
    fn sync_fn() -> Outcome {
        assert_eq!(locked_blocking("items named:sync:7", || blocking(7))??, 28);
        Ok(())
    }
}

mod reexported {
    use super::*;

    /// Like a company's internal crate.
    pub(crate) mod platform {
        pub(crate) mod prelude {
            pub(crate) use ::redlocked;
            pub(crate) use ::redlocked::distributed_lock as locked;
        }

        pub(crate) mod locks {
            pub(crate) use ::redlocked::*;
        }
    }

    use platform::prelude::locked as only_one;

    #[only_one(key = "platform:{id}", crate = platform::prelude::redlocked, guard = lock, wait = "1s", on_lost = "finish")]
    async fn asynchronous(id: u32) -> Outcome<u32> {
        held("platform:7").await?;
        assert_eq!(lock.key(), "platform:7");
        Ok(id)
    }

    #[platform::locks::distributed_lock(key = "platform:sync:{id}", crate = crate::hygiene::reexported::platform::locks)]
    fn blocking(id: u32) -> Outcome<u32> {
        held_blocking("platform:sync:7")?;
        Ok(id)
    }

    struct Shop(u32);

    #[async_trait::async_trait]
    trait Store {
        async fn load(&self) -> Outcome<u32>;
    }

    #[async_trait::async_trait]
    impl Store for Shop {
        #[only_one(key = "platform:trait:{self.0}", crate = self::platform::locks)]
        async fn load(&self) -> Outcome<u32> {
            held("platform:trait:7").await?;
            Ok(self.0)
        }
    }

    #[tokio::test]
    async fn async_fn() -> Outcome {
        assert_eq!(locked("platform:7", asynchronous(7)).await??, 7);
        assert_eq!(locked("platform:trait:7", Shop(7).load()).await??, 7);
        Ok(())
    }

    #[test]
    fn sync_fn() -> Outcome {
        assert_eq!(locked_blocking("platform:sync:7", || blocking(7))??, 7);
        Ok(())
    }
}
