//! The example runs, and its traces show the wait and the hold of each request.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::process::Command;

use kit::RedisServer;

/// A span, as the exporter prints it.
struct Span<'a>(&'a str);

impl Span<'_> {
    fn value(&self, name: &str) -> Option<&str> {
        let line = self.0.lines().map(str::trim).find(|line| {
            let line = line.trim_start_matches("->").trim_start();
            line.strip_prefix(name).is_some_and(|rest| rest.trim_start().starts_with(':'))
        });
        line?.split_once(':').map(|(_, value)| value.trim())
    }

    fn number(&self, name: &str) -> i64 {
        let shown = self.value(name).unwrap_or_else(|| panic!("no {name} in {}", self.0));
        let number = shown.strip_prefix("I64(").and_then(|shown| shown.strip_suffix(')'));
        number.unwrap_or_else(|| panic!("{name} is no number: {shown}")).parse().unwrap()
    }
}

#[test]
fn a_trace_has_the_wait_and_the_hold_and_says_which_failed_and_why() {
    let server = RedisServer::start();
    let output = Command::new(env!("CARGO_BIN_EXE_traces")).env("REDIS_URL", server.url()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).unwrap();
    let spans: Vec<_> =
        printed.split("Span #").skip(1).map(|span| Span(&span[span.find("\n\n").unwrap()..])).collect();
    let named = |name: &str| spans.iter().filter(|span| span.value("Name") == Some(name)).collect::<Vec<_>>();
    let (callers, waits, holds) = (named("purchase"), named("lock_wait"), named("lock_hold"));
    assert_eq!((callers.len(), waits.len(), holds.len()), (3, 3, 2), "{printed}");

    for span in waits.iter().chain(&holds) {
        assert!(
            callers.iter().any(|caller| caller.value("SpanId") == span.value("ParentSpanId")),
            "{printed}"
        );
        assert!(span.value("function").unwrap().contains("traces::purchase"), "{printed}");
    }
    let (failed, acquired): (Vec<&&Span<'_>>, Vec<_>) =
        waits.iter().partition(|span| span.value("Status").unwrap().starts_with("Error"));
    let [failed] = failed[..] else { panic!("{printed}") };
    assert!(failed.value("Status").unwrap().contains("waiting for `stock:shoes`"), "{printed}");
    assert!(failed.value("outcome").unwrap().contains("timed_out"), "{printed}");
    assert!(failed.number("waited_ms") >= 150, "{printed}");
    assert!(acquired.iter().any(|span| span.number("waited_ms") >= 50), "{printed}");
    for hold in holds {
        assert_eq!(hold.value("Status"), Some("Unset"), "{printed}");
        assert!(hold.number("held_ms") >= 100, "{printed}");
        assert!(hold.0.contains("sold"), "what the body says is inside: {printed}");
    }
}

#[test]
fn the_page_has_the_lines_of_the_example() {
    let page = include_str!("../../../docs/operating.md");
    let (_, section) = page.split_once("### OpenTelemetry").unwrap();
    let (_, code) = section.split_once("```rust,ignore\n").unwrap();
    let example: Vec<_> = include_str!("../src/traces.rs").lines().map(str::trim).collect();
    for line in code.lines().take_while(|line| *line != "```") {
        assert!(example.contains(&line.trim()), "not in the example: {line}");
    }
}
