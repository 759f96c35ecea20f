use redlocked::distributed_lock;

#[distributed_lock(key = "leader", wait = "forever")]
async fn lead() -> ! {
    loop {}
}

fn main() {}
