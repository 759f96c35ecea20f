//! The example runs, and a scrape of it has true values.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use kit::{RedisServer, eventually};
use redlocked_telemetry::value;

struct Example {
    child: Child,
    address: String,
}

impl Example {
    fn start(redis: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_metrics"));
        command.env("REDIS_URL", redis).env("METRICS_ADDRESS", "127.0.0.1:0").stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("metrics at http://").unwrap();
        Self { address: address.strip_suffix("/metrics").unwrap().to_owned(), child }
    }

    fn scrape(&self) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: example\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
        body.to_owned()
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_scrape_has_the_waits_and_holds_of_the_shop() {
    let server = RedisServer::start();
    let example = Example::start(&server.url());
    let of = |scraped: &str, name: &str, more: &[(&str, &str)]| {
        let labels = [&[("lock", "stock:{sku}")], more].concat();
        value(scraped, name, &labels).unwrap_or_default()
    };
    eventually("customers bought, and some came too late", || {
        let scraped = example.scrape();
        let attempts = |outcome| of(&scraped, "redlocked_attempts_total", &[("outcome", outcome)]);
        let reports = [("lock", "nightly-report"), ("outcome", "acquired")];
        of(&scraped, "redlocked_hold_seconds_count", &[]) > 20.0
            && of(&scraped, "redlocked_hand_overs_total", &[("by", "server")]) > 5.0
            && attempts("timed_out") > 0.0
            && value(&scraped, "redlocked_attempts_total", &reports) > Some(5.0)
    });
    let scraped = example.scrape();
    let holds = of(&scraped, "redlocked_hold_seconds_count", &[]);
    let shorter_than = |le| of(&scraped, "redlocked_hold_seconds_bucket", &[("le", le)]);
    assert!(shorter_than("0.01") < 1.0, "a purchase takes 50 ms:\n{scraped}");
    assert!(shorter_than("+Inf") >= holds && holds > 20.0, "{scraped}");
    let seconds = of(&scraped, "redlocked_hold_seconds_sum", &[]);
    assert!(seconds >= 0.05 * holds, "{seconds} s for {holds} purchases");
    let (waiting, holding) =
        (of(&scraped, "redlocked_callers_waiting", &[]), of(&scraped, "redlocked_callers_holding", &[]));
    assert!((0.0..=3.0).contains(&holding), "three articles, but {holding} holders");
    assert!((0.0..=15.0).contains(&waiting), "fifteen customers, but {waiting} wait");
    assert!(!scraped.contains("shoes"), "no key is a label");
    assert!(scraped.contains("# HELP redlocked_wait_seconds "), "{scraped}");
}
