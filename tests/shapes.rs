//! Every shape of function, run: the lock is taken before the body, and given back after it.
//!
//! Inside each body a second manager on the same store is refused the key; before and after the call it gets it.
//! A shape that compiles but locks nothing, as a future that is returned before it runs, fails here.

use std::cell::Cell;
use std::fmt::Display;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use redlocked::{LockError, LockGuard, LockManager, distributed_lock};

#[path = "shapes/holding.rs"]
mod holding;

type Outcome<T = ()> = Result<T, LockError>;

/// The managers of two processes: the first is the one that the attribute finds.
fn managers() -> Outcome<&'static (LockManager, LockManager)> {
    static MANAGERS: OnceLock<Outcome<(LockManager, LockManager)>> = OnceLock::new();
    let connect = || LockManager::connect_blocking("memory://shapes");
    let managers = MANAGERS.get_or_init(|| {
        let managers = (connect()?, connect()?);
        managers.0.set_global();
        Ok(managers)
    });
    managers.as_ref().map_err(Clone::clone)
}

/// Called by each body: nobody else gets the lock now.
async fn held(key: &str) -> Outcome {
    let refused = managers()?.1.lock(key).try_acquire().await;
    assert!(matches!(&refused, Err(error) if error.is_busy()), "the body runs without its lock: {refused:?}");
    Ok(())
}

fn held_blocking(key: &str) -> Outcome {
    let refused = managers()?.1.lock(key).acquire_blocking();
    assert!(matches!(&refused, Err(error) if error.is_busy()), "the body runs without its lock: {refused:?}");
    Ok(())
}

/// The lock is free before and after `call`.
async fn locked<T>(key: &str, call: impl Future<Output = T>) -> Outcome<T> {
    let others = &managers()?.1;
    others.lock(key).try_acquire().await?.release().await?;
    let output = call.await;
    others.lock(key).try_acquire().await?.release().await?;
    Ok(output)
}

fn locked_blocking<T>(key: &str, call: impl FnOnce() -> T) -> Outcome<T> {
    let others = &managers()?.1;
    others.lock(key).acquire_blocking()?.release_blocking()?;
    let output = call();
    others.lock(key).acquire_blocking()?.release_blocking()?;
    Ok(output)
}

mod functions {
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

mod types {
    use super::*;

    #[distributed_lock(key = "generic:{id}:{N}")]
    async fn generic<'a, T, const N: usize>(id: &'a T, others: [&'a T; N]) -> Outcome<Vec<&'a T>>
    where
        T: Display + PartialEq,
    {
        held(&format!("generic:{id}:{N}")).await?;
        Ok(others.into_iter().filter(|other| *other != id).collect())
    }

    #[tokio::test]
    async fn generics_and_lifetimes() -> Outcome {
        assert_eq!(locked("generic:7:2", generic(&7, [&7, &8])).await??, [&8]);
        Ok(())
    }

    #[distributed_lock(key = "generic:{id}")]
    fn generic_blocking<'a, T: Display>(id: &'a T, list: &'a mut Vec<&'a T>) -> Outcome<&'a mut Vec<&'a T>> {
        held_blocking("generic:9")?;
        list.push(id);
        Ok(list)
    }

    #[test]
    fn sync_generics_and_lifetimes() -> Outcome {
        let mut list = Vec::new();
        assert_eq!(
            locked_blocking("generic:9", || generic_blocking(&9, &mut list).map(|list| list.len()))??,
            1
        );
        Ok(())
    }

    #[distributed_lock(key = "impl:{id}")]
    async fn impl_trait(
        id: impl Display,
        list: impl IntoIterator<Item = u32>,
    ) -> Outcome<impl Iterator<Item = u32>> {
        held("impl:7").await?;
        let _ = &id;
        Ok(list.into_iter().map(|n| n + 1))
    }

    #[tokio::test]
    async fn impl_trait_argument_and_return() -> Outcome {
        let list = locked("impl:7", impl_trait(7, [1, 2])).await??;
        assert_eq!(list.collect::<Vec<_>>(), [2, 3]);
        Ok(())
    }

    #[distributed_lock(key = "impl:sync:{id}", on_error = |_| None)]
    fn impl_trait_blocking(id: impl Display) -> Option<impl Display> {
        held_blocking("impl:sync:7").ok()?;
        Some(id)
    }

    #[test]
    fn sync_impl_trait() -> Outcome {
        let shown = locked_blocking("impl:sync:7", || impl_trait_blocking(7))?;
        assert_eq!(shown.map(|shown| shown.to_string()).as_deref(), Some("7"));
        Ok(())
    }

    struct Path<T>(T);

    struct Point {
        x: u32,
        y: (u32, u32),
    }

    #[distributed_lock(key = "{sku}:{x}:{low}:{first}:{whole:?}:{inner}:{type}")]
    async fn patterns(
        Path(sku): Path<String>,
        Point { x, y: (low, _) }: Point,
        [first, ..]: [u32; 3],
        whole @ (_, _): (u32, u32),
        &inner: &u32,
        _: u32,
        r#type: u32,
    ) -> Outcome<u32> {
        held("a%3Ab:1:2:4:(5, 6):7:8").await?;
        Ok(sku.len().try_into().unwrap_or(0) + x + low + first + whole.0 + inner + r#type)
    }

    #[tokio::test]
    async fn pattern_arguments_and_raw_identifiers() -> Outcome {
        let point = Point { x: 1, y: (2, 3) };
        let call = patterns(Path("a:b".to_owned()), point, [4, 0, 0], (5, 6), &7, 9, 8);
        assert_eq!(locked("a%3Ab:1:2:4:(5, 6):7:8", call).await??, 30);
        Ok(())
    }

    struct Request {
        user: User,
        pair: (u32, (u32, u32)),
        r#type: &'static str,
    }

    struct User {
        id: u32,
    }

    const TENANT: &str = "acme";

    #[distributed_lock(
        key = r#"{TENANT}:{{{req.user.id:04}}}:{req.pair.1.0}:{req.type}:"{req.user.id:#x}"{plain}"#
    )]
    async fn fields(req: &Request, plain: bool) -> Outcome<u32> {
        held("acme:{0007}:2:a:\"0x7\"true").await?;
        Ok(req.user.id + req.pair.0 + u32::from(plain))
    }

    #[tokio::test]
    async fn placeholders_of_fields() -> Outcome {
        let request = Request { user: User { id: 7 }, pair: (1, (2, 3)), r#type: "a" };
        assert_eq!(locked("acme:{0007}:2:a:\"0x7\"true", fields(&request, true)).await??, 9);
        Ok(())
    }

    #[distributed_lock(key = request.user.id.to_string() + ":key", ttl = std::time::Duration::from_secs(request.pair.0.into()))]
    async fn expressions(request: Request) -> Outcome<u32> {
        held("7:key").await?;
        Ok(request.user.id)
    }

    #[tokio::test]
    async fn key_and_ttl_of_expressions() -> Outcome {
        let request = Request { user: User { id: 7 }, pair: (1, (2, 3)), r#type: "a" };
        assert_eq!(locked("7:key", expressions(request)).await??, 7);
        Ok(())
    }
}

mod options {
    use super::*;

    #[distributed_lock(key = "guard", global, guard = lock, ttl = "1m", renew = false)]
    async fn guarded(lockless: &str) -> Outcome<String> {
        held("guard").await?;
        let lock: &LockGuard = lock;
        assert!(lock.is_held());
        Ok(format!("{lockless}{}", lock.key()))
    }

    #[tokio::test]
    async fn guard() -> Outcome {
        assert_eq!(locked("guard", guarded("a ")).await??, "a guard");
        Ok(())
    }

    #[distributed_lock(key = "guard:sync", global, guard = lock, wait = "forever")]
    fn guarded_blocking(list: &mut Vec<String>) -> Outcome<&mut String> {
        held_blocking("guard:sync")?;
        list.push(lock.key().to_owned());
        Ok(&mut list[0])
    }

    #[test]
    fn sync_guard() -> Outcome {
        let mut list = Vec::new();
        let key = locked_blocking("guard:sync", || guarded_blocking(&mut list).map(|key| key.clone()))??;
        assert_eq!(key, "guard:sync");
        Ok(())
    }

    #[derive(Debug, PartialEq)]
    enum Job {
        Done,
        Skipped,
        Failed,
    }

    #[distributed_lock(key = "job:{n}", on_busy = Job::Skipped, on_error = |_| Job::Failed)]
    async fn job(n: u32) -> Job {
        match held(&format!("job:{n}")).await {
            Ok(()) => Job::Done,
            Err(_) => Job::Failed,
        }
    }

    #[distributed_lock(key = "job:{n}", on_busy = Job::Skipped, on_error = fail)]
    fn job_blocking(n: u32) -> Job {
        held_blocking(&format!("job:{n}")).map_or(Job::Failed, |()| Job::Done)
    }

    fn fail(_: LockError) -> Job {
        Job::Failed
    }

    #[tokio::test]
    async fn on_busy() -> Outcome {
        assert_eq!(locked("job:1", job(1)).await?, Job::Done);
        let guard = managers()?.1.lock("job:1").try_acquire().await?;
        assert_eq!(job(1).await, Job::Skipped);
        guard.release().await?;
        assert_eq!(job(1).await, Job::Done);
        Ok(())
    }

    #[test]
    fn sync_on_busy() -> Outcome {
        assert_eq!(locked_blocking("job:2", || job_blocking(2))?, Job::Done);
        let guard = managers()?.1.lock("job:2").acquire_blocking()?;
        assert_eq!(job_blocking(2), Job::Skipped);
        guard.release_blocking()?;
        assert_eq!(job_blocking(2), Job::Done);
        Ok(())
    }

    #[distributed_lock(key = key, on_busy = Job::Skipped, on_error = |_| Job::Failed)]
    async fn job_of(key: &str) -> Job {
        Job::Done
    }

    #[tokio::test]
    async fn on_error() -> Outcome {
        managers()?;
        assert_eq!(job_of("").await, Job::Failed, "an empty key is refused, and nothing runs");
        Ok(())
    }

    #[distributed_lock(key = "nothing", global, on_error = |error| *log = error.to_string())]
    async fn returns_nothing(key: &str, log: &mut String) {
        held("nothing").await.map_or_else(drop, |()| assert_eq!(key, "nothing"));
    }

    #[tokio::test]
    async fn no_return_type() -> Outcome {
        let mut log = String::new();
        locked("nothing", returns_nothing("nothing", &mut log)).await
    }

    mod vendor {
        pub(super) use ::redlocked as renamed;
    }

    #[distributed_lock(key = "renamed", crate = vendor::renamed, guard = lock)]
    async fn renamed() -> Outcome {
        held(lock.key()).await
    }

    #[tokio::test]
    async fn renamed_crate() -> Outcome {
        locked("renamed", renamed()).await?
    }
}

mod methods {
    use super::*;

    #[derive(Clone)]
    struct Shop {
        tenant: String,
        locks: LockManager,
        sold: u32,
    }

    fn shop() -> Outcome<Shop> {
        Ok(Shop { tenant: "acme".to_owned(), locks: managers()?.0.clone(), sold: 0 })
    }

    impl Display for Shop {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(&self.tenant)
        }
    }

    impl Shop {
        #[distributed_lock(key = "ref:{self.tenant}", manager = self.locks)]
        async fn by_ref(&self) -> Outcome<&str> {
            held("ref:acme").await?;
            Ok(&self.tenant)
        }

        #[distributed_lock(key = "mut:{self.tenant}", manager = self.locks)]
        async fn by_mut(&mut self, n: u32) -> Outcome<&mut u32> {
            held("mut:acme").await?;
            self.sold += n;
            Ok(&mut self.sold)
        }

        #[distributed_lock(key = "value:{self}", manager = &self.locks)]
        async fn by_value(mut self) -> Outcome<Self> {
            held("value:acme").await?;
            self.sold += 1;
            Ok(self)
        }

        #[distributed_lock(key = "arc:{self.tenant}", manager = Arc::clone(&self).locks)]
        async fn by_arc(self: Arc<Self>) -> Outcome<usize> {
            held("arc:acme").await?;
            Ok(Arc::strong_count(&self))
        }

        #[distributed_lock(key = "box:{self.tenant}")]
        async fn by_box(self: Box<Self>) -> Outcome<String> {
            held("box:acme").await?;
            Ok(self.tenant)
        }

        #[distributed_lock(key = "pin:{self.tenant}")]
        async fn by_pin(self: Pin<&mut Self>) -> Outcome<u32> {
            held("pin:acme").await?;
            Ok(self.sold)
        }

        #[distributed_lock(key = "static:{tenant}")]
        async fn without(tenant: &str) -> Outcome<Self> {
            held(&format!("static:{tenant}")).await?;
            shop()
        }

        #[distributed_lock(key = "sync:ref:{self.tenant}")]
        fn by_ref_blocking(&self) -> Outcome<&str> {
            held_blocking("sync:ref:acme")?;
            Ok(&self.tenant)
        }

        #[distributed_lock(key = "sync:mut:{self.tenant}", manager = self.locks.clone())]
        fn by_mut_blocking(&mut self) -> Outcome<&mut String> {
            held_blocking("sync:mut:acme")?;
            Ok(&mut self.tenant)
        }

        #[distributed_lock(key = format!("sync:value:{}", self.tenant))]
        fn by_value_blocking(mut self) -> Outcome<Self> {
            held_blocking("sync:value:acme")?;
            self.sold += 1;
            Ok(self)
        }
    }

    #[tokio::test]
    async fn every_receiver() -> Outcome {
        let mut shop = shop()?;
        assert_eq!(locked("ref:acme", shop.by_ref()).await??, "acme");
        assert_eq!(locked("mut:acme", shop.by_mut(2)).await??, &2);
        assert_eq!(locked("value:acme", shop.clone().by_value()).await??.sold, 3);
        assert_eq!(locked("arc:acme", Arc::new(shop.clone()).by_arc()).await??, 1);
        assert_eq!(locked("box:acme", Box::new(shop.clone()).by_box()).await??, "acme");
        assert_eq!(locked("pin:acme", Pin::new(&mut shop).by_pin()).await??, 2);
        assert_eq!(locked("static:acme", Shop::without("acme")).await??.sold, 0);
        Ok(())
    }

    #[test]
    fn every_sync_receiver() -> Outcome {
        let mut shop = shop()?;
        assert_eq!(locked_blocking("sync:ref:acme", || shop.by_ref_blocking().map(str::len))??, 4);
        assert_eq!(locked_blocking("sync:mut:acme", || shop.by_mut_blocking().map(|t| t.len()))??, 4);
        assert_eq!(locked_blocking("sync:value:acme", || shop.by_value_blocking())??.sold, 1);
        Ok(())
    }

    trait Store {
        fn tenant(&self) -> &str;

        fn sell(&mut self, n: u32) -> impl Future<Output = Outcome<u32>> + Send;

        fn count(&self) -> Outcome<u32>;

        #[distributed_lock(key = "default:{n}")]
        fn provided(&self, n: u32) -> Outcome<String> {
            held_blocking("default:7")?;
            Ok(format!("{}{n}", self.tenant()))
        }
    }

    impl Store for Shop {
        fn tenant(&self) -> &str {
            &self.tenant
        }

        #[distributed_lock(key = "sell:{self.tenant}:{n}")]
        async fn sell(&mut self, n: u32) -> Outcome<u32> {
            held("sell:acme:7").await?;
            self.sold += n;
            Ok(self.sold)
        }

        #[distributed_lock(key = "count:{self.tenant}")]
        fn count(&self) -> Outcome<u32> {
            held_blocking("count:acme")?;
            Ok(self.sold)
        }
    }

    #[tokio::test]
    async fn trait_impl() -> Outcome {
        let mut shop = shop()?;
        assert_eq!(locked("sell:acme:7", shop.sell(7)).await??, 7);
        Ok(())
    }

    #[test]
    fn sync_trait_impl_and_provided_method() -> Outcome {
        let shop = shop()?;
        assert_eq!(locked_blocking("count:acme", || shop.count())??, 0);
        assert_eq!(locked_blocking("default:7", || shop.provided(7))??, "acme7");
        Ok(())
    }
}

mod boxed {
    use super::*;

    pub(super) struct Bank {
        pub(super) name: String,
        pub(super) locks: LockManager,
        pub(super) total: u64,
    }

    pub(super) fn bank() -> Outcome<Bank> {
        Ok(Bank { name: "b".to_owned(), locks: managers()?.0.clone(), total: 0 })
    }

    #[async_trait::async_trait]
    trait Account {
        async fn balance(&self) -> Outcome<u64>;
        async fn book(&mut self, amounts: (u64, u64), note: &str, mut by: String) -> Outcome<u64>;
        async fn close(self: Box<Self>) -> Outcome<String>;
        async fn open(name: String) -> Outcome<String>
        where
            Self: Sized;
        async fn guarded(&self) -> Outcome<String>;
        async fn nothing(&mut self);

        #[distributed_lock(key = "boxed:default:{n}")]
        async fn provided(&self, n: u32) -> Outcome<u64> {
            held("boxed:default:7").await?;
            self.balance().await
        }
    }

    #[async_trait::async_trait]
    impl Account for Bank {
        #[distributed_lock(key = "balance:{self.name}", manager = self.locks)]
        async fn balance(&self) -> Outcome<u64> {
            held("balance:b").await?;
            if self.total == 0 {
                return Ok(1);
            }
            Ok(self.total)
        }

        #[distributed_lock(key = "book:{self.name}:{first}:{note}:{by}", manager = self.locks)]
        async fn book(&mut self, (first, second): (u64, u64), note: &str, mut by: String) -> Outcome<u64> {
            held("book:b:1:n:me").await?;
            by.push_str(note);
            self.total += first + second + u64::try_from(by.len()).unwrap_or(0);
            Ok(self.total)
        }

        #[distributed_lock(key = "close:{self.name}")]
        async fn close(self: Box<Self>) -> Outcome<String> {
            held("close:b").await?;
            Ok(self.name)
        }

        #[distributed_lock(key = "open:{name}")]
        async fn open(name: String) -> Outcome<String> {
            held("open:b").await?;
            Ok(name)
        }

        #[distributed_lock(key = format!("guarded:{}", self.name), guard = lock)]
        async fn guarded(&self) -> Outcome<String> {
            held("guarded:b").await?;
            Ok(lock.key().to_owned())
        }

        #[distributed_lock(key = "unit:{self.name}", on_error = |_| ())]
        async fn nothing(&mut self) {
            if held("unit:b").await.is_ok() {
                self.total = 9;
            }
        }
    }

    #[tokio::test]
    async fn async_trait() -> Outcome {
        let mut bank = bank()?;
        assert_eq!(locked("balance:b", bank.balance()).await??, 1);
        assert_eq!(locked("boxed:default:7", bank.provided(7)).await??, 1);
        let booked = locked("book:b:1:n:me", bank.book((1, 2), "n", "me".to_owned())).await??;
        assert_eq!(booked, 6);
        assert_eq!(locked("guarded:b", bank.guarded()).await??, "guarded:b");
        locked("unit:b", bank.nothing()).await?;
        assert_eq!(bank.total, 9);
        assert_eq!(locked("open:b", Bank::open("b".to_owned())).await??, "b");
        assert_eq!(locked("close:b", Box::new(bank).close()).await??, "b");
        Ok(())
    }

    impl Bank {
        /// As `#[async_trait]` wrote it before 0.1.44.
        #[distributed_lock(key = "old:{self.name}:{n}")]
        fn old<'life0, 'async_trait>(
            &'life0 mut self,
            n: u64,
        ) -> Pin<Box<dyn Future<Output = Outcome<u64>> + Send + 'async_trait>>
        where
            'life0: 'async_trait,
        {
            async fn old(this: &mut Bank, n: u64) -> Outcome<u64> {
                held("old:b:7").await?;
                this.total += n;
                Ok(this.total)
            }
            Box::pin(old(self, n))
        }

        #[distributed_lock(key = "hand:{self.name}:{n}")]
        fn by_hand(&mut self, n: u64) -> Pin<Box<dyn Future<Output = Outcome<u64>> + Send + '_>> {
            Box::pin(async move {
                held(&format!("hand:b:{n}")).await?;
                if n > 100 {
                    return Ok(0);
                }
                self.total += n;
                Ok(self.total)
            })
        }
    }

    type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

    #[distributed_lock(key = "alias:{name}")]
    fn by_hand_with_an_alias(name: &str) -> BoxFuture<'_, Outcome<usize>> {
        const ONE: usize = 1;
        Box::pin(async move {
            held("alias:b").await?;
            Ok(name.len() + ONE)
        })
    }

    #[tokio::test]
    async fn by_hand() -> Outcome {
        let mut bank = bank()?;
        assert_eq!(locked("old:b:7", bank.old(7)).await??, 7);
        assert_eq!(locked("hand:b:7", bank.by_hand(7)).await??, 14);
        assert_eq!(locked("alias:b", by_hand_with_an_alias("b")).await??, 2);
        Ok(())
    }

    #[tokio::test]
    async fn nothing_is_locked_before_the_first_poll() -> Outcome {
        let mut bank = bank()?;
        let future = bank.by_hand(8);
        managers()?.1.lock("hand:b:8").try_acquire().await?.release().await?;
        assert_eq!(locked("hand:b:8", future).await??, 8);
        Ok(())
    }
}

mod other_attributes {
    use super::boxed::{Bank, bank};
    use super::*;

    #[distributed_lock(key = "traced:above:{n}")]
    #[tracing::instrument]
    async fn above_instrument(n: u32) -> Outcome<u32> {
        held("traced:above:7").await?;
        Ok(n)
    }

    #[tracing::instrument(skip(n), fields(n = n))]
    #[distributed_lock(key = "traced:below:{n}")]
    async fn below_instrument(n: u32) -> Outcome<u32> {
        held("traced:below:7").await?;
        Ok(n)
    }

    #[distributed_lock(key = "traced:sync:above:{n}")]
    #[tracing::instrument(err)]
    fn sync_above_instrument(n: u32) -> Outcome<u32> {
        held_blocking("traced:sync:above:7")?;
        Ok(n)
    }

    #[tracing::instrument(err)]
    #[distributed_lock(key = "traced:sync:below:{n}")]
    fn sync_below_instrument(n: u32) -> Outcome<u32> {
        held_blocking("traced:sync:below:7")?;
        Ok(n)
    }

    #[async_trait::async_trait]
    trait Traced {
        async fn above(&self, n: u32) -> Outcome<u32>;
        async fn below(&self, n: u32) -> Outcome<u32>;
    }

    #[async_trait::async_trait]
    impl Traced for Bank {
        #[distributed_lock(key = "traced:{self.name}:above:{n}")]
        #[tracing::instrument(skip(self))]
        async fn above(&self, n: u32) -> Outcome<u32> {
            held("traced:b:above:7").await?;
            Ok(n)
        }

        #[tracing::instrument(skip(self))]
        #[distributed_lock(key = "traced:{self.name}:below:{n}")]
        async fn below(&self, n: u32) -> Outcome<u32> {
            held("traced:b:below:7").await?;
            Ok(n)
        }
    }

    #[tokio::test]
    async fn tracing_instrument() -> Outcome {
        assert_eq!(locked("traced:above:7", above_instrument(7)).await??, 7);
        assert_eq!(locked("traced:below:7", below_instrument(7)).await??, 7);
        let bank = bank()?;
        assert_eq!(locked("traced:b:above:7", bank.above(7)).await??, 7);
        assert_eq!(locked("traced:b:below:7", bank.below(7)).await??, 7);
        Ok(())
    }

    #[test]
    fn sync_tracing_instrument() -> Outcome {
        assert_eq!(locked_blocking("traced:sync:above:7", || sync_above_instrument(7))??, 7);
        assert_eq!(locked_blocking("traced:sync:below:7", || sync_below_instrument(7))??, 7);
        Ok(())
    }

    /// Needs the global manager before its own body runs.
    #[distributed_lock(key = "test:above", manager = managers()?.0)]
    #[tokio::test]
    async fn above_tokio_test() -> Outcome {
        held("test:above").await
    }

    #[tokio::test]
    #[distributed_lock(key = "test:below", manager = managers()?.0)]
    async fn below_tokio_test() -> Outcome {
        held("test:below").await
    }

    #[distributed_lock(key = "test:threads", manager = managers()?.0)]
    #[tokio::test(flavor = "multi_thread")]
    async fn above_tokio_test_with_threads() -> Outcome {
        held("test:threads").await
    }
}

mod hygiene {
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

    macro_rules! lock_it {
        ($name:ident, $argument:ident: $ty:ty, $key:literal, $ttl:expr, $body:expr) => {
            #[distributed_lock(key = $key, ttl = $ttl, wait = "1s")]
            async fn $name($argument: $ty, other: u32) -> Outcome<$ty> {
                held("macro:7").await?;
                let _ = other;
                Ok($body)
            }
        };
        ($name:ident of self) => {
            impl Tenant {
                #[distributed_lock(key = "macro:{self.0}:{id}:{id.bits}", crate = $crate::hygiene::vendor)]
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

    lock_it!(in_a_macro, id: u32, "macro:{id}", "10s", id + 1);
    lock_it!(in_a_macro_with_self of self);

    #[tokio::test]
    async fn inside_macro_rules() -> Outcome {
        assert_eq!(locked("macro:7", in_a_macro(7, 1)).await??, 8);
        assert_eq!(locked("macro:7:8:8", Tenant(7).in_a_macro_with_self(Id { bits: 8 })).await??, 15);
        Ok(())
    }

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
