use redlocked::key;

fn stock(sku: &str) -> String {
    key!(sku)
}

fn main() {
    stock("shoes");
}
