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

    impl Shop {
        #[distributed_lock(key = "sync:arc:{self.tenant}", guard = lock)]
        fn by_arc_blocking(self: Arc<Self>) -> Outcome<usize> {
            held_blocking(lock.key())?;
            held_blocking("sync:arc:acme")?;
            Ok(Arc::strong_count(&self))
        }

        #[distributed_lock(key = "sync:ref arc:{self.tenant}")]
        fn by_ref_to_arc(self: &Arc<Self>) -> Outcome<Arc<Self>> {
            held_blocking("sync:ref arc:acme")?;
            Ok(Arc::clone(self))
        }

        #[distributed_lock(key = "sync:box:{self.tenant}")]
        fn by_box_blocking(self: Box<Self>) -> Outcome<String> {
            held_blocking("sync:box:acme")?;
            Ok(self.tenant)
        }

        #[distributed_lock(key = "sync:pin:{self.tenant}")]
        fn by_pin_blocking(mut self: Pin<&mut Self>) -> Outcome<u32> {
            held_blocking("sync:pin:acme")?;
            self.sold += 7;
            Ok(self.sold)
        }

        #[distributed_lock(key = "mut pin:{self.tenant}")]
        async fn by_mut_pin(mut self: Pin<&mut Self>, n: u32) -> Outcome<u32> {
            held("mut pin:acme").await?;
            self.sold += n;
            Ok(self.sold)
        }

        #[distributed_lock(key = "typed:{self.tenant}")]
        async fn by_type(self: &mut Shop) -> Outcome<&mut Shop> {
            held("typed:acme").await?;
            Ok(self)
        }

        #[distributed_lock(key = "named:{self.tenant}:{word}")]
        async fn by_named_lifetime<'a, 'b>(&'a mut self, word: &'b str) -> Outcome<(&'a mut u32, &'b str)> {
            held("named:acme:a").await?;
            Ok((&mut self.sold, word))
        }

        #[distributed_lock(key = "sync:static:{tenant}")]
        fn without_blocking(tenant: &str) -> Outcome<Self> {
            held_blocking("sync:static:acme")?;
            Ok(Self { tenant: tenant.to_owned(), ..shop()? })
        }
    }

    #[tokio::test]
    async fn rarer_receivers() -> Outcome {
        let mut shop = shop()?;
        assert_eq!(locked("mut pin:acme", Pin::new(&mut shop).by_mut_pin(7)).await??, 7);
        assert_eq!(locked("typed:acme", shop.by_type()).await??.sold, 7);
        assert_eq!(locked("named:acme:a", shop.by_named_lifetime("a")).await??, (&mut 7, "a"));
        Ok(())
    }

    #[test]
    fn rarer_sync_receivers() -> Outcome {
        let mut one = shop()?;
        let shared = Arc::new(one.clone());
        assert_eq!(locked_blocking("sync:ref arc:acme", || shared.by_ref_to_arc())??.sold, 0);
        assert_eq!(locked_blocking("sync:arc:acme", || shared.by_arc_blocking())??, 1);
        assert_eq!(locked_blocking("sync:pin:acme", || Pin::new(&mut one).by_pin_blocking())??, 7);
        assert_eq!(locked_blocking("sync:box:acme", || Box::new(one).by_box_blocking())??, "acme");
        assert_eq!(locked_blocking("sync:static:acme", || Shop::without_blocking("acme"))??.sold, 0);
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

mod provided_methods {
    use super::*;

    // Not in public: `async fn` in a trait cannot promise `Send`.
    trait Store {
        fn tenant(&self) -> &str;

        #[distributed_lock(key = "provided:{n}", guard = lock)]
        async fn provided(&self, n: u32) -> Outcome<String> {
            held(lock.key()).await?;
            held("provided:7").await?;
            Ok(format!("{}{n}", self.tenant()))
        }

        #[distributed_lock(key = "provided:mut:{n}")]
        async fn provided_mut(&mut self, n: u32) -> Outcome<&mut Self> {
            held("provided:mut:7").await?;
            Ok(self)
        }

        #[distributed_lock(key = "provided:static:{n}")]
        fn provided_static(n: u32) -> Outcome<&'static str> {
            held_blocking("provided:static:7")?;
            Ok(std::any::type_name::<Self>())
        }

        #[distributed_lock(key = "provided:overridden")]
        fn overridden(&self) -> Outcome<&str> {
            unreachable!("{} has its own", self.tenant())
        }
    }

    impl Store for Shop {
        fn tenant(&self) -> &str {
            &self.tenant
        }

        #[distributed_lock(key = "overridden:{self.tenant}")]
        fn overridden(&self) -> Outcome<&str> {
            held_blocking("overridden:acme")?;
            Ok(&self.tenant)
        }
    }

    #[tokio::test]
    async fn async_method() -> Outcome {
        let mut shop = shop()?;
        assert_eq!(locked("provided:7", shop.provided(7)).await??, "acme7");
        assert_eq!(locked("provided:mut:7", shop.provided_mut(7)).await??.tenant, "acme");
        Ok(())
    }

    #[test]
    fn sync_method() -> Outcome {
        let shop = shop()?;
        assert!(locked_blocking("provided:static:7", || Shop::provided_static(7))??.ends_with("Shop"));
        assert_eq!(locked_blocking("overridden:acme", || shop.overridden().map(str::len))??, 4);
        Ok(())
    }
}

mod generic_types {
    use super::*;

    struct Shelf<'a, T, const N: usize> {
        name: &'a str,
        items: [T; N],
    }

    impl<'a, T, const N: usize> Shelf<'a, T, N>
    where
        T: Display + PartialEq,
    {
        #[distributed_lock(key = "shelf:{self.name}:{N}:{item}", guard = lock)]
        async fn find<Q>(&self, item: Q) -> Outcome<Option<&T>>
        where
            T: PartialEq<Q>,
            Q: Display,
        {
            held("shelf:a:2:8").await?;
            assert_eq!(lock.key(), "shelf:a:2:8");
            Ok(self.items.iter().find(|it| **it == item))
        }

        #[distributed_lock(key = format!("shelf:sync:{}:{}", self.name, Self::SIZE), on_error = |_| None)]
        fn name(&mut self) -> Option<&'a str> {
            held_blocking("shelf:sync:a:2").ok()?;
            Some(self.name)
        }

        const SIZE: usize = N;
    }

    #[tokio::test]
    async fn async_method() -> Outcome {
        let shelf = Shelf { name: "a", items: [7, 8] };
        assert_eq!(locked("shelf:a:2:8", shelf.find(8)).await??, Some(&8));
        Ok(())
    }

    #[test]
    fn sync_method() -> Outcome {
        let mut shelf = Shelf { name: "a", items: [7, 8] };
        assert_eq!(locked_blocking("shelf:sync:a:2", || shelf.name())?, Some("a"));
        Ok(())
    }
}
