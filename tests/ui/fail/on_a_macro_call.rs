use redlocked::distributed_lock;

#[distributed_lock(key = "nightly")]
thread_local! {
    static JOB: u32 = 7;
}

fn main() {}
