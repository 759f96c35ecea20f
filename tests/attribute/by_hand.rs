//! A key by hand is the key of the attribute.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use proptest::proptest;
use redlocked::{LockError, distributed_lock, key};

use super::managers;

const TENANT: &str = "acme:eu";

struct Order(String, i32);

impl Order {
    fn sku(&self) -> &str {
        &self.0
    }
}

#[distributed_lock(key = "{{{TENANT}}}:{order.sku()}-{place} {order.1:+05}/{place:?}", guard = lock)]
fn template(order: &Order, place: &str) -> Result<String, LockError> {
    Ok(lock.key().to_owned())
}

#[distributed_lock(key = key!("{{{TENANT}}}:{}-{place} {:+05}/{place:?}", order.0, order.1), guard = lock)]
fn expression(order: &Order, place: &str) -> Result<String, LockError> {
    Ok(lock.key().to_owned())
}

proptest! {
    #[test]
    fn it_is_the_same_in_every_way_of_writing_it(sku in "[a-z:{}% /-]{0,9}|.{0,9}", place in ".{0,9}", number: i32) {
        managers().unwrap();
        let order = Order(sku, number);
        let (sku, place) = (&order.0, place.as_str());
        let expected = template(&order, place).unwrap();
        assert_eq!(expression(&order, place).unwrap(), expected);
        for by_hand in [
            key!("{{{TENANT}}}:{order.sku()}-{place} {order.1:+05}/{place:?}"),
            key!("{{{TENANT}}}:{}-{} {:+05}/{:?}", sku, place, number, place),
            key!("{{{TENANT}}}:{0}-{2} {1:+05}/{2:?}", sku, number, place),
            key!("{{{TENANT}}}:{sku}-{it} {:+05}/{it:?}", number, it = place),
        ] {
            assert_eq!(by_hand, expected);
        }
        // A name that is given is a value, however it is spelled.
        assert_eq!(key!("{TENANT}-{sku}", TENANT = place), key!("{place}-{sku}"));
        // Also one that a path would be called by, and that a position names.
        let by_position = key!("{order.1}-{0}", order_1 = place);
        assert_eq!(by_position, key!("{number}-{place}"));
    }
}
