//! The alerts for Prometheus: it accepts them, they fire when they should, and the page says what
//! each means.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::process::Command;

use kit::{skipped, unique};
use serde_json::Value;

const ALERTS: &str = include_str!("../../../../docs/alerts.yaml");

/// False where it is missing.
#[track_caller]
fn promtool_accepts(arguments: [&str; 3]) -> bool {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    match Command::new("promtool").args(arguments).current_dir(root).output() {
        Ok(output) => {
            let said = [output.stdout, output.stderr].concat();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
            true
        }
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "promtool is missing, and this is CI: {error}");
            skipped("promtool is missing (Debian, Ubuntu: in the package prometheus)");
            false
        }
    }
}

#[test]
fn prometheus_accepts_the_alerts_and_they_fire_when_they_should() {
    if promtool_accepts(["check", "rules", "docs/alerts.yaml"]) {
        promtool_accepts(["test", "rules", "tests/telemetry/alerts.yaml"]);
    }
}

#[test]
fn prometheus_accepts_what_the_dashboard_asks_for_and_each_panel_has_the_variables() {
    let dashboard: Value = serde_json::from_str(include_str!("../../../../docs/dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let titles: Vec<_> = panels.iter().map(|panel| panel["title"].as_str().unwrap()).collect();
    assert_eq!(titles[..3], ["Locks lost", "Calls that fail", "Longest wait"]);
    for panel in &panels[..3] {
        let steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"].as_array().unwrap();
        assert!(steps.len() > 1, "{} has thresholds", panel["title"]);
    }
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let mut rules = String::from("groups:\n  - name: dashboard\n    rules:\n");
    for (number, target) in targets.enumerate() {
        let asks = target["expr"].as_str().unwrap();
        for variable in ["job=~\"$job\"", "instance=~\"$instance\""] {
            assert!(asks.contains(variable), "{variable}: {asks}");
        }
        let asks = asks.replace("$__rate_interval", "5m").replace("$__range", "1h");
        let asks = serde_json::to_string(&asks).unwrap();
        writeln!(rules, "      - {{ record: 'panel:{number}', expr: {asks} }}").unwrap();
    }
    let path = std::env::temp_dir().join(unique("redlocked-dashboard"));
    std::fs::write(&path, rules).unwrap();
    promtool_accepts(["check", "rules", path.to_str().unwrap()]);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn the_page_says_what_each_alert_means_and_each_is_tried() {
    let after = |text: &'static str, start: &'static str| {
        let found = text.split(start).skip(1).filter_map(|rest| rest.split([',', ' ', '\n', '`']).next());
        found.collect::<BTreeSet<_>>()
    };
    let alerts = after(ALERTS, "- alert: ");
    assert!(alerts.len() >= 7, "{alerts:?}");
    let rows = after(include_str!("../../../../docs/operating.md"), "\n| `");
    assert_eq!(alerts, rows.into_iter().filter(|row| row.starts_with("Redlocked")).collect());
    let tried = include_str!("../../alerts.yaml");
    for alert in alerts {
        assert!(
            tried.contains(&format!("alertname: {alert}\n        exp_alerts:\n          - ")),
            "{alert} never fires"
        );
    }
}
