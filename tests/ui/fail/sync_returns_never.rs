use redlocked::distributed_lock;

#[distributed_lock(key = "leader", wait = "forever")]
fn lead() -> ! {
    loop {}
}

fn main() {}
