//! Where it happens: what the workers connect to, and what goes wrong there.

use super::dice::Dice;
use super::driver::Deeds;
use super::support::RedisServer;

/// The name of our own connections, which nobody cuts.
const OURS: &str = "driver";

pub(crate) trait Ground {
    /// Where the next worker connects to.
    fn address(&mut self, dice: &mut Dice) -> String;

    /// What its locks are held for, in milliseconds.
    fn ttls(&self) -> [u64; 4];

    /// How long they are used at most by who does not care, in milliseconds.
    fn overrun(&self) -> u64 {
        300
    }

    fn misbehave(&mut self, dice: &mut Dice, deeds: &mut Deeds);

    /// Ends what has lasted long enough, or everything.
    fn heal(&mut self, all: bool);

    /// For somebody who takes the same locks by hand, where one can.
    fn client_of_another_kind(&self) -> Option<redis::Connection>;

    /// When a server's clock has jumped ahead.
    fn steps(&self) -> &[(u64, u64)];

    /// What is left on the servers.
    fn keys(&self) -> Vec<String>;
}

/// One server, perhaps behind something else.
pub(crate) struct OneServer<'a> {
    server: &'a RedisServer,
    url: String,
    client: redis::Connection,
}

impl<'a> OneServer<'a> {
    pub(crate) fn new(server: &'a RedisServer, url: String) -> Self {
        Self { server, url, client: client(server).unwrap() }
    }
}

impl Ground for OneServer<'_> {
    fn address(&mut self, _: &mut Dice) -> String {
        self.url.clone()
    }

    fn ttls(&self) -> [u64; 4] {
        [100, 200, 500, 2500]
    }

    fn misbehave(&mut self, dice: &mut Dice, deeds: &mut Deeds) {
        match dice.between(0, 52) {
            0..24 => deeds.cut += cut(&mut self.client, dice),
            24..44 => {
                flush_scripts(&mut self.client);
                deeds.scripts_flushed += 1;
            }
            _ => {
                let lasts = dice.between(10, 200);
                let _: () = redis::cmd("CLIENT").arg("PAUSE").arg(lasts).query(&mut self.client).unwrap();
                deeds.paused += 1;
            }
        }
    }

    fn heal(&mut self, _: bool) {}

    fn client_of_another_kind(&self) -> Option<redis::Connection> {
        client(self.server)
    }

    fn steps(&self) -> &[(u64, u64)] {
        &[]
    }

    fn keys(&self) -> Vec<String> {
        self.server.keys()
    }
}

/// `None` when the server does not answer: it may have been stopped a moment ago.
pub(crate) fn client(server: &RedisServer) -> Option<redis::Connection> {
    let mut client = server.connect()?;
    redis::cmd("CLIENT").arg("SETNAME").arg(OURS).query::<()>(&mut client).ok()?;
    Some(client)
}

/// Cuts one connection of a worker, whichever it is; how many that were.
pub(crate) fn cut(client: &mut redis::Connection, dice: &mut Dice) -> u32 {
    let list: String = redis::cmd("CLIENT").arg("LIST").query(client).unwrap();
    let ours = format!(" name={OURS} ");
    let ids: Vec<&str> = list
        .lines()
        .filter(|line| !line.contains(&ours))
        .filter_map(|line| line.strip_prefix("id=")?.split(' ').next())
        .collect();
    if ids.is_empty() {
        return 0;
    }
    redis::cmd("CLIENT").arg("KILL").arg("ID").arg(ids[dice.index(ids.len())]).query(client).unwrap()
}

pub(crate) fn flush_scripts(client: &mut redis::Connection) {
    let _: () = redis::cmd("SCRIPT").arg("FLUSH").query(client).unwrap();
}
