use redlocked::{LockError, distributed_lock};

#[distributed_lock(keys = [read "rate:{day}", "account:{from}"])]
async fn another_word(day: u32, from: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = [shared "rate:{day}", exclusive "account:{from}"])]
async fn exclusive_needs_no_word(day: u32, from: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = [permits "bank:{bank}", "account:{from}"])]
async fn permits_without_a_number(bank: &str, from: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = [shared(5) "bank:{bank}", "account:{from}"])]
async fn shared_with_a_number(bank: &str, from: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = [permits(0) "bank:{bank}", permits(3, take = 4) "account:{from}"])]
async fn numbers_out_of_range(bank: &str, from: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = [permits(10, 2) "bank:{bank}", "account:{from}"])]
async fn take_without_its_name(bank: &str, from: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = [permits("many") "bank:{bank}", "account:{from}"])]
async fn no_number(bank: &str, from: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = [permits(limit) "bank:{bank}", "account:{from}"])]
async fn a_number_of_another_type(bank: &str, from: u64, limit: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = [shared "rate:{day}" "account:{from}"])]
async fn no_comma(day: u32, from: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = [shared("rate"), "account:{from}"])]
async fn as_a_call(from: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = shared "rate:{day}")]
async fn one_key(day: u32) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = [shared "rate", "account"])]
async fn the_same_for_every_call(from: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
