//! Boxed futures: `#[async_trait]` of today and of old, and those that are written by hand.

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
