//! `#[tracing::instrument]`, above and below.

use super::*;

mod plain {
    use super::*;

    #[distributed_lock(key = "traced:above:{n}")]
    #[tracing::instrument]
    async fn above(n: u32) -> Outcome<u32> {
        held("traced:above:7").await?;
        Ok(n)
    }

    #[tracing::instrument]
    #[distributed_lock(key = "traced:below:{n}")]
    async fn below(n: u32) -> Outcome<u32> {
        held("traced:below:7").await?;
        Ok(n)
    }

    #[distributed_lock(key = "traced:sync:above:{n}")]
    #[tracing::instrument]
    fn above_blocking(n: u32) -> Outcome<u32> {
        held_blocking("traced:sync:above:7")?;
        Ok(n)
    }

    #[tracing::instrument]
    #[distributed_lock(key = "traced:sync:below:{n}")]
    fn below_blocking(n: u32) -> Outcome<u32> {
        held_blocking("traced:sync:below:7")?;
        Ok(n)
    }

    #[tokio::test]
    async fn async_fn() -> Outcome {
        assert_eq!(locked("traced:above:7", above(7)).await??, 7);
        assert_eq!(locked("traced:below:7", below(7)).await??, 7);
        Ok(())
    }

    #[test]
    fn sync_fn() -> Outcome {
        assert_eq!(locked_blocking("traced:sync:above:7", || above_blocking(7))??, 7);
        assert_eq!(locked_blocking("traced:sync:below:7", || below_blocking(7))??, 7);
        Ok(())
    }
}

mod every_option {
    use super::*;

    struct Pair(u32, u32);

    #[distributed_lock(key = "fields:above:{first}:{word}", guard = lock)]
    #[tracing::instrument(name = "above", level = "debug", skip(word), fields(first, word.len = word.len()), ret, err)]
    async fn above(Pair(first, second): Pair, word: &str) -> Outcome<u32> {
        held("fields:above:7:a").await?;
        assert_eq!(lock.key(), "fields:above:7:a");
        Ok(first + second)
    }

    #[tracing::instrument(name = "below", level = "debug", skip(word), fields(first, word.len = word.len()), ret, err)]
    #[distributed_lock(key = "fields:below:{first}:{word}", guard = lock)]
    async fn below(Pair(first, second): Pair, word: &str) -> Outcome<u32> {
        held("fields:below:7:a").await?;
        assert_eq!(lock.key(), "fields:below:7:a");
        Ok(first + second)
    }

    #[distributed_lock(key = "fields:sync:above:{first}:{word}", guard = lock)]
    #[tracing::instrument(skip_all, fields(first, second), ret(level = "debug"), err(Debug))]
    fn above_blocking(Pair(first, second): Pair, word: &mut String) -> Outcome<&mut String> {
        held_blocking("fields:sync:above:7:a")?;
        assert_eq!(lock.key(), "fields:sync:above:7:a");
        word.push_str(&second.to_string());
        Ok(word)
    }

    #[tracing::instrument(skip_all, fields(first, second), ret(level = "debug"), err(Debug))]
    #[distributed_lock(key = "fields:sync:below:{first}:{word}", guard = lock)]
    fn below_blocking(Pair(first, second): Pair, word: String) -> Outcome<String> {
        held_blocking("fields:sync:below:7:a")?;
        assert_eq!(lock.key(), "fields:sync:below:7:a");
        Ok(word + &second.to_string())
    }

    #[tokio::test]
    async fn async_fn() -> Outcome {
        assert_eq!(locked("fields:above:7:a", above(Pair(7, 8), "a")).await??, 15);
        assert_eq!(locked("fields:below:7:a", below(Pair(7, 8), "a")).await??, 15);
        Ok(())
    }

    #[test]
    fn sync_fn() -> Outcome {
        let mut word = "a".to_owned();
        let call = || above_blocking(Pair(7, 8), &mut word).map(|word| word.clone());
        assert_eq!(locked_blocking("fields:sync:above:7:a", call)??, "a8");
        let call = || below_blocking(Pair(7, 8), "a".to_owned());
        assert_eq!(locked_blocking("fields:sync:below:7:a", call)??, "a8");
        Ok(())
    }
}

mod methods {
    use super::*;

    #[derive(Debug)]
    struct Shop {
        tenant: String,
        sold: u32,
    }

    impl Shop {
        #[distributed_lock(key = "traced:{self.tenant}:above:{n}")]
        #[tracing::instrument(skip(self), fields(tenant = %self.tenant), err)]
        async fn above(&mut self, n: u32) -> Outcome<&mut u32> {
            held("traced:acme:above:7").await?;
            self.sold += n;
            Ok(&mut self.sold)
        }

        #[tracing::instrument(skip(self), fields(tenant = %self.tenant), err)]
        #[distributed_lock(key = "traced:{self.tenant}:below:{n}")]
        async fn below(&mut self, n: u32) -> Outcome<&mut u32> {
            held("traced:acme:below:7").await?;
            self.sold += n;
            Ok(&mut self.sold)
        }

        #[distributed_lock(key = "traced:{self.tenant}:sync:above:{n}")]
        #[tracing::instrument(skip(self), fields(tenant = %self.tenant))]
        fn above_blocking(&mut self, n: u32) -> Outcome<&mut u32> {
            held_blocking("traced:acme:sync:above:7")?;
            self.sold += n;
            Ok(&mut self.sold)
        }

        #[tracing::instrument(skip(self), fields(tenant = %self.tenant))]
        #[distributed_lock(key = "traced:{self.tenant}:sync:below:{n}")]
        fn below_blocking(&mut self, n: u32) -> Outcome<&mut u32> {
            held_blocking("traced:acme:sync:below:7")?;
            self.sold += n;
            Ok(&mut self.sold)
        }
    }

    #[tokio::test]
    async fn async_method() -> Outcome {
        let mut shop = Shop { tenant: "acme".to_owned(), sold: 0 };
        assert_eq!(*locked("traced:acme:above:7", shop.above(7)).await??, 7);
        assert_eq!(*locked("traced:acme:below:7", shop.below(7)).await??, 14);
        Ok(())
    }

    #[test]
    fn sync_method() -> Outcome {
        let mut shop = Shop { tenant: "acme".to_owned(), sold: 0 };
        assert_eq!(locked_blocking("traced:acme:sync:above:7", || shop.above_blocking(7).map(|n| *n))??, 7);
        assert_eq!(locked_blocking("traced:acme:sync:below:7", || shop.below_blocking(7).map(|n| *n))??, 14);
        Ok(())
    }
}

mod boxed {
    use super::*;

    #[distributed_lock(key = "traced:boxed:above:{n}")]
    #[tracing::instrument]
    fn above(n: u32) -> Pin<Box<dyn Future<Output = Outcome<u32>> + Send>> {
        Box::pin(async move {
            held("traced:boxed:above:7").await?;
            Ok(n)
        })
    }

    #[tracing::instrument]
    #[distributed_lock(key = "traced:boxed:below:{n}")]
    fn below(n: u32) -> Pin<Box<dyn Future<Output = Outcome<u32>> + Send>> {
        Box::pin(async move {
            held("traced:boxed:below:7").await?;
            Ok(n)
        })
    }

    #[tokio::test]
    async fn written_by_hand() -> Outcome {
        assert_eq!(locked("traced:boxed:above:7", above(7)).await??, 7);
        assert_eq!(locked("traced:boxed:below:7", below(7)).await??, 7);
        Ok(())
    }
}
