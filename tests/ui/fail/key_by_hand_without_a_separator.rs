use redlocked::key;

fn stock(sku: &str) -> String {
    key!("{}{}", sku, sku)
}

fn main() {
    stock("shoes");
}
