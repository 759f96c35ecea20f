//! What all browsers share: the answers of the server, the past of each lock, and who may do what.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use futures_util::future::join_all;
use redlocked::election::Leader;
use redlocked::inspect::{KeyInfo, LastTick, LockInfo, NodeInfo};
use redlocked::once::OnceRecord;
use redlocked::{Capabilities, LockError, LockManager};
use tokio::sync::Semaphore;

use crate::history::History;
use crate::live::{FRESH, Live, Seen};

/// So many rows does a page have, so many questions does it ask each second.
pub(crate) const MOST_ROWS: usize = 200;

/// If more locks than this have waiters, the page does not know which has the most.
const MOST_QUEUES: usize = 1_000;

/// Between two walks over the keys of a server, at least; and with more keys than [`FEW`].
const WALK_EVERY: Duration = Duration::from_secs(1);
const WALK_MANY_EVERY: Duration = Duration::from_secs(10);
const FEW: usize = 1_000;

/// The pause behind a walk, in lengths of that walk: it takes 2 % of the time at most.
const PAUSE: u32 = 50;

/// So many pages with a filter or a key of their own are remembered, and the past of so many locks.
const MOST_QUESTIONS: usize = 64;
const MOST_HISTORIES: usize = 512;

/// So many browsers are served by live pages at a time.
const MOST_VIEWERS: usize = 256;

/// The keys that there are, by a walk over the names of the server.
pub(crate) struct Survey {
    pub(crate) keys: Vec<KeyInfo>,
    /// Those that callers wait for, and how many.
    waiters: HashMap<String, u32>,
    ended: Instant,
    pause: Duration,
}

/// The rows of a list, and how many there would be.
pub(crate) struct Rows<T> {
    pub(crate) rows: Vec<T>,
    pub(crate) count: usize,
}

/// A lock of the list.
pub(crate) struct LockRow {
    pub(crate) key: KeyInfo,
    pub(crate) lock: LockInfo,
}

/// All that is known of one key.
pub(crate) struct Details {
    pub(crate) lock: Option<LockInfo>,
    pub(crate) leader: Option<Leader>,
    pub(crate) tick: Option<LastTick>,
    pub(crate) once: Option<OnceRecord>,
}

/// A leader, and the candidates that wait.
pub(crate) struct LeaderRow {
    pub(crate) key: String,
    pub(crate) leader: Leader,
    pub(crate) candidates: u32,
}

/// What ran: a tick, or a body that runs once.
pub(crate) struct JobRow {
    pub(crate) key: String,
    pub(crate) tick: Option<LastTick>,
    pub(crate) once: Option<OnceRecord>,
    /// The lock of the key is held.
    pub(crate) is_locked: bool,
}

/// The servers.
pub(crate) struct Servers {
    pub(crate) capabilities: Capabilities,
    pub(crate) answered_in: Duration,
    pub(crate) takes_locks: Result<(), LockError>,
    pub(crate) nodes: Result<Vec<NodeInfo>, LockError>,
    /// The clock of this machine between the question and the answer.
    pub(crate) at: SystemTime,
}

/// One kind of pages, each with its own filter or key.
type Questions<T> = Mutex<HashMap<String, (Instant, Arc<Live<T>>)>>;

pub(crate) struct State {
    pub(crate) locks: LockManager,
    pub(crate) allow_release: bool,
    pub(crate) base_path: Option<String>,
    /// In each form: what another site cannot know.
    pub(crate) page_token: String,
    pub(crate) viewers: Arc<Semaphore>,
    survey: Mutex<Option<Arc<Survey>>>,
    walk: Arc<tokio::sync::Mutex<()>>,
    lists: Questions<Rows<LockRow>>,
    details: Questions<Details>,
    leaders: Questions<Rows<LeaderRow>>,
    jobs: Questions<Rows<JobRow>>,
    servers: Live<Servers>,
    histories: Mutex<HashMap<String, History>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The one question of that text. The oldest goes where there are too many.
fn question<T>(questions: &Questions<T>, text: &str) -> Arc<Live<T>> {
    let mut questions = locked(questions);
    let (used, live) =
        questions.entry(text.to_owned()).or_insert_with(|| (Instant::now(), Arc::new(Live::default())));
    *used = Instant::now();
    let live = Arc::clone(live);
    if questions.len() > MOST_QUESTIONS {
        let oldest = questions.iter().min_by_key(|(_, (used, _))| *used).map(|(text, _)| text.clone());
        oldest.map(|oldest| questions.remove(&oldest));
    }
    live
}

impl State {
    pub(crate) fn new(locks: LockManager) -> Self {
        Self {
            locks,
            allow_release: false,
            base_path: None,
            page_token: random_token(),
            viewers: Arc::new(Semaphore::new(MOST_VIEWERS)),
            survey: Mutex::default(),
            walk: Arc::default(),
            lists: Mutex::default(),
            details: Mutex::default(),
            leaders: Mutex::default(),
            jobs: Mutex::default(),
            servers: Live::default(),
            histories: Mutex::default(),
        }
    }

    /// The last walk. One that is due goes on behind it, except for the first.
    async fn survey(self: &Arc<Self>) -> Result<Arc<Survey>, LockError> {
        let last = locked(&self.survey).clone();
        let is_due = |survey: &Survey| survey.ended.elapsed() >= survey.pause;
        if let Some(last) = last {
            if is_due(&last)
                && let Ok(walk) = Arc::clone(&self.walk).try_lock_owned()
            {
                let state = Arc::clone(self);
                tokio::spawn(async move {
                    // One that fails leaves the old one; the rows of the page say what is wrong.
                    let _ = state.walk().await;
                    drop(walk);
                });
            }
            return Ok(last);
        }
        let _walk = self.walk.lock().await;
        let first = locked(&self.survey).clone();
        match first {
            Some(survey) => Ok(survey),
            None => self.walk().await,
        }
    }

    async fn walk(&self) -> Result<Arc<Survey>, LockError> {
        let begun = Instant::now();
        let keys = self.locks.keys().await?;
        let queues: Vec<_> = keys.iter().filter(|key| key.has_waiters()).take(MOST_QUEUES).collect();
        let looks = join_all(queues.iter().map(|key| self.locks.inspect(key.key()))).await;
        let waiters = queues.iter().zip(looks).filter_map(|(key, look)| {
            let lock = look.ok().flatten()?;
            Some((key.key().to_owned(), lock.waiters()))
        });
        let waiters = waiters.collect();
        let least = if keys.len() > FEW { WALK_MANY_EVERY } else { WALK_EVERY };
        let pause = least.max(begun.elapsed() * PAUSE);
        let survey = Arc::new(Survey { keys, waiters, ended: Instant::now(), pause });
        *locked(&self.survey) = Some(Arc::clone(&survey));
        Ok(survey)
    }

    /// The locks that are held, those with the most waiters first.
    pub(crate) async fn list(self: &Arc<Self>, filter: &str) -> Seen<Rows<LockRow>> {
        let ask = async {
            let survey = self.survey().await?;
            let held: Vec<_> = survey.keys.iter().filter(|key| key.is_locked()).collect();
            // Few enough to look at each: then the filter finds holders and functions, too.
            let are_few = held.len() <= MOST_ROWS;
            let is_wanted = |key: &&&KeyInfo| are_few || contains(key.key(), filter);
            let mut wanted: Vec<_> = held.iter().filter(is_wanted).copied().collect();
            let waiters = |key: &KeyInfo| survey.waiters.get(key.key()).copied().unwrap_or_default();
            wanted.sort_by_key(|key| std::cmp::Reverse(waiters(key)));
            let mut count = wanted.len();
            wanted.truncate(MOST_ROWS);
            let mut rows = self.look_at(&wanted).await?;
            if are_few {
                rows.retain(|row| matches(row, filter));
                count = rows.len();
            }
            rows.sort_by(|one, other| {
                let key = |row: &LockRow| (std::cmp::Reverse(row.lock.waiters()), row.key.key().to_owned());
                key(one).cmp(&key(other))
            });
            Ok(Rows { rows, count })
        };
        question(&self.lists, filter).get(FRESH, ask).await
    }

    /// Those of them that are held. Of a key with other data there is no row.
    async fn look_at(&self, keys: &[&KeyInfo]) -> Result<Vec<LockRow>, LockError> {
        let looks = join_all(keys.iter().map(|key| self.locks.inspect(key.key()))).await;
        let now = SystemTime::now();
        let (mut rows, mut refused) = (Vec::new(), None);
        for (key, look) in keys.iter().zip(looks) {
            match look {
                Ok(found) => {
                    self.note(key.key(), now, found.as_ref());
                    rows.extend(found.map(|lock| LockRow { key: (*key).clone(), lock }));
                }
                Err(error @ (LockError::Misconfigured { .. } | LockError::InvalidKey { .. })) => {
                    refused = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        match refused {
            Some(error @ LockError::Misconfigured { .. }) if rows.is_empty() => Err(error),
            _ => Ok(rows),
        }
    }

    /// Writes into the past of a lock what was seen.
    fn note(&self, key: &str, now: SystemTime, found: Option<&LockInfo>) {
        let mut histories = locked(&self.histories);
        // A lock that was never seen held has no past.
        if found.is_some() || histories.contains_key(key) {
            histories.entry(key.to_owned()).or_insert_with(|| History::new(now)).look(now, found);
        }
        if histories.len() > MOST_HISTORIES {
            let age = |history: &History| history.last().map(|(at, _)| at);
            let oldest = histories.iter().min_by_key(|(_, history)| age(history)).map(|(key, _)| key.clone());
            oldest.map(|oldest| histories.remove(&oldest));
        }
    }

    pub(crate) fn history(&self, key: &str) -> Option<History> {
        locked(&self.histories).get(key).cloned()
    }

    /// Forgets what was seen of a key: somebody has just changed it.
    pub(crate) fn has_changed(&self, key: &str) {
        locked(&self.details).remove(key);
        locked(&self.jobs).clear();
        locked(&self.lists).clear();
        *locked(&self.survey) = None;
    }

    pub(crate) async fn details(&self, key: &str) -> Seen<Details> {
        let ask = async {
            let lock = self.locks.inspect(key).await?;
            self.note(key, SystemTime::now(), lock.as_ref());
            let (tick, once) = (self.locks.last_tick(key), self.locks.once_record(key));
            let (tick, once) = futures_util::future::join(tick, once).await;
            let leader = match &lock {
                Some(_) => self.locks.election(key).leader().await?,
                None => None,
            };
            Ok(Details { lock, leader, tick: kept(tick)?, once: kept(once)? })
        };
        question(&self.details, key).get(FRESH, ask).await
    }

    pub(crate) async fn leaders(self: &Arc<Self>, filter: &str) -> Seen<Rows<LeaderRow>> {
        let ask = async {
            let survey = self.survey().await?;
            let wanted = survey.keys.iter().filter(|key| key.has_leader() && contains(key.key(), filter));
            let wanted: Vec<_> = wanted.map(KeyInfo::key).collect();
            let shown = &wanted[..wanted.len().min(MOST_ROWS)];
            let looks = shown.iter().map(async |key| {
                let (leader, lock) =
                    (self.locks.election(*key).leader().await?, self.locks.inspect(key).await?);
                let candidates = lock.map_or(0, |lock| lock.waiters());
                Ok::<_, LockError>(leader.map(|leader| LeaderRow {
                    key: (*key).to_owned(),
                    leader,
                    candidates,
                }))
            });
            let rows = join_all(looks).await.into_iter().collect::<Result<Vec<_>, _>>()?;
            Ok(Rows { rows: rows.into_iter().flatten().collect(), count: wanted.len() })
        };
        question(&self.leaders, filter).get(FRESH, ask).await
    }

    pub(crate) async fn jobs(self: &Arc<Self>, filter: &str) -> Seen<Rows<JobRow>> {
        let ask = async {
            let survey = self.survey().await?;
            let is_job = |key: &&KeyInfo| key.has_tick() || key.has_once_record();
            let wanted = survey.keys.iter().filter(is_job).filter(|key| contains(key.key(), filter));
            let wanted: Vec<_> = wanted.collect();
            let shown = &wanted[..wanted.len().min(MOST_ROWS)];
            let looks = shown.iter().map(async |key| {
                let name = key.key();
                let tick = if key.has_tick() { self.locks.last_tick(name).await? } else { None };
                let once = if key.has_once_record() { self.locks.once_record(name).await? } else { None };
                let is_locked = self.locks.inspect(name).await?.is_some();
                Ok::<_, LockError>(JobRow { key: name.to_owned(), tick, once, is_locked })
            });
            let rows = join_all(looks).await.into_iter().collect::<Result<Vec<_>, _>>()?;
            let is_known = |row: &JobRow| row.tick.is_some() || row.once.is_some();
            let mut rows: Vec<_> = rows.into_iter().filter(is_known).collect();
            // Ticks, and behind them the latest.
            rows.sort_by_key(|row| {
                let since = row.once.as_ref().map(OnceRecord::since);
                (row.tick.is_none(), std::cmp::Reverse(since))
            });
            Ok(Rows { rows, count: wanted.len() })
        };
        question(&self.jobs, filter).get(FRESH, ask).await
    }

    pub(crate) async fn servers(&self) -> Seen<Servers> {
        let ask = async {
            let capabilities = self.locks.capabilities().await?;
            let begun = Instant::now();
            let takes_locks = self.locks.ping().await;
            let answered_in = begun.elapsed();
            let (begun, start) = (SystemTime::now(), Instant::now());
            let nodes = self.locks.nodes().await;
            let at = begun + start.elapsed() / 2;
            Ok(Servers { capabilities, answered_in, takes_locks, nodes, at })
        };
        self.servers.get(FRESH, ask).await
    }
}

/// `None` over a quorum, which keeps no such records.
fn kept<T>(found: Result<Option<T>, LockError>) -> Result<Option<T>, LockError> {
    match found {
        Err(LockError::InvalidRequest { .. }) => Ok(None),
        found => found,
    }
}

fn contains(text: &str, filter: &str) -> bool {
    filter.is_empty() || text.to_lowercase().contains(&filter.to_lowercase())
}

fn matches(row: &LockRow, filter: &str) -> bool {
    let holders = row.lock.holders().iter().flat_map(|holder| [holder.name(), holder.function()]);
    contains(row.key.key(), filter) || holders.flatten().any(|text| contains(text, filter))
}

/// 128 bits from the operating system, in hexadecimal digits; none, where it has no random numbers,
/// and then every form is refused.
fn random_token() -> String {
    let mut bytes = [0; 16];
    match getrandom::fill(&mut bytes) {
        Ok(()) => format!("{:032x}", u128::from_ne_bytes(bytes)),
        Err(_) => String::new(),
    }
}
