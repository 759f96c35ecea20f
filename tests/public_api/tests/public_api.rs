//! What users can name, and what 0.1 promises to keep: `docs/stability.md`. A change of it is read in review, as a
//! difference of a file in `items`, which `UPDATE_SNAPSHOTS=1` writes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::collections::HashSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use public_api::Builder;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

const PACKAGES: [&str; 4] = ["redlock-runtime", "redlocked", "redlocked-dashboard", "redlocked-sqlx"];

/// The folder with the JSON of rustdoc, with all features: a stable toolchain must be allowed to write it.
fn documentation() -> PathBuf {
    let folder = workspace().join("target/public_api");
    let status = Command::new(env!("CARGO"))
        .args(["doc", "--quiet", "--no-deps", "--lib", "--all-features", "--target-dir"])
        .arg(&folder)
        .args(PACKAGES.map(|package| format!("--package={package}")))
        .env("RUSTDOCFLAGS", "-Z unstable-options --output-format json --cap-lints allow")
        .env("RUSTC_BOOTSTRAP", "1")
        .current_dir(workspace())
        .status()
        .unwrap();
    assert!(status.success(), "rustdoc has failed");
    folder.join("doc")
}

/// Each public item in a line, as it is declared; without what every type has, and what `derive` writes.
fn items(json: &Path) -> String {
    let api = Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()
        .unwrap();
    let mut lines = String::new();
    for item in api.items() {
        writeln!(lines, "{item}").unwrap();
    }
    lines
}

/// What was there before and is not now, or the other way round.
fn only_in(sign: &str, ours: &str, others: &str) -> String {
    let others: HashSet<&str> = others.lines().collect();
    ours.lines().filter(|line| !others.contains(line)).flat_map(|line| [sign, " ", line, "\n"]).collect()
}

#[test]
fn the_public_items_are_those_of_the_list() {
    let documentation = documentation();
    let mut changes = String::new();
    for package in PACKAGES {
        let now = items(&documentation.join(format!("{}.json", package.replace('-', "_"))));
        let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("items").join(format!("{package}.txt"));
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            std::fs::write(&list, &now).unwrap();
        }
        let before = std::fs::read_to_string(&list).unwrap();
        if before != now {
            let (gone, new) = (only_in("-", &before, &now), only_in("+", &now, &before));
            write!(changes, "{package}:\n{gone}{new}").unwrap();
        }
    }
    assert!(
        changes.is_empty(),
        "{changes}UPDATE_SNAPSHOTS=1 cargo test -p redlocked-public-api writes the lists"
    );
}
