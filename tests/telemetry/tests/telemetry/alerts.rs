//! The alerts for Prometheus: it accepts them, they fire when they should, and the page says what
//! each means.

use std::collections::BTreeSet;
use std::process::Command;

use kit::skipped;

const ALERTS: &str = include_str!("../../../../docs/alerts.yaml");

#[test]
fn prometheus_accepts_the_alerts_and_they_fire_when_they_should() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    for arguments in
        [["check", "rules", "docs/alerts.yaml"], ["test", "rules", "tests/telemetry/alerts.yaml"]]
    {
        match Command::new("promtool").args(arguments).current_dir(root).output() {
            Ok(output) => {
                let said = [output.stdout, output.stderr].concat();
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
            }
            Err(error) => {
                assert!(std::env::var_os("CI").is_none(), "promtool is missing, and this is CI: {error}");
                skipped("promtool is missing (Debian, Ubuntu: in the package prometheus)");
                return;
            }
        }
    }
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
