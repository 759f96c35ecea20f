//! The command line.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

pub(crate) const USAGE: &str = "usage: chaos [--minutes M] [--nodes 1|3|5|cluster] [--seed N]
  --minutes M   how long, 1 by default; 0.5 is half a minute
  --nodes N     what the locks are on, 1 by default:
                  1        one server
                  3, 5     a quorum of so many servers
                  cluster  a Redis Cluster of 3 primaries, each with a replica
  --seed N      repeats the random choices of that seed
It starts its own servers with the redis-server on PATH. It ends with 1 when it has found something.";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Topology {
    OneServer,
    Quorum(usize),
    Cluster,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Options {
    pub(crate) lasts: Duration,
    pub(crate) topology: Topology,
    pub(crate) seed: u64,
}

impl Options {
    /// `None`: only the usage is wanted.
    pub(crate) fn read(words: &[String]) -> Result<Option<Self>, String> {
        let mut options = Self {
            lasts: Duration::from_secs(60),
            topology: Topology::OneServer,
            seed: RandomState::new().hash_one(0),
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if word == "--help" || word == "-h" {
                return Ok(None);
            }
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (word.as_str(), None),
            };
            if !["--minutes", "--nodes", "--seed"].contains(&name) {
                return Err(format!("`{word}` is not an option"));
            }
            let value = value.or_else(|| words.next().map(String::as_str));
            let value = value.ok_or_else(|| format!("`{name}` needs a value"))?;
            match name {
                "--minutes" => options.lasts = minutes(value)?,
                "--nodes" => options.topology = topology(value)?,
                _ => {
                    let seed = value.parse();
                    options.seed =
                        seed.map_err(|_| format!("`--seed {value}` is not a number from 0 to 2^64 - 1"))?;
                }
            }
        }
        Ok(Some(options))
    }

    /// The command line of these options.
    pub(crate) fn words(&self) -> String {
        let topology = match self.topology {
            Topology::OneServer => "1".to_owned(),
            Topology::Quorum(nodes) => nodes.to_string(),
            Topology::Cluster => "cluster".to_owned(),
        };
        format!("--minutes {} --nodes {topology} --seed {}", self.lasts.as_secs_f64() / 60.0, self.seed)
    }
}

fn minutes(value: &str) -> Result<Duration, String> {
    let minutes: Option<f64> = value.parse().ok();
    let lasts = minutes.and_then(|minutes| Duration::try_from_secs_f64(minutes * 60.0).ok());
    lasts
        .filter(|lasts| (1..=7 * 24 * 3600).contains(&lasts.as_secs()))
        .ok_or_else(|| format!("`--minutes {value}` is not a time from a second to a week"))
}

fn topology(value: &str) -> Result<Topology, String> {
    match value {
        "1" => Ok(Topology::OneServer),
        "3" => Ok(Topology::Quorum(3)),
        "5" => Ok(Topology::Quorum(5)),
        "cluster" => Ok(Topology::Cluster),
        _ => Err(format!("`--nodes {value}` is not 1, 3, 5 or cluster")),
    }
}
