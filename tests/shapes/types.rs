//! Types and patterns of arguments, return types, and what a key says about them.

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
