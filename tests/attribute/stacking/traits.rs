//! Other attributes on a method that `#[async_trait]` has turned into a boxed future.

use super::*;

struct Bank {
    name: String,
    total: u64,
}

fn bank() -> Bank {
    Bank { name: "b".to_owned(), total: 0 }
}

mod instrumented {
    use super::*;

    #[async_trait::async_trait]
    trait Traced {
        async fn above(&self, n: u64) -> Outcome<u64>;
        async fn below(&self, n: u64) -> Outcome<u64>;
        async fn patterns_above(&mut self, amounts: (u64, u64), by: String) -> Outcome<u64>;

        #[distributed_lock(key = "traced:default:above:{n}")]
        #[tracing::instrument(skip(self), err)]
        async fn provided_above(&self, n: u64) -> Outcome<u64> {
            held("traced:default:above:7").await?;
            self.above(n).await
        }

        #[tracing::instrument(skip(self), err)]
        #[distributed_lock(key = "traced:default:below:{n}")]
        async fn provided_below(&self, n: u64) -> Outcome<u64> {
            held("traced:default:below:7").await?;
            self.below(n).await
        }
    }

    #[async_trait::async_trait]
    impl Traced for Bank {
        #[distributed_lock(key = "traced:{self.name}:above:{n}")]
        #[tracing::instrument(skip(self), fields(name = self.name), ret, err)]
        async fn above(&self, n: u64) -> Outcome<u64> {
            held("traced:b:above:7").await?;
            Ok(n)
        }

        #[tracing::instrument(skip(self), fields(name = self.name), ret, err)]
        #[distributed_lock(key = "traced:{self.name}:below:{n}", guard = lock, ttl = std::time::Duration::from_secs(10 + self.total))]
        async fn below(&self, n: u64) -> Outcome<u64> {
            held("traced:b:below:7").await?;
            assert!(lock.is_held());
            if n == 0 {
                return Ok(1);
            }
            Ok(n)
        }

        #[distributed_lock(key = "traced:{self.name}:patterns:{first}:{by}", guard = lock)]
        #[tracing::instrument(skip_all, fields(first), err)]
        async fn patterns_above(&mut self, (first, mut second): (u64, u64), mut by: String) -> Outcome<u64> {
            held("traced:b:patterns:7:me").await?;
            by.push_str(lock.key());
            second += 1;
            self.total += first + second;
            Ok(self.total)
        }
    }

    #[tokio::test]
    async fn async_method() -> Outcome {
        let mut bank = bank();
        assert_eq!(locked("traced:b:above:7", bank.above(7)).await??, 7);
        assert_eq!(locked("traced:b:below:7", bank.below(7)).await??, 7);
        assert_eq!(locked("traced:default:above:7", bank.provided_above(7)).await??, 7);
        assert_eq!(locked("traced:default:below:7", bank.provided_below(7)).await??, 7);
        let call = bank.patterns_above((7, 8), "me".to_owned());
        assert_eq!(locked("traced:b:patterns:7:me", call).await??, 16);
        Ok(())
    }
}
