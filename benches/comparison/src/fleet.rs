//! A fleet on one server: locks of keys of their own, one key that all want, the end of the server
//! and of a tenth of the fleet each second, and a million locks held.
//!
//! All managers of a contender are in one process of their own, so their number does not change
//! what this one costs.

pub mod limits;
pub mod managers;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use kit::figures::{percentile, server_cpu, status};
use kit::{RedisCluster, RedisServer};
use serde_json::{Value, json};

use crate::contender::Kind;
use crate::peers::{RLOCK, RSLOCK};
use crate::report::Report;
use crate::series::{Series, Table, find, whole};
use crate::workload::{Extent, Servers};
use managers::{ORDER, OURS};

const ON_A_CLUSTER: &str = "redlocked, a Cluster of three primaries";

/// The one that the first column and the pictures are about comes first.
const SIZES: [u64; 4] = [100, 1, 10, 1000];

const CONTENDERS: [(&str, Kind); 3] = [(OURS, Kind::Ours), (RSLOCK, Kind::Peer), (RLOCK, Kind::Peer)];

/// How many managers hold the many locks.
const HOLDERS: u64 = 10;

/// How long the server is away.
const AWAY: Duration = Duration::from_secs(1);

/// Nobody waits longer for the managers that do not work again.
const LIMIT: Duration = Duration::from_secs(15);

/// Into how many parts a fleet is cut whose processes are replaced.
const PARTS: u64 = 10;

const SERVER_CPU: &str = "server CPU, µs/lock";
const SERVER_MEMORY: &str = "kB of the server each";

pub fn measure(servers: &Servers, extent: Extent, report: &mut Report) {
    if status("VmRSS").is_none() {
        report.left_out("the fleet", "there is no `/proc/self/status` here");
        return;
    }
    let sizes: &[u64] = if extent.quick { &SIZES[..3] } else { &SIZES };
    let at_work = sizes.iter().map(|&size| (size, work(servers, size, extent))).collect::<Vec<_>>();
    tell_work(&at_work, report);
    ends(sizes[sizes.len() - 1], extent, report);
    hold(extent, report);
}

// Work --------------------------------------------------------------------------------------------

/// The figures of one contender in one size.
struct AtWork {
    own: Series,
    hot: Series,
    server_cpu: Vec<f64>,
    worst: Vec<f64>,
    worst_hot: Vec<f64>,
}

/// The contenders take turns, each time as another process.
fn work(servers: &Servers, size: u64, extent: Extent) -> Vec<AtWork> {
    let server = &servers.redis;
    let cluster = (size == SIZES[0]).then(RedisCluster::start);
    let on_cluster = cluster.as_ref().map(|_| (ON_A_CLUSTER, Kind::Ours));
    let contenders: Vec<_> = CONTENDERS.into_iter().chain(on_cluster).collect();
    let series = |(name, kind): &(&str, Kind)| AtWork {
        own: Series::new(*name, *kind),
        hot: Series::new(*name, *kind),
        server_cpu: Vec::new(),
        worst: Vec::new(),
        worst_hot: Vec::new(),
    };
    let mut all: Vec<AtWork> = contenders.iter().map(series).collect();
    for round in 0..extent.of(3, 1) {
        for turn in 0..all.len() {
            let next = (turn + round) % all.len();
            let cluster = cluster.as_ref().filter(|_| contenders[next].0 == ON_A_CLUSTER);
            let (url, nodes) = match cluster {
                Some(cluster) => (cluster.url(), cluster.primaries()),
                None => (server.url(), vec![server]),
            };
            let name = if cluster.is_some() { OURS } else { contenders[next].0 };
            let mut fleet = Fleet::start(name, &url, size);
            let one = &mut all[next];
            let ms = extent.of(1000, 400);
            let before = cpu(&nodes);
            let own = fleet.ask(&json!({ "do": "work", "hot": false, "ms": ms, "pause_us": 0 }));
            let used = (cpu(&nodes) - before) * 1e6;
            one.own.rounds.push(own.as_ref().and_then(rate));
            one.server_cpu.extend(own.as_ref().map(|own| used / float(own, "locks")));
            one.worst.extend(own.as_ref().map(|own| float(own, "worst_ms")));
            // One manager has nobody to hand over to.
            let hot = (size > 1).then(|| json!({ "do": "work", "hot": true, "ms": ms, "pause_us": 0 }));
            let hot = hot.and_then(|order| fleet.ask(&order));
            one.hot.rounds.push(hot.as_ref().and_then(rate));
            one.worst_hot.extend(hot.as_ref().map(|hot| float(hot, "worst_ms")));
        }
    }
    all
}

fn tell_work(at_work: &[(u64, Vec<AtWork>)], report: &mut Report) {
    let ((first, main), others) = at_work.split_first().unwrap();
    let at = |size: u64, name: &str| -> Option<&AtWork> {
        at_work.iter().find(|(one, _)| *one == size)?.1.iter().find(|one| one.own.name == name)
    };
    let middle = |values: &[f64]| (!values.is_empty()).then(|| percentile(values, 50));
    let most = |values: &[f64]| (!values.is_empty()).then(|| percentile(values, 100));

    let heads = |what: &str, more: &[&str]| -> Vec<String> {
        let one = |(size, _): &(u64, Vec<AtWork>)| {
            let managers = if *size == 1 { "manager" } else { "managers" };
            let heads = std::iter::once(&what).chain(more);
            heads.map(|head| format!("{} {managers}: {head}", whole_of(*size))).collect::<Vec<_>>()
        };
        others.iter().flat_map(one).collect()
    };
    let mut own: Vec<Series> = main.iter().map(|one| one.own.clone()).collect();
    for (series, one) in own.iter_mut().zip(main) {
        series.cost(SERVER_CPU, middle(&one.server_cpu));
        series.cost(WORST, most(&one.worst));
        for (size, _) in others {
            let there = at(*size, &series.name);
            series.more.push(json!(there.and_then(|there| there.own.middle())));
            series.more.push(json!(there.and_then(|there| middle(&there.server_cpu))));
            series.more.push(json!(there.and_then(|there| most(&there.worst))));
        }
    }
    let heads_of_own = heads("locks/s", &[SERVER_CPU, WORST]);
    let table = Table {
        workload: "fleet, own keys",
        title: &format!("{first} managers, each with a key of its own"),
        unit: "locks/s",
        more_is_better: true,
        references: &[],
        more: &heads_of_own.iter().map(String::as_str).collect::<Vec<_>>(),
    };
    report.add(&table, &own);

    let mut hot: Vec<Series> = main.iter().map(|one| one.hot.clone()).collect();
    for (series, one) in hot.iter_mut().zip(main) {
        series.cost(WORST_WAIT, most(&one.worst_hot));
        for (size, _) in others {
            let there = at(*size, &series.name);
            series.more.push(json!(there.and_then(|there| there.hot.middle())));
            series.more.push(json!(there.and_then(|there| most(&there.worst_hot))));
        }
    }
    let heads_of_hot = heads("hand-offs/s", &[WORST_WAIT]);
    let table = Table {
        workload: "fleet, one key",
        title: &format!("{first} managers that want one key, with one waiter each"),
        unit: "hand-offs/s",
        more_is_better: true,
        references: &[],
        more: &heads_of_hot.iter().map(String::as_str).collect::<Vec<_>>(),
    };
    report.add(&table, &hot);

    let (few, many) = (at(10, OURS), at(1000, OURS));
    let over = |of: fn(&AtWork) -> &Series| of(many?).over(of(few?));
    report.target("fleet, own keys", over(|one| &one.own));
    report.target("fleet, one key", over(|one| &one.hot));
    let cluster = at(*first, ON_A_CLUSTER).and_then(|there| middle(&there.server_cpu));
    let one = at(*first, OURS).and_then(|there| middle(&there.server_cpu));
    report.target("fleet, a Cluster", cluster.zip(one).map(|(cluster, one)| cluster / one));
    let most_managers = at_work.iter().filter_map(|(size, _)| at(*size, OURS)).next_back();
    report.fleet.lock_us = most_managers.and_then(|there| middle(&there.server_cpu));
    report.fleet.hand_offs =
        at_work.iter().filter_map(|(size, _)| at(*size, OURS)?.hot.middle()).min_by(f64::total_cmp);
}

const WORST: &str = "longest call, ms";
const WORST_WAIT: &str = "longest wait, ms";

// Ends --------------------------------------------------------------------------------------------

/// The server is killed; then a tenth of the fleet is replaced each second.
fn ends(size: u64, extent: Extent, report: &mut Report) {
    let mut all = Vec::new();
    for (name, kind) in CONTENDERS {
        let mut series = Series::new(name, kind);
        let mut server = RedisServer::start_with(&["--tcp-backlog".to_owned(), "511".to_owned()]);
        let (memory, clients) = (used_memory(&server), connected(&server));
        let mut fleet = Fleet::start(name, &server.url(), size);
        let each = |more: f64| more / size as f64;
        // At their beginning: the server takes some of it back from those that are idle.
        let kilobytes = each(used_memory(&server) - memory) / 1e3;
        series.cost(SERVER_MEMORY, Some(kilobytes));
        series.cost("kB of the client each", fleet.bytes.map(|bytes| bytes / 1e3));
        series.cost("connections each", Some(each(connected(&server) - clients)));
        let outage = outage(&mut fleet, &mut server, size);
        series.rounds.push(outage.as_ref().and_then(|outage| outage.last_ms));
        series.cost("connections each, to come back", outage.as_ref().map(|outage| each(outage.connections)));
        series.cost("longest queue of connections", outage.as_ref().map(|outage| outage.queue));
        // One that did not come back would fail here for another reason.
        let is_back = outage.is_some_and(|outage| outage.last_ms.is_some());
        let rolled = is_back.then(|| rolling(&mut fleet, size, extent)).flatten();
        series.cost("calls failed while it rolls", rolled.as_ref().map(|rolled| rolled.failed));
        series.more = vec![
            json!(rolled.as_ref().map(|rolled| rolled.share)),
            json!(rolled.as_ref().map(|rolled| rolled.worst_ms)),
        ];
        if name == OURS {
            report.fleet.kilobytes = Some(kilobytes);
            report.fleet.connections = Some(each(connected(&server) - clients));
        }
        all.push(series);
    }
    let table = Table {
        workload: "fleet, restarts",
        title: &format!(
            "{} managers, their server killed and back after {AWAY:?}: all work again",
            whole_of(size)
        ),
        unit: "ms",
        more_is_better: false,
        references: &[],
        more: &[
            "a tenth replaced each second: locks/s ÷ before",
            "a tenth replaced each second: longest call, ms",
        ],
    };
    report.add(&table, &all);
    let cost = |what: &str| {
        find(&all, OURS)?.costs.iter().find(|(one, _)| *one == what).and_then(|(_, value)| *value)
    };
    report.target("fleet, back", find(&all, OURS).and_then(Series::middle));
    report.target("fleet, connections", cost("connections each, to come back"));
    report.target("fleet, memory", cost(SERVER_MEMORY));
    report.target("fleet, rolling", cost("calls failed while it rolls"));
}

struct Outage {
    /// `None`: not all of them came back.
    last_ms: Option<f64>,
    connections: f64,
    /// The most that had not been accepted yet.
    queue: f64,
}

fn outage(fleet: &mut Fleet, server: &mut RedisServer, size: u64) -> Option<Outage> {
    // A tenth of what the server can do.
    let pause = 200 * size.max(10);
    fleet.ask(&json!({ "do": "begin", "pause_us": pause }))?;
    thread::sleep(AWAY / 2);
    server.kill();
    fleet.ask(&json!({ "do": "gone" }))?;
    thread::sleep(AWAY);
    let queue = Queue::watch(server.port());
    server.restart();
    let limit = u64::try_from(LIMIT.as_millis()).ok()?;
    let back = fleet.ask(&json!({ "do": "back", "limit_ms": limit }))?;
    let queue = queue.most();
    let connections = info(server, "stats", "total_connections_received:");
    fleet.ask(&json!({ "do": "end" }))?;
    let all_are_back = back["managers"].as_u64() == Some(size);
    Some(Outage { last_ms: all_are_back.then(|| float(&back, "last_ms")), connections, queue })
}

struct Rolled {
    share: f64,
    worst_ms: f64,
    failed: f64,
}

fn rolling(fleet: &mut Fleet, size: u64, extent: Extent) -> Option<Rolled> {
    let pause = 200 * size.max(10);
    let before = fleet.ask(&json!({ "do": "work", "hot": false, "ms": 1000, "pause_us": pause }))?;
    fleet.ask(&json!({ "do": "begin", "pause_us": pause }))?;
    for nth in 0..extent.of(PARTS, 3) {
        let start = Instant::now();
        fleet.ask(&json!({ "do": "replace", "nth": nth, "of": PARTS }))?;
        thread::sleep(Duration::from_secs(1).saturating_sub(start.elapsed()));
    }
    let rolled = fleet.ask(&json!({ "do": "end" }))?;
    Some(Rolled {
        share: rate(&rolled)? / rate(&before)?,
        worst_ms: float(&rolled, "worst_ms"),
        failed: float(&rolled, "failed"),
    })
}

/// Connections that the server has not accepted yet, looked at each millisecond.
struct Queue {
    ends: Arc<AtomicBool>,
    most: Arc<AtomicU64>,
    thread: thread::JoinHandle<()>,
}

impl Queue {
    fn watch(port: u16) -> Self {
        let (ends, most) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (ended, seen) = (Arc::clone(&ends), Arc::clone(&most));
        let thread = thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                seen.fetch_max(not_accepted(port).unwrap_or_default(), Ordering::Relaxed);
                thread::sleep(Duration::from_millis(1));
            }
        });
        Self { ends, most, thread }
    }

    fn most(self) -> f64 {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.most.load(Ordering::Relaxed) as f64
    }
}

/// As the kernel says of the socket that listens (`0A`) at this port.
fn not_accepted(port: u16) -> Option<u64> {
    let sockets = std::fs::read_to_string("/proc/net/tcp").ok()?;
    let address = format!("0100007F:{port:04X}");
    let line = sockets.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (words.get(1) == Some(&address.as_str()) && words.get(3) == Some(&"0A")).then_some(words)
    })?;
    u64::from_str_radix(line.get(4)?.split_once(':')?.1, 16).ok()
}

// Many locks held ---------------------------------------------------------------------------------

fn hold(extent: Extent, report: &mut Report) {
    let locks: u64 = extent.of(1_000_000, 50_000);
    let ttl = Duration::from_secs(extent.of(90, 9));
    let server = RedisServer::start();
    let mut fleet = Fleet::start(OURS, &server.url(), HOLDERS);
    let memory = used_memory(&server);
    let ttl_ms = u64::try_from(ttl.as_millis()).unwrap();
    let start = Instant::now();
    let held = fleet.ask(&json!({ "do": "hold", "count": locks / HOLDERS, "ttl_ms": ttl_ms }));
    let taken_in = start.elapsed();
    // The first renewals ask the server to report what happens to each key.
    thread::sleep((ttl / 3).saturating_sub(taken_in) + ttl / 10);
    let mut series = Series::new(OURS, Kind::Ours);
    let mut shares = Vec::new();
    for _ in 0..2 {
        let (before, start) = (cpu(&[&server]), Instant::now());
        let Some(watched) = fleet.ask(&json!({ "do": "watch", "ms": ttl_ms / 3 })) else { break };
        shares.push((cpu(&[&server]) - before) / start.elapsed().as_secs_f64() * 100.0);
        series.rounds.push(Some(float(&watched, "share") * 100.0));
        series.more = vec![watched["lost"].clone()];
    }
    let server_share = (!shares.is_empty()).then(|| percentile(&shares, 50));
    let each = (used_memory(&server) - memory) / locks as f64;
    series.cost("server, % of a core", server_share);
    series.cost("bytes of the client a lock", held.as_ref().map(|held| float(held, "bytes")));
    series.cost("bytes of the server a lock", Some(each));
    series.cost("s to take them", Some(taken_in.as_secs_f64()));
    let table = Table {
        workload: "fleet, held",
        title: &format!(
            "{} locks held by {HOLDERS} managers, ttl {ttl:?}, each renewed once in {:?}",
            whole_of(locks),
            ttl / 3
        ),
        unit: "% of a core",
        more_is_better: false,
        references: &[],
        more: &["lost"],
    };
    let lost = series.more.first().and_then(Value::as_f64);
    report.add(&table, &[series]);
    report.target("fleet, lost", lost.filter(|_| !extent.quick));
    let renewals_a_second = locks as f64 / (ttl / 3).as_secs_f64();
    report.fleet.renewal_us = server_share.map(|share| share / 100.0 * 1e6 / renewals_a_second);
    report.fleet.lock_bytes = Some(each);
}

fn whole_of(number: u64) -> String {
    whole(usize::try_from(number).unwrap())
}

// The other process -------------------------------------------------------------------------------

/// A process with the managers of one contender; it ends with this value.
struct Fleet {
    process: Child,
    stdin: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// The memory of a manager, on average.
    bytes: Option<f64>,
}

impl Fleet {
    /// All its managers are connected.
    fn start(name: &str, url: &str, managers: u64) -> Self {
        let order = json!({ "name": name, "url": url, "managers": managers });
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.env(ORDER, order.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = child.spawn().unwrap();
        let stdin = process.stdin.take().unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap());
        let mut fleet = Self { process, stdin, answers, bytes: None };
        fleet.bytes = fleet.answer().map(|answer| float(&answer, "bytes"));
        fleet
    }

    /// `None` when it has failed: its messages go to standard error.
    fn ask(&mut self, order: &Value) -> Option<Value> {
        writeln!(self.stdin, "{order}").ok()?;
        self.answer()
    }

    fn answer(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.answers.read_line(&mut line).ok()?;
        serde_json::from_str(&line).ok()
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn float(answer: &Value, name: &str) -> f64 {
    answer[name].as_f64().unwrap_or_default()
}

/// `None` when not one lock was taken.
fn rate(done: &Value) -> Option<f64> {
    let locks = float(done, "locks");
    (locks > 0.0).then(|| locks / float(done, "seconds"))
}

/// Returns the processor time of all nodes, in seconds.
fn cpu(nodes: &[&RedisServer]) -> f64 {
    nodes.iter().map(|node| server_cpu(&mut node.client()).as_secs_f64()).sum()
}

fn used_memory(server: &RedisServer) -> f64 {
    info(server, "memory", "used_memory:")
}

fn connected(server: &RedisServer) -> f64 {
    info(server, "clients", "connected_clients:")
}

fn info(server: &RedisServer, section: &str, field: &str) -> f64 {
    let info: String = server.run(&format!("INFO {section}"));
    info.lines().find_map(|line| line.strip_prefix(field)).unwrap().trim().parse().unwrap()
}
