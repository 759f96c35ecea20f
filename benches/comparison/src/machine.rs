//! The machine of a run: enough to compare runs, and nothing that names the machine.

use std::fs;
use std::process::Command;

use kit::RedisServer;

use crate::workload::Servers;

pub fn describe(servers: &Servers) -> Vec<(&'static str, String)> {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let versions: Vec<String> = servers.all().map(RedisServer::version).collect();
    vec![
        ("CPU", format!("{}, {cores} cores for everything, servers included", processor())),
        ("System", format!("{} {}", std::env::consts::OS, kernel().unwrap_or_default())),
        ("Servers", format!("{}, on loopback, without persistence", versions.join(" and "))),
        ("Rust", rustc().unwrap_or("?".to_owned())),
    ]
}

/// Its name, as the kernel knows it.
pub fn processor() -> String {
    model().unwrap_or("?".to_owned())
}

fn model() -> Option<String> {
    let info = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find_map(|line| line.strip_prefix("model name"))?;
    Some(line.trim_start_matches([' ', '\t', ':']).to_owned())
}

/// The version number only: the suffix may name a private build.
fn kernel() -> Option<String> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    Some(release.split(['-', '+', '\n']).next()?.to_owned())
}

fn rustc() -> Option<String> {
    let output =
        Command::new("rustc").arg("--version").current_dir(env!("CARGO_MANIFEST_DIR")).output().ok()?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
