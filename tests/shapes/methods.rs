//! Every receiver, and the methods of traits.

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

mod receivers {
    use super::*;

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
}

mod traits {
    use super::*;

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
