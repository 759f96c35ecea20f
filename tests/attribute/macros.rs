//! The attribute inside macros, with every kind of fragment.

use super::*;

mod a_function {
    use super::*;

    macro_rules! lock_it {
        ($name:ident, $argument:ident: $ty:ty, $key:literal, $ttl:expr, $body:expr) => {
            #[distributed_lock(key = $key, ttl = $ttl, wait = "1s")]
            async fn $name($argument: $ty, other: u32) -> Outcome<$ty> {
                held("macro:7").await?;
                let _ = other;
                Ok($body)
            }
        };
    }

    lock_it!(locked_by_a_macro, id: u32, "macro:{id}", "10s", id + 1);

    #[tokio::test]
    async fn async_fn() -> Outcome {
        assert_eq!(locked("macro:7", locked_by_a_macro(7, 1)).await??, 8);
        Ok(())
    }
}

mod a_method {
    use super::*;

    macro_rules! lock_it {
        ($name:ident of self) => {
            impl Tenant {
                #[distributed_lock(key = "macro:{self.0}:{id}:{id.bits}", crate = $crate::macros::a_method::vendor)]
                async fn $name(&self, id: Id) -> Outcome<u32> {
                    held("macro:7:8:8").await?;
                    Ok(self.0 + id.bits)
                }
            }
        };
    }

    pub(crate) use ::redlocked as vendor;

    struct Tenant(u32);

    struct Id {
        bits: u32,
    }

    impl Display for Id {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            self.bits.fmt(f)
        }
    }

    lock_it!(locked_by_a_macro of self);

    #[tokio::test]
    async fn async_method() -> Outcome {
        assert_eq!(locked("macro:7:8:8", Tenant(7).locked_by_a_macro(Id { bits: 8 })).await??, 15);
        Ok(())
    }
}

mod every_fragment {
    use super::*;

    macro_rules! lock_it {
        (
            $(#[$meta:meta])*
            $vis:vis async fn $name:ident($($pat:pat_param in $ty:ty),*) -> $ret:ty, $key:literal, $guard:ident, $body:block
        ) => {
            $(#[$meta])*
            #[distributed_lock(key = $key, guard = $guard)]
            $vis async fn $name($($pat: $ty),*) -> $ret $body
        };
        (
            $(#[$meta:meta])*
            $vis:vis fn $name:ident($($pat:pat_param in $ty:ty),*) -> $ret:ty, $key:literal, $guard:ident, $body:block
        ) => {
            $(#[$meta])*
            #[distributed_lock(key = $key, guard = $guard)]
            $vis fn $name($($pat: $ty),*) -> $ret $body
        };
    }

    lock_it! {
        /// A comment.
        #[inline]
        pub(crate) async fn asynchronous(id in u32, (low, mut high) in (u32, u32)) -> Outcome<u32>,
        "fragments:{id}:{low}", lock, {
            held("fragments:7:8").await?;
            assert_eq!(lock.key(), "fragments:7:8");
            high += 1;
            Ok(id + low + high)
        }
    }

    lock_it! {
        /// A comment.
        #[inline]
        fn blocking(id in u32, (low, mut high) in (u32, u32)) -> Outcome<u32>,
        "fragments:sync:{id}:{low}", lock, {
            held_blocking("fragments:sync:7:8")?;
            assert_eq!(lock.key(), "fragments:sync:7:8");
            high += 1;
            Ok(id + low + high)
        }
    }

    #[tokio::test]
    async fn async_fn() -> Outcome {
        assert_eq!(locked("fragments:7:8", asynchronous(7, (8, 9))).await??, 25);
        Ok(())
    }

    #[test]
    fn sync_fn() -> Outcome {
        assert_eq!(locked_blocking("fragments:sync:7:8", || blocking(7, (8, 9)))??, 25);
        Ok(())
    }
}

mod options {
    use super::*;

    macro_rules! lock_it {
        ($name:ident, $key:expr, $ttl:literal, $renew:literal, $busy:expr, $error:expr, $root:path, $lock:ident) => {
            #[distributed_lock(
                key = $key, constant_key, ttl = $ttl, renew = $renew, on_busy = $busy, on_error = $error, crate = $root, guard = $lock
            )]
            async fn $name(id: u32) -> Option<u32> {
                held("macro:options:7").await.ok()?;
                assert_eq!($lock.key(), "macro:options:7");
                Some(id)
            }
        };
    }

    lock_it!(
        asynchronous,
        format!("macro:options:{}", 7),
        "10s",
        false,
        Some(0),
        |_| None,
        ::redlocked,
        lock
    );

    #[tokio::test]
    async fn async_fn() -> Outcome {
        assert_eq!(locked("macro:options:7", asynchronous(7)).await?, Some(7));
        let guard = managers()?.1.lock("macro:options:7").try_acquire().await?;
        assert_eq!(asynchronous(7).await, Some(0));
        guard.release().await?;
        Ok(())
    }
}

mod whole_items {
    use super::*;

    /// Passes items through unparsed, as `cfg_if!` does.
    macro_rules! as_it_is {
        ($($item:item)*) => { $($item)* };
    }

    macro_rules! token_by_token {
        ($($token:tt)*) => { $($token)* };
    }

    as_it_is! {
        #[distributed_lock(key = "items:{id}")]
        async fn item(id: u32) -> Outcome<u32> {
            held("items:7").await?;
            Ok(id)
        }
    }

    token_by_token! {
        #[distributed_lock(key = "tokens:{id}")]
        fn tokens(id: u32) -> Outcome<u32> {
            held_blocking("tokens:7")?;
            Ok(id)
        }
    }

    struct Shop(u32);

    as_it_is! {
        impl Shop {
            #[distributed_lock(key = "items:method:{self.0}")]
            async fn item(&mut self) -> Outcome<&mut u32> {
                held("items:method:7").await?;
                Ok(&mut self.0)
            }
        }
    }

    #[tokio::test]
    async fn async_fn() -> Outcome {
        assert_eq!(locked("items:7", item(7)).await??, 7);
        assert_eq!(*locked("items:method:7", Shop(7).item()).await??, 7);
        Ok(())
    }

    #[test]
    fn sync_fn() -> Outcome {
        assert_eq!(locked_blocking("tokens:7", || tokens(7))??, 7);
        Ok(())
    }
}

mod in_async_trait {
    use super::*;

    #[async_trait::async_trait]
    trait Store {
        async fn load(&self, id: u32, pair: (u32, u32)) -> Outcome<u32>;
    }

    struct Table(u32);

    macro_rules! store {
        ($ty:ident, $name:ident, $key:literal, $body:expr) => {
            #[async_trait::async_trait]
            impl Store for $ty {
                #[distributed_lock(key = $key)]
                #[tracing::instrument(skip_all, err)]
                async fn $name(&self, id: u32, (low, high): (u32, u32)) -> Outcome<u32> {
                    held("store:7:8:9").await?;
                    let _ = $body;
                    Ok(id + low + high + self.0)
                }
            }
        };
    }

    store!(Table, load, "store:{id}:{low}:{high}", 1 + 1);

    #[tokio::test]
    async fn async_method() -> Outcome {
        assert_eq!(locked("store:7:8:9", Table(1).load(7, (8, 9))).await??, 25);
        Ok(())
    }
}

mod names_from_both_sides {
    use super::*;

    macro_rules! lock_it {
        ($name:ident, $argument:ident, $field:ident) => {
            #[distributed_lock(key = "both:{own}:{theirs}", guard = lock)]
            async fn $name(own: u32, $argument: u32) -> Outcome<u32> {
                held("both:7:8").await?;
                assert_eq!(lock.key(), "both:7:8");
                Ok(own + $argument)
            }

            impl Named {
                #[distributed_lock(key = concat!("both:", stringify!($field)), on_busy = Ok(self.$field))]
                fn $name(&self) -> Outcome<u32> {
                    held_blocking("both:count")?;
                    Ok(self.$field)
                }
            }
        };
    }

    struct Named {
        count: u32,
    }

    lock_it!(both, theirs, count);

    #[tokio::test]
    async fn async_fn() -> Outcome {
        assert_eq!(locked("both:7:8", both(7, 8)).await??, 15);
        Ok(())
    }

    #[test]
    fn sync_method() -> Outcome {
        let named = Named { count: 7 };
        assert_eq!(locked_blocking("both:count", || named.both())??, 7);
        let other = managers()?.1.lock("both:count").acquire_blocking()?;
        assert_eq!(named.both()?, 7);
        other.release_blocking()?;
        Ok(())
    }
}
