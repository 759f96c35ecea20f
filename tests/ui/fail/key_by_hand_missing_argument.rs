use redlocked::key;

fn stock(sku: &str) -> String {
    key!("stock:{}:{}", sku)
}

fn main() {
    stock("shoes");
}
