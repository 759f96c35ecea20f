//! How a key can be written, and what it is then.

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
                held("in:a macro:7").await?;
                tokio::time::sleep(std::time::Duration::from_millis(200)).await;
                Ok(id)
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
        let lost = locked("in:a macro:7", once(7)).await?;
        assert!(matches!(lost, Err(LockError::Lost { .. })), "{lost:?}");
        Ok(())
    }
}
