//! Names that could meet ours, and attributes that a macro writes.

use super::*;

mod our_names {
    use super::*;

    /// Our names, as the user's: none of them is ours.
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

        #[::redlocked::distributed_lock(key = "shadowed", global, ttl = "10s", wait = "1s", guard = lock, on_busy = ::core::result::Result::Ok(0))]
        pub(super) async fn shadowed(n: u32) -> super::Outcome<u32> {
            super::held(lock.key()).await?;
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

mod use_in_the_body {
    use super::*;

    #[derive(Debug, PartialEq)]
    enum Shadow {
        Outcome,
    }

    /// The `use` in the body shadows the return type, inside it.
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
