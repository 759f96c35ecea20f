//! Arguments are dropped while the lock is held, in the order of the plain function.
#![allow(clippy::unnecessary_wraps, clippy::boxed_local, reason = "the shapes under test")]

use std::cell::RefCell;

use super::*;

thread_local! {
    static DROPPED: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

/// Records its drop, and whether the lock is held at that moment.
struct Part {
    name: &'static str,
    /// The key that must be locked at that moment.
    key: Option<&'static str>,
}

impl Part {
    fn new(name: &'static str, key: Option<&'static str>) -> Self {
        Self { name, key }
    }

    fn key(&self) -> &'static str {
        self.key.unwrap_or_default()
    }

    fn local(&self) -> Self {
        Self { name: "local", key: self.key }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        DROPPED.with_borrow_mut(|dropped| dropped.push(self.name));
        if let Some(key) = self.key {
            let held = held_blocking(key);
            assert!(held.is_ok(), "{} is dropped after the lock: {held:?}", self.name);
        }
    }
}

struct Pair(Part, Part);

fn pair(first: Part, second: Part) -> Pair {
    Pair(first, second)
}

/// Defines a function without the attribute, with it, and with a guard.
macro_rules! three {
    (impl { $($function:tt)* } $($call:tt)*) => {
        mod plain {
            use super::*;

            struct Shop(Part);

            impl Shop {
                $($function)*
            }

            pub(super) $($call)*
        }

        mod annotated {
            use super::*;

            struct Shop(Part);

            impl Shop {
                #[distributed_lock(key = "{KEY}", constant_key)]
                $($function)*
            }

            pub(super) $($call)*
        }

        mod guarded {
            use super::*;

            struct Shop(Part);

            impl Shop {
                #[distributed_lock(key = "{KEY}", constant_key, guard = _lock)]
                $($function)*
            }

            pub(super) $($call)*
        }
    };
    ($($function:tt)*) => {
        mod plain {
            use super::*;

            pub(super) $($function)*
        }

        mod annotated {
            use super::*;

            #[distributed_lock(key = "{KEY}", constant_key)]
            pub(super) $($function)*
        }

        mod guarded {
            use super::*;

            #[distributed_lock(key = "{KEY}", constant_key, guard = _lock)]
            pub(super) $($function)*
        }
    };
}

/// Asserts that a call of each of the three drops the same parts in the same order.
macro_rules! compare {
    ($part:ident => $call:ident($($argument:expr),*)) => {{
        let $part = |name| Part::new(name, None);
        plain::$call($($argument),*).await?;
        let expected = DROPPED.take();
        let $part = |name| Part::new(name, Some(KEY));
        locked(KEY, annotated::$call($($argument),*)).await??;
        assert_eq!(DROPPED.take(), expected);
        locked(KEY, guarded::$call($($argument),*)).await??;
        assert_eq!(DROPPED.take(), expected);
    }};
    (blocking $part:ident => $call:ident($($argument:expr),*)) => {{
        let $part = |name| Part::new(name, None);
        plain::$call($($argument),*)?;
        let expected = DROPPED.take();
        let $part = |name| Part::new(name, Some(KEY));
        locked_blocking(KEY, || annotated::$call($($argument),*))??;
        assert_eq!(DROPPED.take(), expected);
        locked_blocking(KEY, || guarded::$call($($argument),*))??;
        assert_eq!(DROPPED.take(), expected);
    }};
}

mod asynchronous {
    use super::*;

    const KEY: &str = "drops:asynchronous";

    three! {
        async fn run(used: Part, _unused: Part, pair: Pair, (left, right): (Part, Part)) -> Outcome {
            let _local = used.local();
            tokio::task::yield_now().await;
            let _moved = pair.0;
            let _ = (right.name, left.name);
            Ok(())
        }
    }

    #[tokio::test]
    async fn async_fn() -> Outcome {
        compare!(part => run(
            part("used"), part("unused"), pair(part("first"), part("second")), (part("left"), part("right"))
        ));
        Ok(())
    }
}

mod sync {
    use super::*;

    const KEY: &str = "drops:sync";

    three! {
        fn run(used: Part, _unused: Part, pair: Pair, (left, right): (Part, Part)) -> Outcome {
            let _local = used.local();
            let _moved = pair.0;
            let _ = (right.name, left.name);
            Ok(())
        }
    }

    #[test]
    fn sync_fn() -> Outcome {
        compare!(blocking part => run(
            part("used"), part("unused"), pair(part("first"), part("second")), (part("left"), part("right"))
        ));
        Ok(())
    }
}

mod async_methods {
    use super::*;

    const KEY: &str = "drops:async_methods";

    three! {
        impl {
            async fn run(self, used: Part) -> Outcome {
                let _local = used.local();
                tokio::task::yield_now().await;
                let _ = self.0.name;
                Ok(())
            }
        }
        async fn run(receiver: Part, used: Part) -> Outcome {
            Shop(receiver).run(used).await
        }
    }

    #[tokio::test]
    async fn async_method_by_value() -> Outcome {
        compare!(part => run(part("receiver"), part("used")));
        Ok(())
    }
}

mod methods {
    use super::*;

    const KEY: &str = "drops:methods";

    three! {
        impl {
            fn run(self: Box<Self>, _unused: Part) -> Outcome {
                assert_eq!(self.0.name, "receiver");
                Ok(())
            }
        }
        fn run(receiver: Part, unused: Part) -> Outcome {
            Box::new(Shop(receiver)).run(unused)
        }
    }

    #[test]
    fn sync_method_by_box() -> Outcome {
        compare!(blocking part => run(part("receiver"), part("unused")));
        Ok(())
    }
}

mod boxed {
    use super::*;

    const KEY: &str = "drops:boxed";

    three! {
        fn run(used: Part, pair: Pair, _unused: Part) -> Pin<Box<dyn Future<Output = Outcome>>> {
            Box::pin(async move {
                let _local = used.local();
                tokio::task::yield_now().await;
                let _moved = pair.1;
                Ok(())
            })
        }
    }

    #[tokio::test]
    async fn boxed_future() -> Outcome {
        // An argument that the block does not use is not in the future: it is dropped before the
        // future runs.
        let outside = |name| Part::new(name, None);
        compare!(part => run(part("used"), pair(outside("first"), part("second")), outside("unused")));
        Ok(())
    }
}

mod traits {
    use super::*;

    const KEY: &str = "drops:traits";

    #[async_trait::async_trait]
    trait Store {
        async fn by_value(self: Box<Self>, used: Part, _: Part, last: Part) -> Outcome;
        async fn with_patterns(&self, used: Part, both: (Part, Part), unused: Part) -> Outcome;
    }

    macro_rules! store {
        ($module:ident $(#[$attribute:meta])?) => {
            mod $module {
                use super::*;

                pub(super) struct Shop(pub(super) Part);

                #[async_trait::async_trait]
                impl Store for Shop {
                    $(#[$attribute])?
                    async fn by_value(self: Box<Self>, used: Part, _: Part, last: Part) -> Outcome {
                        let _local = used.local();
                        tokio::task::yield_now().await;
                        let _ = (&last, &self.0);
                        Ok(())
                    }

                    $(#[$attribute])?
                    async fn with_patterns(&self, used: Part, (left, right): (Part, Part), _unused: Part) -> Outcome {
                        let _local = left.local();
                        tokio::task::yield_now().await;
                        let _ = (&right, &used);
                        Ok(())
                    }
                }
            }
        };
    }

    store!(plain);
    store!(annotated #[distributed_lock(key = "{KEY}", constant_key)]);
    store!(guarded #[distributed_lock(key = "{KEY}", constant_key, guard = _lock)]);

    async fn by_value(shop: impl Store, part: impl Fn(&'static str) -> Part) -> Outcome {
        Box::new(shop).by_value(part("used"), part("unnamed"), part("last")).await
    }

    async fn with_patterns(shop: &impl Store, part: impl Fn(&'static str) -> Part) -> Outcome {
        shop.with_patterns(part("used"), (part("left"), part("right")), part("unused")).await
    }

    #[tokio::test]
    async fn async_trait() -> Outcome {
        let (plain, part) = (|name| Part::new(name, None), |name| Part::new(name, Some(KEY)));
        by_value(plain::Shop(plain("receiver")), plain).await?;
        let expected = DROPPED.take();
        locked(KEY, by_value(annotated::Shop(part("receiver")), part)).await??;
        assert_eq!(DROPPED.take(), expected);
        locked(KEY, by_value(guarded::Shop(part("receiver")), part)).await??;
        assert_eq!(DROPPED.take(), expected);

        with_patterns(&plain::Shop(plain("receiver")), plain).await?;
        let expected = DROPPED.take();
        let receiver = || Part::new("receiver", None);
        locked(KEY, with_patterns(&annotated::Shop(receiver()), part)).await??;
        assert_eq!(DROPPED.take(), expected);
        locked(KEY, with_patterns(&guarded::Shop(receiver()), part)).await??;
        assert_eq!(DROPPED.take(), expected);
        Ok(())
    }
}

/// Arguments that the body does not name, and those of which a field or a method has the name.
mod unused {
    use super::*;

    const KEY: &str = "drops:unused";
    /// The key of the async functions: both tests run at the same time, and each call has one try.
    const ASYNC_KEY: &str = "drops:unused async";

    fn part() -> Part {
        Part::new("argument", Some(KEY))
    }

    fn async_part() -> Part {
        Part::new("argument", Some(ASYNC_KEY))
    }

    struct Order {
        part: u32,
    }

    impl Order {
        fn other(&self) -> u32 {
            self.part
        }
    }

    #[allow(unused_variables, reason = "that is the test")]
    mod functions {
        use super::*;

        #[distributed_lock(key = "{KEY}", constant_key)]
        pub(super) fn sync(part: Part) -> Outcome {
            Ok(())
        }

        #[distributed_lock(key = "{ASYNC_KEY}", constant_key)]
        pub(super) async fn asynchronous(part: Part) -> Outcome {
            Ok(())
        }

        #[distributed_lock(key = "{KEY}", constant_key)]
        pub(super) fn field(part: Part, order: Order) -> Outcome<u32> {
            Ok(order.part)
        }

        #[distributed_lock(key = "{KEY}", constant_key)]
        pub(super) fn method(other: Part, order: &Order) -> Outcome<u32> {
            Ok(order.other())
        }

        #[distributed_lock(key = "{KEY}", constant_key)]
        pub(super) fn shadowed(part: Part) -> Outcome<u32> {
            let part = 7;
            Ok(part)
        }

        #[distributed_lock(key = "{ASYNC_KEY}", constant_key)]
        pub(super) async fn pattern((part, other): (Part, Part), Pair(first, _): Pair) -> Outcome<usize> {
            Ok(first.name.len())
        }

        #[distributed_lock(key = part.key())]
        pub(super) fn key(part: Part) -> Outcome {
            Ok(())
        }
    }

    #[test]
    fn those_of_a_sync_function_are_dropped_while_the_lock_is_held() -> Outcome {
        managers()?;
        functions::sync(part())?;
        functions::field(part(), Order { part: 7 })?;
        functions::method(part(), &Order { part: 7 })?;
        functions::shadowed(part())?;
        functions::key(part())?;
        assert_eq!(DROPPED.take().len(), 5);
        Ok(())
    }

    #[tokio::test]
    async fn those_of_an_async_function_are_dropped_while_the_lock_is_held() -> Outcome {
        managers()?;
        functions::asynchronous(async_part()).await?;
        let pair = Pair(async_part(), Part::new("no name", None));
        functions::pattern((async_part(), async_part()), pair).await?;
        assert_eq!(DROPPED.take().len(), 5);
        Ok(())
    }
}
