//! A sentinel: a server that only tells where primaries are.

use super::Server;

/// Commands that it knows.
const KNOWN: [&str; 12] = [
    "auth",
    "client",
    "hello",
    "info",
    "ping",
    "psubscribe",
    "publish",
    "punsubscribe",
    "role",
    "sentinel",
    "subscribe",
    "unsubscribe",
];

pub(super) fn knows(command: &str) -> bool {
    KNOWN.contains(&command)
}

/// Hands of a test. The settings of the server must say that it is a sentinel.
impl Server {
    /// It takes the server at this address for the primary `name`, and publishes that if it is
    /// another one than before. `None`: it does not know the name.
    pub fn set_primary(&mut self, now: u64, name: &str, at: Option<(&str, u16)>) {
        self.state.now = now;
        let Some((host, port)) = at else {
            self.state.primaries.remove(name);
            return;
        };
        let before = self.state.primaries.insert(name.to_owned(), (host.to_owned(), port));
        if let Some((old_host, old_port)) = before.filter(|before| *before != (host.to_owned(), port)) {
            let message = format!("{name} {old_host} {old_port} {host} {port}");
            self.state.publish(b"+switch-master", message.as_bytes());
        }
    }
}
