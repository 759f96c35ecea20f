use redlocked::distributed_lock;

trait IntoResponse {}

impl IntoResponse for &str {}

#[distributed_lock(key = "stock:{sku}")]
fn purchase(sku: u32) -> impl IntoResponse {
    let _ = sku;
    "sold"
}

fn main() {}
