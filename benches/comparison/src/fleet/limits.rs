//! How large a fleet one server carries, computed from the rows of the fleet: a table of
//! `docs/tuning.md`.

use std::fmt::Write;
use std::fs;

use crate::product::product;
use crate::series::figure;

const BEGINS: &str =
    "<!-- From here, the comparison writes the table: benches/comparison/src/fleet/limits.rs -->\n";
const ENDS: &str = "<!-- To here. -->\n";

/// What the rows say.
#[derive(Clone, Copy, Default)]
pub struct Limits {
    /// Server time for a lock of the largest fleet, in microseconds.
    pub lock_us: Option<f64>,
    /// Hand-offs of one key a second, in the size of the fleet that has the fewest.
    pub hand_offs: Option<f64>,
    /// The server's memory for a manager.
    pub kilobytes: Option<f64>,
    /// The connections of a manager to its server.
    pub connections: Option<f64>,
    /// Server time for a renewal, in microseconds.
    pub renewal_us: Option<f64>,
    /// The server's memory for a held lock.
    pub lock_bytes: Option<f64>,
}

/// Redis' own limit.
const CLIENTS: f64 = 10_000.0;

/// A third of the default ttl, in seconds: after this time, a lock is renewed.
const RENEWED_AFTER: f64 = 10.0;

impl Limits {
    /// Writes the table into the page, if all of it was measured. `where_at`: the machine.
    pub fn write(&self, where_at: &str) {
        let Some(table) = self.table(where_at) else { return };
        let path = product().join("docs/tuning.md");
        let page = fs::read_to_string(&path).unwrap();
        let (before, rest) = page.split_once(BEGINS).unwrap();
        let (_, after) = rest.split_once(ENDS).unwrap();
        fs::write(path, format!("{before}{BEGINS}{table}{ENDS}{after}")).unwrap();
    }

    fn table(&self, where_at: &str) -> Option<String> {
        let rounded = |value: f64| figure(Some(two_digits(value)));
        let mut text = format!("Measured on {where_at}:\n\n");
        text += "| what grows | what it costs | one server ends at about | and then |\n| --- | --- | --- | --- |\n";
        let lock = self.lock_us?;
        let _ = writeln!(
            text,
            "| locks of many keys, taken and released | {} µs of the server | {} a second | a Cluster: each primary carries as \
             many, and callers notice nothing |",
            figure(Some(lock)),
            rounded(1e6 / lock),
        );
        let hand_offs = self.hand_offs?;
        let _ = writeln!(
            text,
            "| callers that wait for one key | one trip each, however many managers there are | {} holders a second | more \
             servers do not help: a key with more parts in it, [`cohort`](#a-hot-key), a shorter body |",
            rounded(hand_offs),
        );
        let renewal = self.renewal_us?;
        let _ = writeln!(
            text,
            "| locks that are held, with the default `ttl` | a renewal each 10 s, {} µs of the server; {} bytes | {} locks | a \
             longer `ttl`: three times as long is a third of the renewals; then a Cluster |",
            figure(Some(renewal)),
            figure(Some(self.lock_bytes?)),
            rounded(1e6 / renewal * RENEWED_AFTER),
        );
        let (kilobytes, connections) = (self.kilobytes?, self.connections?);
        let _ = writeln!(
            text,
            "| managers | {connections:.0} of the server's connections, {} kB of its memory | {} managers, Redis' `maxclients` | a larger `maxclients`; \
             one manager for each process, not for each part of it. A Cluster does not help: each manager connects to \
             each primary that it needs |",
            figure(Some(kilobytes)),
            rounded(CLIENTS / connections),
        );
        Some(text)
    }
}

/// More would say that it is exact.
fn two_digits(value: f64) -> f64 {
    let unit = 10_f64.powf(value.log10().floor() - 1.0);
    (value / unit).floor() * unit
}

#[cfg(test)]
mod tests {
    use super::{Limits, two_digits};

    #[test]
    fn a_limit_has_two_digits() {
        assert_eq!(
            [161_812.0, 9_330.0].map(two_digits).map(|limit| format!("{limit:.0}")),
            ["160000", "9300"]
        );
    }

    #[test]
    fn a_table_needs_each_of_its_figures() {
        let few = Limits { lock_us: Some(7.0), hand_offs: Some(9330.0), ..Limits::default() };
        assert!(few.table("AMD").is_none());
        let all = Limits {
            kilobytes: Some(38.0),
            connections: Some(2.0),
            renewal_us: Some(8.0),
            lock_bytes: Some(300.0),
            ..few
        };
        let table = all.table("AMD").unwrap();
        for figure in ["140,000 a second", "9,300 holders", "1,200,000 locks", "5,000 managers"] {
            assert!(table.contains(figure), "{figure} in {table}");
        }
    }
}
