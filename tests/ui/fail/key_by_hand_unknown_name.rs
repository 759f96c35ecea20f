use redlocked::key;

fn stock(sku: &str) -> String {
    key!("stock:{skuu}")
}

fn main() {
    stock("shoes");
}
