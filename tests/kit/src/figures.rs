//! Medians, tables, and the CPU time and memory of this process and of the server.

use std::time::Duration;

/// `cargo bench` says so; any other caller (`cargo test --benches`) only wants to see it run.
pub fn is_measuring() -> bool {
    std::env::args().any(|argument| argument == "--bench")
}

/// `full` when measured, else `short`.
pub fn rounds(full: usize, short: usize) -> usize {
    if is_measuring() { full } else { short }
}

/// The value below which `percent` of all lie; zero when there is none.
pub fn percentile(values: &[f64], percent: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    sorted.get(last * percent / 100).copied().unwrap_or_default()
}

/// The value in the middle.
pub fn median(values: &[f64]) -> f64 {
    percentile(values, 50)
}

/// The median over rounds of the ratio within one round.
pub fn over(ours: &[f64], theirs: &[f64]) -> f64 {
    median(&ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect::<Vec<_>>())
}

/// As a figure of a table.
pub fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// A table in Markdown: the first column to the left, all others to the right.
pub fn table(title: &str, head: &[&str], rows: &[Vec<String>]) {
    let head: Vec<String> = head.iter().map(|&cell| cell.to_owned()).collect();
    let width = |column: usize| {
        rows.iter().chain([&head]).map(|row| row[column].chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    println!("\n{title}\n");
    let line = |row: &[String]| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        println!("| {} |", cells.collect::<Vec<_>>().join(" | "));
    };
    line(&head);
    let rule: Vec<String> = widths
        .iter()
        .enumerate()
        .map(|(column, width)| if column == 0 { "-".repeat(*width) } else { "-".repeat(width - 1) + ":" })
        .collect();
    line(&rule);
    for row in rows {
        line(row);
    }
}

/// What all threads of this process have computed; nothing where there is no such clock.
#[cfg(not(unix))]
pub fn own_cpu() -> Duration {
    Duration::ZERO
}

/// What all threads of this process have computed.
#[cfg(unix)]
pub fn own_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

/// The CPU time of the server, as it reports it.
pub fn server_cpu(client: &mut redis::Connection) -> Duration {
    let info: String = redis::cmd("INFO").arg("cpu").query(client).unwrap();
    cpu_in(&info)
}

/// The CPU time of a server in the text of `INFO cpu`.
pub fn cpu_in(info: &str) -> Duration {
    let used = |name: &str| -> f64 {
        let line = info.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().parse().unwrap()
    };
    Duration::from_secs_f64(used("used_cpu_user:") + used("used_cpu_sys:"))
}

/// A number from `/proc/self/status`; `None` where there is no such thing.
pub fn status(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}
