//! `key!`.

use redlocked::key;

fn key_by_hand_missing_argument(sku: &str) -> String {
    key!("stock:{}:{}", sku)
}

mod key_by_hand_not_a_template {
    use super::*;

    fn stock(sku: &str) -> String {
        key!(sku)
    }
}

fn key_by_hand_without_a_separator(sku: &str) -> String {
    key!("{}{}", sku, sku)
}

fn main() {}
