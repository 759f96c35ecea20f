//! Where it happens: what the workers connect to, and what goes wrong there.

use super::checker::Loss;
use super::deeds::Deeds;
use super::dice::Dice;
use super::support::RedisServer;

/// The name of our own connections, which nobody cuts.
const OURS: &str = "driver";

/// Connects, if there is somebody who answers.
pub(crate) type Connect = Box<dyn FnMut() -> Option<redis::Connection> + Send>;

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
    fn heal(&mut self, all: bool, deeds: &mut Deeds);

    /// For somebody who takes the same locks by hand, where one can.
    fn client_of_another_kind(&self) -> Option<Connect> {
        None
    }

    /// When locks may have been forgotten.
    fn losses(&self) -> &[Loss];

    /// What is left on the servers.
    fn keys(&self) -> Vec<String>;
}

/// `None` when the server does not answer: it may have been stopped a moment ago.
pub(crate) fn client(server: &RedisServer) -> Option<redis::Connection> {
    let mut client = server.connect()?;
    redis::cmd("CLIENT").arg("SETNAME").arg(OURS).query::<()>(&mut client).ok()?;
    Some(client)
}

/// Cuts one connection of a worker, whichever it is.
pub(crate) fn cut(client: &mut redis::Connection, dice: &mut Dice, deeds: &mut Deeds) {
    let list: String = redis::cmd("CLIENT").arg("LIST").query(client).unwrap();
    let ours = format!(" name={OURS} ");
    let ids: Vec<&str> = list
        .lines()
        .filter(|line| !line.contains(&ours) && !line.contains(" flags=S") && !line.contains(" flags=M"))
        .filter_map(|line| line.strip_prefix("id=")?.split(' ').next())
        .collect();
    if ids.is_empty() {
        return;
    }
    let id = ids[dice.index(ids.len())];
    let cut: u32 = redis::cmd("CLIENT").arg("KILL").arg("ID").arg(id).query(client).unwrap();
    if cut > 0 {
        deeds.add("connections cut", id);
    }
}

pub(crate) fn flush_scripts(client: &mut redis::Connection, deeds: &mut Deeds) {
    let _: () = redis::cmd("SCRIPT").arg("FLUSH").query(client).unwrap();
    deeds.add("scripts flushed", "");
}

/// The server answers nobody for a while.
pub(crate) fn hold_clients(client: &mut redis::Connection, dice: &mut Dice, deeds: &mut Deeds) {
    let lasts = dice.between(10, 200);
    let _: () = redis::cmd("CLIENT").arg("PAUSE").arg(lasts).query(client).unwrap();
    deeds.add("clients paused", format!("for {lasts} ms"));
}
