//! Boxed futures: by the current and an older `#[async_trait]`, and written by hand.

use super::*;

pub(super) struct Bank {
    pub(super) name: String,
    pub(super) locks: LockManager,
    pub(super) total: u64,
}

pub(super) fn bank() -> Outcome<Bank> {
    Ok(Bank { name: "b".to_owned(), locks: managers()?.0.clone(), total: 0 })
}

mod in_traits {
    use super::*;

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
}

mod receiver_in_a_string {
    use super::*;

    #[async_trait::async_trait]
    trait Counter {
        async fn add(&mut self, n: u32, both: (u32, u32)) -> Outcome<u32>;
    }

    #[async_trait::async_trait]
    impl Counter for u32 {
        #[distributed_lock(key = format!("counter:{self}:{}", both.0), on_busy = Ok(0))]
        async fn add(&mut self, n: u32, both: (u32, u32)) -> Outcome<u32> {
            held("counter:7:8").await?;
            *self += n + both.1;
            Ok(*self)
        }
    }

    #[tokio::test]
    async fn async_method() -> Outcome {
        assert_eq!(locked("counter:7:8", 7.add(1, (8, 9))).await??, 17);
        Ok(())
    }
}

mod by_hand {
    use super::*;

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

mod generic_traits {
    use super::*;

    #[async_trait::async_trait]
    trait Store<'a, T: Send + 'a> {
        type Id: Display + Send + Sync;

        async fn load<Q>(&self, id: Self::Id, query: Q) -> Outcome<Option<&T>>
        where
            Q: Display + Send + Sync;
        async fn named<'b>(&'b self, word: &'b str, other: &str) -> Outcome<&'b str>;
        async fn patterns(
            &mut self,
            first: &u32,
            second: (u32, &str),
            third: [u32; 2],
            fourth: u32,
            kind: u32,
        ) -> Outcome<u32>;
        async fn by_arc(self: Arc<Self>) -> Outcome<usize>;
        async fn by_value(mut self) -> Outcome<u32>
        where
            Self: Sized;
    }

    struct Shelf<'a, T>(&'a str, T);

    #[async_trait::async_trait]
    impl<'a, T> Store<'a, T> for Shelf<'a, T>
    where
        T: Display + Send + Sync + 'a,
    {
        type Id = u32;

        #[distributed_lock(key = "shelf:{self.0}:{self.1}:{id}:{query}", guard = lock, on_lost = "cancel")]
        async fn load<Q>(&self, id: Self::Id, query: Q) -> Outcome<Option<&T>>
        where
            Q: Display + Send + Sync,
        {
            held("shelf:a:9:7:q").await?;
            assert_eq!(lock.key(), format!("shelf:a:9:7:{query}"));
            Ok((id == 7).then_some(&self.1))
        }

        #[distributed_lock(key = "shelf:named:{word}:{other}", wait = std::time::Duration::from_secs(self.0.len() as u64))]
        async fn named<'b>(&'b self, word: &'b str, other: &str) -> Outcome<&'b str> {
            held("shelf:named:a:b").await?;
            let _ = other;
            Ok(word)
        }

        #[distributed_lock(key = "shelf:{first}:{second}:{text}:{low}:{gen}")]
        async fn patterns(
            &mut self,
            &first: &u32,
            (mut second, text): (u32, &str),
            [low, ..]: [u32; 2],
            _: u32,
            r#gen: u32,
        ) -> Outcome<u32> {
            held("shelf:1:2:a:3:7").await?;
            let _ = text;
            second += 1;
            Ok(first + second + low + r#gen)
        }

        #[distributed_lock(key = "shelf:arc:{self.0}", manager = managers()?.0)]
        async fn by_arc(self: Arc<Self>) -> Outcome<usize> {
            held("shelf:arc:a").await?;
            Ok(Arc::strong_count(&self))
        }

        #[distributed_lock(key = "shelf:value:{self.0}", on_busy = Ok(0))]
        async fn by_value(mut self) -> Outcome<u32>
        where
            Self: Sized,
        {
            held("shelf:value:a").await?;
            self.0 = "b";
            Ok(7)
        }
    }

    #[tokio::test]
    async fn async_method() -> Outcome {
        let mut shelf = Shelf("a", 9);
        assert_eq!(locked("shelf:a:9:7:q", shelf.load(7, "q")).await??, Some(&9));
        assert_eq!(locked("shelf:named:a:b", shelf.named("a", "b")).await??, "a");
        assert_eq!(locked("shelf:1:2:a:3:7", shelf.patterns(&1, (2, "a"), [3, 4], 5, 7)).await??, 14);
        assert_eq!(locked("shelf:value:a", shelf.by_value()).await??, 7);
        assert_eq!(locked("shelf:arc:a", Arc::new(Shelf("a", 9)).by_arc()).await??, 1);
        Ok(())
    }
}

mod not_send {
    use std::rc::Rc;

    use super::*;

    #[async_trait::async_trait(?Send)]
    trait Local {
        async fn run(&self, n: Rc<u32>) -> Outcome<u32>;
    }

    #[async_trait::async_trait(?Send)]
    impl Local for Rc<u32> {
        #[distributed_lock(key = "local:{self}:{n}")]
        async fn run(&self, n: Rc<u32>) -> Outcome<u32> {
            let another = Rc::clone(self);
            held("local:7:8").await?;
            Ok(*another + *n)
        }
    }

    #[tokio::test]
    async fn async_method() -> Outcome {
        assert_eq!(locked("local:7:8", Rc::new(7).run(Rc::new(8))).await??, 15);
        Ok(())
    }
}

/// As `#[async_trait]` wrote it before 0.1.44.
mod older_async_trait {
    use super::*;

    impl Bank {
        #[distributed_lock(key = "older:{self.name}:above:{n}")]
        #[tracing::instrument(skip(self), err)]
        fn above<'life0, 'async_trait>(
            &'life0 self,
            n: u64,
        ) -> Pin<Box<dyn Future<Output = Outcome<u64>> + Send + 'async_trait>>
        where
            'life0: 'async_trait,
        {
            #[expect(clippy::used_underscore_binding)]
            async fn __above(_self: &Bank, n: u64) -> Outcome<u64> {
                held("older:b:above:7").await?;
                Ok(_self.total + n)
            }
            Box::pin(__above(self, n))
        }

        #[tracing::instrument(skip(self), err)]
        #[distributed_lock(key = "older:{self.name}:below:{n}")]
        fn below<'life0, 'async_trait>(
            &'life0 self,
            n: u64,
        ) -> Pin<Box<dyn Future<Output = Outcome<u64>> + Send + 'async_trait>>
        where
            'life0: 'async_trait,
        {
            #[expect(clippy::used_underscore_binding)]
            async fn __below(_self: &Bank, n: u64) -> Outcome<u64> {
                held("older:b:below:7").await?;
                Ok(_self.total + n)
            }
            Box::pin(__below(self, n))
        }
    }

    #[tokio::test]
    async fn instrumented() -> Outcome {
        let bank = bank()?;
        assert_eq!(locked("older:b:above:7", bank.above(7)).await??, 7);
        assert_eq!(locked("older:b:below:7", bank.below(7)).await??, 7);
        Ok(())
    }
}

/// The usual shape of a `tower::Service`: what a `'static` future needs is cloned before it.
mod services {
    use super::*;

    trait Service {
        type Future: Future<Output = Outcome<u32>>;

        fn call(&mut self, id: u32) -> Self::Future;
    }

    #[derive(Clone)]
    struct Stock {
        sold: Arc<Part>,
        name: &'static str,
    }

    struct Part(u32);

    impl Drop for Part {
        fn drop(&mut self) {
            let held = held_blocking("service:clone");
            assert!(held.is_ok(), "dropped after the lock: {held:?}");
        }
    }

    impl Service for Stock {
        type Future = Pin<Box<dyn Future<Output = Outcome<u32>> + Send>>;

        #[distributed_lock(key = "service:{id}")]
        fn call(&mut self, id: u32) -> Self::Future {
            let sold = Arc::clone(&self.sold);
            let name: &'static str = self.name;
            Box::pin(async move {
                held(&format!("service:{id}")).await?;
                assert_eq!(name, "stock");
                Ok(sold.0 + id)
            })
        }
    }

    /// As tower's documentation has it: the clone that is ready is taken.
    struct Outer<S>(S);

    impl<S: Service + Clone + Send + 'static> Service for Outer<S>
    where
        S::Future: Send,
    {
        type Future = Pin<Box<dyn Future<Output = Outcome<u32>> + Send>>;

        #[distributed_lock(key = "service:outer:{id}", guard = lock)]
        fn call(&mut self, id: u32) -> Self::Future {
            let clone = self.0.clone();
            let mut inner = std::mem::replace(&mut self.0, clone);
            Box::pin(async move {
                held(lock.key()).await?;
                inner.call(id).await
            })
        }
    }

    /// What was cloned may be in the key.
    #[distributed_lock(key = "service:{name}", constant_key = false)]
    fn named(stock: &Stock, part: &Arc<Part>) -> Pin<Box<dyn Future<Output = Outcome> + Send>> {
        let name = stock.name.to_owned();
        let part = part.clone();
        Box::pin(async move {
            held("service:clone").await?;
            assert_eq!(name, "clone");
            assert_eq!(part.0, 7);
            Ok(())
        })
    }

    /// Without `move`: what is borrowed lives as long as without the attribute.
    struct Pool(Vec<u32>);

    #[allow(clippy::manual_async_fn, reason = "the block without `move` is the test")]
    impl Pool {
        #[distributed_lock(key = "service:no move:{x}")]
        fn first<'a>(&'a self, x: &'a str) -> impl Future<Output = Outcome<usize>> + 'a {
            async {
                held("service:no move:a").await?;
                Ok(self.0.len() + x.len())
            }
        }

        #[distributed_lock(key = "service:no move:{n}")]
        fn second<'a>(&'a self, n: &'a u32) -> Pin<Box<dyn Future<Output = Outcome<u32>> + Send + 'a>> {
            Box::pin(async { self.first("a").await.map(|length| u32::try_from(length).unwrap_or(*n)) })
        }

        #[distributed_lock(key = "service:no move:{n}")]
        fn third(n: u32) -> impl Future<Output = Outcome<u32>> {
            async { Ok(1) }
        }
    }

    trait Boxed: Future + Sized + Send {
        fn boxed<'a>(self) -> Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>
        where
            Self: 'a,
        {
            Box::pin(self)
        }
    }

    impl<F: Future + Send> Boxed for F {}

    #[distributed_lock(key = "service:boxed:{n}")]
    fn boxed<'a>(n: u32) -> Pin<Box<dyn Future<Output = Outcome<u32>> + Send + 'a>> {
        async move {
            held("service:boxed:7").await?;
            Ok(n)
        }
        .boxed()
    }

    #[tokio::test]
    async fn what_is_cloned_moves_into_the_future() -> Outcome {
        managers()?;
        let sold = Arc::new(Part(1));
        let mut stock = Stock { sold: Arc::clone(&sold), name: "stock" };
        assert_eq!(locked("service:7", stock.call(7)).await??, 8);
        assert_eq!(locked("service:outer:7", Outer(stock.clone()).call(7)).await??, 8);
        let named = named(&Stock { name: "clone", ..stock.clone() }, &Arc::new(Part(7)));
        locked("service:clone", named).await??;
        // Their destructor looks for that lock.
        let _held = managers()?.0.lock("service:clone").acquire().await?;
        drop((stock, sold));
        Ok(())
    }

    #[tokio::test]
    async fn a_block_without_move() -> Outcome {
        let pool = Pool(vec![1]);
        assert_eq!(locked("service:no move:a", pool.first("a")).await??, 2);
        assert_eq!(pool.second(&7).await?, 2);
        assert_eq!(Pool::third(7).await?, 1);
        assert_eq!(locked("service:boxed:7", boxed(7)).await??, 7);
        Ok(())
    }
}
