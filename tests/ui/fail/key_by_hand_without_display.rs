use redlocked::key;

fn stock(sku: &str) -> String {
    key!("stock:{}", Some(sku))
}

fn main() {
    stock("shoes");
}
