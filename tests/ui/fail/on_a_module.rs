use redlocked::distributed_lock;

#[distributed_lock(key = "nightly")]
mod jobs {
    pub fn run() {}
}

fn main() {}
