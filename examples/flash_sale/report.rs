//! The table at the end, and whether the sale was right.

use std::fmt;
use std::time::Duration;

use crate::crowd::Purchases;
use crate::diary::Visit;
use crate::shop::Sale;
use crate::{Failure, ITEMS, REQUESTS, lanes};

/// The outcome of one sale.
pub(crate) struct Outcome {
    pub(crate) sale: Sale,
    pub(crate) purchases: Purchases,
    /// The visits to the handler, server by server.
    pub(crate) visits: Vec<Vec<Visit>>,
    /// The commands sent to Redis for locking; `None` without a Redis.
    pub(crate) commands: Option<u32>,
}

/// Both sales.
pub(crate) struct Report {
    pub(crate) outcomes: Vec<Outcome>,
}

impl Report {
    /// An error unless the sale with the lock sold exactly the stock, and told all other customers
    /// that it is sold out.
    pub(crate) fn verdict(&self) -> Result<(), Failure> {
        for outcome in self.outcomes.iter().filter(|outcome| outcome.sale == Sale::Locked) {
            let Purchases { sold, sold_out, failed, .. } = outcome.purchases;
            let expected = (ITEMS, u32::try_from(REQUESTS)?.saturating_sub(ITEMS), 0);
            if (sold, sold_out, failed) != expected {
                return Err("this is wrong: with the lock exactly the items there are should be sold".into());
            }
        }
        Ok(())
    }

    fn row(&self, f: &mut fmt::Formatter<'_>, name: &str, value: impl Fn(&Outcome) -> String) -> fmt::Result {
        write!(f, "{name:<32}")?;
        for outcome in &self.outcomes {
            write!(f, "{:>18}", value(outcome))?;
        }
        writeln!(f)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.row(f, "", |outcome| outcome.sale.to_string())?;
        self.row(f, "sold", |outcome| thousands(outcome.purchases.sold))?;
        self.row(f, "oversold", |outcome| thousands(outcome.oversold()))?;
        self.row(f, "told 'sold out'", |outcome| thousands(outcome.purchases.sold_out))?;
        self.row(f, "failed", |outcome| thousands(outcome.purchases.failed))?;
        self.row(f, "inside at once, at most", |outcome| thousands(lanes::most_at_once(&outcome.visits)))?;
        self.row(f, "seconds", |outcome| format!("{:.2}", outcome.purchases.took.as_secs_f64()))?;
        self.row(f, "requests per second", Outcome::rate)?;
        for percent in [50, 90, 99] {
            self.row(f, &format!("latency p{percent}"), |outcome| milliseconds(outcome.latency(percent)))?;
        }
        self.row(f, "Redis commands per acquisition", Outcome::commands_per_acquisition)?;
        for outcome in &self.outcomes {
            if let Some(failure) = &outcome.purchases.first_failure {
                writeln!(f, "\nthe first that failed {}: {failure}", outcome.sale)?;
            }
            if outcome.sale == Sale::Locked {
                writeln!(f, "\n{}", lanes::Picture(&outcome.visits))?;
            }
        }
        let last = self.outcomes.iter().map(|outcome| {
            format!("{}: sold {}, oversold {}", outcome.sale, outcome.purchases.sold, outcome.oversold())
        });
        f.write_str(&last.collect::<Vec<_>>().join("\n"))
    }
}

impl Outcome {
    fn oversold(&self) -> u32 {
        self.purchases.sold.saturating_sub(ITEMS)
    }

    fn rate(&self) -> String {
        let requests = self.purchases.sold + self.purchases.sold_out + self.purchases.failed;
        let rate = u128::from(requests) * 1_000_000 / self.purchases.took.as_micros().max(1);
        thousands(u32::try_from(rate).unwrap_or(u32::MAX))
    }

    /// The latency that `percent` of the requests did not exceed.
    fn latency(&self, percent: usize) -> Duration {
        let rank = (self.purchases.latencies.len() * percent).div_ceil(100);
        self.purchases.latencies.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    }

    /// Each visit was one acquisition.
    fn commands_per_acquisition(&self) -> String {
        let visits = self.visits.iter().map(Vec::len).sum::<usize>();
        match (self.sale, self.commands, u32::try_from(visits)) {
            (Sale::Locked, Some(commands), Ok(visits)) if visits > 0 => {
                format!("{:.2}", f64::from(commands) / f64::from(visits))
            }
            _ => "–".to_owned(),
        }
    }
}

/// `1,500`
fn thousands(number: u32) -> String {
    match number {
        0..1_000 => number.to_string(),
        _ => format!("{},{:03}", thousands(number / 1_000), number % 1_000),
    }
}

fn milliseconds(duration: Duration) -> String {
    format!("{} ms", thousands(u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)))
}
