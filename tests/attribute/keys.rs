//! Each way to write a key, and the key that it gives.

use super::*;

mod in_parentheses {
    use super::*;

    #[distributed_lock(key = ("in:parentheses:{id}"), renew = !false)]
    async fn parentheses(id: u32) -> Outcome<u32> {
        held("in:parentheses:7").await?;
        Ok(id)
    }

    #[distributed_lock(key = &{ "in:a block:{id}" })]
    fn block(id: u32) -> Outcome<u32> {
        held_blocking("in:a block:7")?;
        Ok(id)
    }

    macro_rules! lock_it {
        ($name:ident, $key:expr, $once:literal) => {
            #[distributed_lock(key = $key, ttl = "50ms", renew = !$once)]
            async fn $name(id: u32) -> Outcome<u32> {
                let _ = id;
                std::future::pending().await
            }
        };
    }

    lock_it!(once, ("in:a macro:{id}"), true);

    #[tokio::test]
    async fn a_template_is_one_in_parentheses_too() -> Outcome {
        assert_eq!(locked("in:parentheses:7", parentheses(7)).await??, 7);
        Ok(())
    }

    #[test]
    fn a_template_is_one_in_a_block_too() -> Outcome {
        assert_eq!(locked_blocking("in:a block:7", || block(7))??, 7);
        Ok(())
    }

    #[tokio::test]
    async fn not_of_a_macro_means_not() -> Outcome {
        managers()?;
        let lost = once(7).await;
        assert!(matches!(lost, Err(LockError::Lost { .. })), "{lost:?}");
        Ok(())
    }
}

mod calls {
    use super::*;

    /// As in `tonic`: the fields are private.
    struct Request<T>(T);

    impl<T> Request<T> {
        fn get_ref(&self) -> &T {
            &self.0
        }
    }

    struct Order {
        id: u32,
    }

    struct Shop(u32);

    impl Shop {
        fn tenant(&self) -> String {
            format!("acme:{}", self.0)
        }

        #[distributed_lock(key = "calls:{self.tenant()}:{request.get_ref().id:03}:{request.get_ref().id:03}")]
        async fn buy(&self, request: Request<Order>) -> Outcome<u32> {
            held("calls:acme%3A7:008:008").await?;
            Ok(self.0 + request.0.id)
        }
    }

    #[distributed_lock(key = "calls:{name.len()}:{name.to_uppercase().len()}")]
    fn count(name: &str) -> Outcome<usize> {
        held_blocking("calls:3:3")?;
        Ok(name.len())
    }

    #[tokio::test]
    async fn async_method() -> Outcome {
        let call = async { Shop(7).buy(Request(Order { id: 8 })).await };
        assert_eq!(locked("calls:acme%3A7:008:008", call).await??, 15);
        Ok(())
    }

    #[test]
    fn sync_method() -> Outcome {
        assert_eq!(locked_blocking("calls:3:3", || count("hat"))??, 3);
        Ok(())
    }
}

mod separators {
    use super::*;

    #[distributed_lock(key = "transfer:{from}-{to}/{number:02}", guard = lock)]
    fn transfer(from: &str, to: &str, number: u32) -> Outcome<String> {
        Ok(lock.key().to_owned())
    }

    #[distributed_lock(keys = ["a-b {from}_{to}", "c-d {to}.{from}"], guard = lock)]
    fn several(from: &str, to: &str) -> Outcome<String> {
        Ok(lock.keys().collect::<Vec<_>>().join(", "))
    }

    #[test]
    fn what_separates_two_values_is_in_neither_of_them() -> Outcome {
        managers()?;
        assert_eq!(transfer("eu", "us", 7)?, "transfer:eu-us/07");
        assert_eq!(transfer("eu-west", "us", 7)?, "transfer:eu%2Dwest-us/07");
        assert_eq!(transfer("eu", "west-us/7", 7)?, "transfer:eu-west%2Dus%2F7/07");
        assert_eq!(transfer("eu_west", "u.s", 7)?, "transfer:eu_west-u.s/07");
        assert_eq!(several("a_b-c.d", "e")?, "a-b a%5Fb-c.d_e, c-d e.a_b-c%2Ed");
        Ok(())
    }
}

mod a_trait_of_the_same_names {
    use super::*;

    /// Implemented for every type, by value: method lookup finds these methods before ours.
    trait Html: Sized {
        fn escape(self, _: impl Sized) -> u8 {
            1
        }
        fn render(self, _: impl Sized, _: &str) -> u8 {
            2
        }
    }

    impl<T> Html for T {}

    #[distributed_lock(key = "html:{id}")]
    async fn asynchronous(id: u32) -> Outcome<u32> {
        held("html:7").await?;
        Ok(id + u32::from(id.escape(id)) + u32::from(id.render(id, "")))
    }

    #[tokio::test]
    async fn async_fn() -> Outcome {
        assert_eq!(locked("html:7", asynchronous(7)).await??, 10);
        Ok(())
    }
}

mod the_same_name_twice {
    use super::*;

    macro_rules! lock_it {
        ($name:ident, $sync:ident, $theirs:ident) => {
            #[distributed_lock(key = "twice:{id}")]
            async fn $name(id: u32, $theirs: u32) -> Outcome<u32> {
                held("twice:1").await?;
                Ok(10 * id + $theirs)
            }

            #[distributed_lock(key = "twice:{id}:{id.to_string()}")]
            fn $sync($theirs: u32, id: u32) -> Outcome<u32> {
                held_blocking("twice:2:2")?;
                Ok(10 * id + $theirs)
            }
        };
    }

    lock_it!(macros_first, macros_last, id);

    #[tokio::test]
    async fn a_template_of_the_macro_means_the_argument_of_the_macro() -> Outcome {
        assert_eq!(locked("twice:1", macros_first(1, 2)).await??, 12);
        assert_eq!(locked_blocking("twice:2:2", || macros_last(1, 2))??, 21);
        Ok(())
    }
}

mod a_guard_of_the_same_name {
    use super::*;

    macro_rules! lock_it {
        ($name:ident, $theirs:ident) => {
            #[distributed_lock(key = redlocked::key!("guards:{}", $theirs), guard = lock)]
            async fn $name($theirs: u32) -> Outcome<u32> {
                assert_eq!(lock.key(), "guards:7");
                Ok($theirs)
            }
        };
        (sync $name:ident, $theirs:ident) => {
            #[distributed_lock(key = redlocked::key!("guards:sync:{}", $theirs), guard = lock)]
            fn $name($theirs: u32) -> Outcome<u32> {
                assert_eq!(lock.key(), "guards:sync:7");
                Ok($theirs)
            }
        };
    }

    lock_it!(asynchronous, lock);
    lock_it!(sync blocking, lock);

    #[tokio::test]
    async fn the_macros_guard_does_not_hide_the_callers_argument() -> Outcome {
        assert_eq!(locked("guards:7", asynchronous(7)).await??, 7);
        assert_eq!(locked_blocking("guards:sync:7", || blocking(7))??, 7);
        Ok(())
    }
}

mod generic_constants {
    use super::*;

    #[allow(non_upper_case_globals)]
    #[distributed_lock(key = "shards:{N}:{size}", guard = lock)]
    fn blocking<const N: usize, const size: usize>(_items: [u8; N], id: u32) -> Outcome<u32> {
        assert_eq!(lock.key(), "shards:3:4");
        Ok(id)
    }

    #[test]
    fn sync_fn() -> Outcome {
        managers()?;
        assert_eq!(blocking::<3, 4>([0; 3], 7)?, 7);
        Ok(())
    }
}

mod by_hand {
    use super::*;
    use redlocked::key;

    struct Shop(u32);

    impl Shop {
        #[distributed_lock(key = key!("by hand:{self.0}:{id}"))]
        async fn buy(&self, id: u32) -> Outcome<u32> {
            held("by hand:7:8").await?;
            Ok(self.0 + id)
        }
    }

    #[async_trait::async_trait]
    trait Store {
        async fn load(&self, pair: (u32, u32)) -> Outcome<u32>;
    }

    #[async_trait::async_trait]
    impl Store for Shop {
        #[distributed_lock(key = redlocked::key!("by hand:{}:{low}", self.0))]
        async fn load(&self, (low, high): (u32, u32)) -> Outcome<u32> {
            held("by hand:7:8").await?;
            Ok(self.0 + low + high)
        }
    }

    macro_rules! lock_it {
        ($name:ident, $argument:ident, $key:literal) => {
            #[distributed_lock(key = key!($key, $argument = $argument))]
            fn $name($argument: u32) -> Outcome<u32> {
                held_blocking(&key!($key, $argument = 7))?;
                Ok($argument)
            }
        };
    }

    lock_it!(by_a_macro, r#type, "by hand:a macro:{type:02}");

    #[tokio::test]
    async fn async_methods() -> Outcome {
        assert_eq!(locked("by hand:7:8", Shop(7).buy(8)).await??, 15);
        assert_eq!(locked("by hand:7:8", Shop(7).load((8, 9))).await??, 24);
        Ok(())
    }

    #[test]
    fn sync_fn() -> Outcome {
        assert_eq!(locked_blocking("by hand:a macro:07", || by_a_macro(7))??, 7);
        Ok(())
    }

    #[test]
    fn temporaries_live_long_enough() {
        let order = std::sync::RwLock::new((7, "a:b".to_owned()));
        let order = || order.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        assert_eq!(key!("{}:{name:>5}", order().0, name = order().1,), "7:  a%3Ab");
        assert_eq!(key!(("{}{{{}}}"), 1, 2), "1{2}");
        assert_eq!(key!("nightly"), "nightly");
    }
}

/// A name without a lower-case letter may be a variable, a constant, a static or a generic
/// constant: `key!` gives the key of the attribute, which escapes what is an argument.
mod names_that_could_be_constants {
    #![allow(
        non_snake_case,
        non_upper_case_globals,
        clippy::just_underscores_and_digits,
        clippy::used_underscore_binding,
        clippy::redundant_closure_call,
        reason = "the names, and what captures them, are the test"
    )]

    use super::*;
    use redlocked::key;

    const TENANT: &str = "acme-eu:1";
    static REGION: &str = "{eu}-1";
    const tenant: &str = "acme:2";

    #[distributed_lock(key = "a:{数}:{名}", guard = lock)]
    fn caseless(数: &str, 名: &str) -> Outcome<String> {
        assert_eq!(lock.key(), key!("a:{数}:{名}"));
        assert_eq!(lock.key(), key!("a:{}:{}", 数, 名));
        Ok(lock.key().to_owned())
    }

    #[distributed_lock(key = "b:{_1}-{_2}", guard = lock)]
    fn numbered(_1: &str, _2: &str) -> Outcome<String> {
        assert_eq!(lock.key(), key!("b:{_1}-{_2}"));
        Ok(lock.key().to_owned())
    }

    #[distributed_lock(key = "c:{A}-{B.0}", guard = lock)]
    fn upper_case(A: &str, B: (&str,)) -> Outcome<String> {
        assert_eq!(lock.key(), key!("c:{A}-{B.0}"));
        Ok(lock.key().to_owned())
    }

    #[distributed_lock(key = "d:{TENANT}-{REGION}-{tenant}-{N}-{C}-{id}", guard = lock)]
    fn constants<const N: i32, const C: char>(id: &str) -> Outcome<String> {
        assert_eq!(lock.key(), key!("d:{TENANT}-{REGION}-{tenant}-{N}-{C}-{id}"));
        Ok(lock.key().to_owned())
    }

    #[test]
    fn other_values_give_another_key_and_key_gives_the_same() -> Outcome {
        managers()?;
        assert_eq!(caseless("1:2", "3")?, "a:1%3A2:3");
        assert_eq!(caseless("1", "2:3")?, "a:1:2%3A3");
        assert_eq!(numbered("1-2", "3")?, "b:1%2D2-3");
        assert_eq!(upper_case("1-2", ("3",))?, "c:1%2D2-3");
        let (A, 数) = ("1-2", "3");
        assert_eq!(key!("c:{A}-{数}"), "c:1%2D2-3");
        assert_eq!((|| key!("c:{A}-{数}"))(), "c:1%2D2-3");
        let key = constants::<-1, '-'>("x-y")?;
        assert_eq!(key, "d:acme-eu:1-{eu}-1-acme:2--1---x%2Dy");
        Ok(())
    }
}
