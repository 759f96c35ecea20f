//! The user's own mistakes are still found: below the attribute each lint fires as it would without
//! it. An expectation that is not fulfilled is an error, so this file compiles only if it is right.
#![deny(warnings, clippy::pedantic)]
#![expect(dead_code, reason = "each function is a mistake, and has no caller")]

use redlocked::{LockError, distributed_lock};

struct Outcome;

impl redlocked::FromLockError for Outcome {
    fn from_lock_error(_: LockError) -> Self {
        Self
    }
}

mod never_called {
    use redlocked::{LockError, distributed_lock};

    #[distributed_lock(key = "a")]
    #[expect(dead_code, reason = "a mistake")]
    async fn asynchronous() -> Result<(), LockError> {
        Ok(())
    }

    #[distributed_lock(key = "a")]
    #[expect(dead_code, reason = "a mistake")]
    fn sync() -> Result<(), LockError> {
        Ok(())
    }
}

#[distributed_lock(key = "{id}")]
async fn an_argument(
    id: u32,
    #[expect(unused_variables, reason = "a mistake")] quantity: u32,
) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "{id}")]
fn an_argument_of_a_sync_function(
    id: u32,
    #[expect(unused_variables, reason = "a mistake")] quantity: u32,
) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "a", constant_key)]
async fn a_name_in_a_pattern(
    #[expect(unused_variables, reason = "a mistake")] (left, right): (u32, u32),
) -> Result<u32, LockError> {
    Ok(left)
}

#[distributed_lock(key = "a")]
async fn a_variable() -> Result<(), LockError> {
    #[expect(unused_variables, reason = "a mistake")]
    let sum = 1;
    Ok(())
}

#[distributed_lock(key = "a")]
fn a_variable_of_a_sync_function() -> Result<(), LockError> {
    #[expect(unused_variables, reason = "a mistake")]
    let sum = 1;
    Ok(())
}

#[distributed_lock(key = "a", constant_key)]
async fn a_value_that_nobody_reads(number: u32) -> Result<u32, LockError> {
    let mut sum = number;
    assert_eq!(sum, number);
    #[expect(unused_assignments, reason = "a mistake")]
    {
        sum = 1;
    }
    sum = 2;
    Ok(sum)
}

#[distributed_lock(key = "{id}")]
async fn a_mutable_argument(
    #[expect(unused_mut, reason = "a mistake")] mut id: u32,
) -> Result<u32, LockError> {
    Ok(id)
}

#[distributed_lock(key = "{id}")]
fn a_mutable_argument_of_a_sync_function(
    #[expect(unused_mut, reason = "a mistake")] mut id: u32,
) -> Result<u32, LockError> {
    Ok(id)
}

#[distributed_lock(key = "a")]
#[expect(unreachable_code, reason = "a mistake")]
async fn code_after_a_return() -> Result<u32, LockError> {
    return Ok(1);
    Ok(2)
}

#[distributed_lock(key = "a")]
#[expect(unreachable_code, reason = "a mistake")]
fn code_after_a_return_in_a_sync_function() -> Result<u32, LockError> {
    return Ok(1);
    Ok(2)
}

#[distributed_lock(key = "a")]
#[must_use]
fn a_number() -> Outcome {
    Outcome
}

async fn results_that_nobody_looks_at() {
    #[expect(unused_must_use, reason = "a mistake")]
    {
        a_number();
        a_variable().await;
    }
}

fn a_future_that_nobody_awaits() {
    #[expect(unused_must_use, reason = "a mistake")]
    {
        a_variable();
    }
}

#[distributed_lock(key = "a")]
#[expect(unused_must_use, reason = "a mistake")]
async fn a_result_in_the_body() -> Result<(), LockError> {
    a_number();
    Ok(())
}

#[distributed_lock(key = "a")]
#[deprecated = "a mistake"]
fn old() -> Result<u32, LockError> {
    Ok(1)
}

#[distributed_lock(key = "a")]
#[expect(deprecated, reason = "a mistake")]
fn a_call_of_something_old() -> Result<u32, LockError> {
    old()
}

#[distributed_lock(key = "a", constant_key)]
#[expect(unused_parens, reason = "a mistake")]
async fn superfluous_parentheses(number: u32) -> Result<u32, LockError> {
    if (number == 0) {
        return Ok(1);
    }
    Ok(number)
}

#[distributed_lock(key = "a", constant_key)]
#[expect(clippy::let_and_return, reason = "a mistake")]
async fn a_variable_for_nothing(text: &str) -> Result<usize, LockError> {
    let length = Ok(text.len());
    length
}

#[distributed_lock(key = "a", constant_key)]
#[expect(clippy::too_many_arguments, reason = "a mistake")]
async fn too_much(
    id: u8,
    sku: u8,
    shop: u8,
    tenant: u8,
    year: u8,
    month: u8,
    day: u8,
    hour: u8,
) -> Result<[u8; 8], LockError> {
    Ok([id, sku, shop, tenant, year, month, day, hour])
}

mod an_argument_with_a_destructor {
    use super::*;

    #[derive(Default)]
    struct Order {
        id: u64,
    }

    impl Order {
        const fn name(&self) -> u64 {
            self.id
        }
    }

    #[distributed_lock(key = "a", constant_key)]
    #[expect(unused_variables, reason = "a mistake")]
    fn like_a_field(id: String, order: Order) -> Result<u64, LockError> {
        Ok(order.id)
    }

    #[distributed_lock(key = "a", constant_key)]
    #[expect(unused_variables, reason = "a mistake")]
    async fn like_a_method(name: String, order: Order) -> Result<u64, LockError> {
        Ok(order.name())
    }

    #[distributed_lock(key = "a", constant_key)]
    #[expect(unused_variables, reason = "a mistake")]
    async fn like_a_label(id: String, order: u64) -> Result<Order, LockError> {
        Ok(Order { id: order })
    }

    #[distributed_lock(key = "a", constant_key)]
    #[expect(unused_variables, reason = "a mistake")]
    fn like_a_path(mem: String, order: Order) -> Result<Order, LockError> {
        let mut order = order;
        Ok(std::mem::take(&mut order))
    }

    #[distributed_lock(key = "a", constant_key)]
    #[expect(unused_variables, reason = "a mistake")]
    fn like_a_variable(id: String, order: Order) -> Result<u64, LockError> {
        let id = order.id;
        Ok(id)
    }

    #[distributed_lock(key = "a", constant_key)]
    #[expect(unused_variables, reason = "a mistake")]
    fn in_a_pattern((id, order): (String, Order)) -> Result<u64, LockError> {
        Ok(order.id)
    }

    #[distributed_lock(key = "a", constant_key)]
    async fn expected(
        #[expect(unused_variables, reason = "a mistake")] id: String,
        #[allow(unused_variables, reason = "a mistake")] name: String,
    ) -> Result<(), LockError> {
        Ok(())
    }
}
