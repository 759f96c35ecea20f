//! Types and patterns of arguments, return types, and their use in a key.

use super::*;

mod generics {
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
}

mod impl_trait {
    use super::*;

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
}

mod patterns {
    use super::*;

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
}

mod fields {
    use super::*;

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

mod return_types {
    use super::*;

    #[distributed_lock(key = "return:iterator", constant_key)]
    fn iterator(list: &[u32]) -> Outcome<impl Iterator<Item = u32> + use<'_>> {
        held_blocking("return:iterator")?;
        Ok(list.iter().copied())
    }

    #[distributed_lock(key = "return:closure", constant_key)]
    async fn closure(n: u32) -> Outcome<impl Fn(u32) -> u32> {
        held("return:closure").await?;
        Ok(move |m| m + n)
    }

    #[distributed_lock(key = "return:dyn", constant_key)]
    async fn dynamic(text: &str) -> Result<Box<dyn Iterator<Item = char> + '_>, Box<dyn std::error::Error>> {
        held("return:dyn").await?;
        let _: u32 = text.parse()?;
        Ok(Box::new(text.chars()))
    }

    #[distributed_lock(key = "return:nested")]
    fn nested() -> Result<Result<Vec<[u8; 2]>, &'static str>, LockError> {
        held_blocking("return:nested")?;
        Ok(Err("a"))
    }

    #[distributed_lock(key = "return:tuple", on_error = |_| (0, Err("b")))]
    async fn tuple() -> (u32, Result<u32, &'static str>) {
        (u32::from(held("return:tuple").await.is_ok()), Err("a"))
    }

    #[tokio::test]
    async fn async_fn() -> Outcome {
        assert_eq!(locked("return:closure", closure(7)).await??(8), 15);
        let chars = locked("return:dyn", dynamic("78")).await?.map(Iterator::count);
        assert_eq!(chars.ok(), Some(2));
        assert!(locked("return:dyn", dynamic("a")).await?.is_err());
        assert_eq!(locked("return:tuple", tuple()).await?, (1, Err("a")));
        Ok(())
    }

    #[test]
    fn sync_fn() -> Outcome {
        let list =
            locked_blocking("return:iterator", || iterator(&[7, 8]).map(Iterator::collect::<Vec<_>>))??;
        assert_eq!(list, [7, 8]);
        assert_eq!(locked_blocking("return:nested", nested)??, Err("a"));
        Ok(())
    }
}

mod callables {
    use super::*;

    #[distributed_lock(key = "callable:{name}")]
    async fn asynchronous<F>(name: &str, work: F) -> Outcome<usize>
    where
        F: AsyncFnOnce(&str) -> Outcome<usize>,
    {
        held("callable:a").await?;
        work(name).await
    }

    #[distributed_lock(key = "callable:sync:{name}")]
    fn blocking(
        name: &str,
        mut work: impl FnMut(&str) -> usize,
        other: fn(usize) -> usize,
    ) -> Outcome<usize> {
        held_blocking("callable:sync:a")?;
        Ok(other(work(name)))
    }

    #[distributed_lock(key = "callable:dyn", constant_key)]
    async fn dynamic(
        work: &mut (dyn FnMut(u32) -> u32 + Send),
        list: Vec<Box<dyn Display + Send>>,
    ) -> Outcome<u32> {
        held("callable:dyn").await?;
        Ok(list.iter().map(|_| work(1)).sum())
    }

    #[tokio::test]
    async fn async_fn() -> Outcome {
        let call = asynchronous("a", async |name: &str| {
            held("callable:a").await?;
            Ok(name.len())
        });
        assert_eq!(locked("callable:a", call).await??, 1);
        let mut calls = 0;
        let mut work = |n| {
            calls += n;
            n
        };
        let call = dynamic(&mut work, vec![Box::new(1), Box::new("a")]);
        assert_eq!(locked("callable:dyn", call).await??, 2);
        Ok(())
    }

    #[test]
    fn sync_fn() -> Outcome {
        let mut calls = 0;
        let work = |name: &str| {
            calls += 1;
            name.len()
        };
        assert_eq!(locked_blocking("callable:sync:a", || blocking("a", work, |n| n + 1))??, 2);
        assert_eq!(calls, 1);
        Ok(())
    }
}

mod bounds {
    use super::*;

    #[distributed_lock(key = "bounds:{text}", wait = "1s")]
    async fn unsized_argument<'a, T: ?Sized + Display, I>(text: &'a T, list: I) -> Outcome<(&'a T, u32)>
    where
        I: for<'b> Fn(&'b str) -> u32,
        for<'b> &'b T: Copy,
    {
        held("bounds:a").await?;
        Ok((text, list("a")))
    }

    #[tokio::test]
    async fn async_fn() -> Outcome {
        assert_eq!(locked("bounds:a", unsized_argument("a", |_| 7)).await??, ("a", 7));
        Ok(())
    }

    trait Stock {
        type Id: Display;
        const SHOP: &'static str;
    }

    struct Books;

    impl Stock for Books {
        type Id = u32;
        const SHOP: &'static str = "books";
    }

    #[distributed_lock(key = format!("stock:{}:{id}", S::SHOP))]
    fn associated<S: Stock>(id: S::Id) -> Outcome<<S as Stock>::Id> {
        held_blocking("stock:books:7")?;
        Ok(id)
    }

    #[test]
    fn sync_fn() -> Outcome {
        assert_eq!(locked_blocking("stock:books:7", || associated::<Books>(7))??, 7);
        Ok(())
    }
}

mod sync_patterns {
    use super::*;

    struct Path<T>(T);

    struct Point<T> {
        x: T,
        r#type: T,
    }

    #[distributed_lock(key = "sync:{sku}:{x}:{kind}:{first}:{last}:{a}:{gen}:{b}")]
    fn blocking(
        Path(ref sku): Path<String>,
        Point { x, r#type: kind }: &Point<u32>,
        [first, .., mut last]: [u32; 3],
        (Ok(a) | Err(a)): Result<u32, u32>,
        r#gen: u32,
        &(b, _): &(u64, u64),
    ) -> Outcome<u32> {
        held_blocking("sync:a%3Ab:1:2:3:5:6:7:8")?;
        last += 1;
        Ok(u32::try_from(sku.len()).unwrap_or(0)
            + x
            + kind
            + first
            + last
            + a
            + r#gen
            + u32::try_from(b).unwrap_or(0))
    }

    #[test]
    fn sync_fn() -> Outcome {
        let point = Point { x: 1, r#type: 2 };
        let call = || blocking(Path("a:b".to_owned()), &point, [3, 4, 5], Err(6), 7, &(8, 9));
        assert_eq!(locked_blocking("sync:a%3Ab:1:2:3:5:6:7:8", call)??, 36);
        Ok(())
    }
}
