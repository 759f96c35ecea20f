//! Copies the files of the engine in which its threads meet, once as they are, and once for each
//! mutant: with other names for the synchronisation, the clock and tokio. What is not copied has
//! its model in `src/`.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a build that cannot go on")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

#[path = "src/mutants.rs"]
mod mutants;

/// Below `redlock-runtime/src/`.
const FILES: [&str; 9] = [
    "engine/event_loop/turn.rs",
    "engine/runner/mod.rs",
    "engine/runner/shared_thread.rs",
    "engine/runner/stall_watch.rs",
    "engine/runner/loop_lock.rs",
    "engine/runner/fallback_runtime.rs",
    "engine/runner/fallback_runtime/blocked_callers.rs",
    "engine/wakers.rs",
    "base/alarm.rs",
];

/// Below `src/copy/`: what each copy has beside them.
const MODELS: [(&str, &str); 3] = [
    ("event_loop.rs", "engine/event_loop/mod.rs"),
    ("scenarios.rs", "engine/scenarios.rs"),
    ("wakers.rs", "engine/woken.rs"),
];

fn main() {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap());
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    let sources = here.join("../../redlock-runtime/src");
    println!("cargo::rerun-if-changed={}", sources.display());
    // Named in the copied sources.
    println!("cargo::rustc-check-cfg=cfg(feature, values(\"testing\"))");
    println!("cargo::rerun-if-changed={}", here.join("src").display());
    write(&out.join("clock/mod.rs"), &renamed(&read(&sources.join("base/clock/mod.rs")), "crate"));
    let mut modules =
        format!("#[path = {:?}]\npub(crate) mod clock;\n", out.join("clock/mod.rs").display().to_string());
    let mut table = String::from("pub(crate) const COPIES: &[Copy] = &[\n");
    let as_it_is = [("real", "", "", "", "")];
    for (name, file, from, to, scenario) in as_it_is.into_iter().chain(mutants::MUTANTS) {
        let copy = out.join(name);
        let mut is_changed = file.is_empty();
        for path in FILES {
            let mut text = read(&sources.join(path));
            if path == file {
                assert_eq!(text.matches(from).count(), 1, "{name}: {file} has not once: {from}");
                text = text.replace(from, to);
                is_changed = true;
            }
            write(&copy.join(path), &renamed(&text, &format!("crate::{name}")));
        }
        assert!(is_changed, "{name}: {file} is not copied");
        for (model, path) in MODELS {
            write(
                &copy.join(path),
                &renamed(&read(&here.join("src/copy").join(model)), &format!("crate::{name}")),
            );
        }
        let engine = "pub(crate) mod event_loop;\npub(crate) mod runner;\npub(crate) mod scenarios;\n\
                      pub(crate) mod wakers;\npub(crate) mod woken;\n";
        write(&copy.join("engine/mod.rs"), engine);
        write(&copy.join("mod.rs"), "pub(crate) mod base;\npub(crate) mod engine;\n");
        write(&copy.join("base/mod.rs"), "pub(crate) mod alarm;\n");
        writeln!(modules, "#[path = {:?}]\nmod {name};", copy.join("mod.rs").display().to_string()).unwrap();
        writeln!(table, "    ({name:?}, {scenario:?}, {name}::engine::scenarios::ALL),").unwrap();
    }
    write(&out.join("copies.rs"), &format!("{modules}{table}];\n"));
}

/// The names in the text as they are in this package; nothing from its unit tests on.
fn renamed(text: &str, copy: &str) -> String {
    let text = text.split("\n#[cfg(test)]\nmod ").next().unwrap();
    let text = text
        .replace("use tokio::", "use crate::tokio::")
        .replace("tokio::time::sleep", "crate::tokio::time::sleep");
    let text = text.replace("crate::base::alarm", &format!("{copy}::base::alarm"));
    // The rest of the base has its model at the root of this package.
    let text = text.replace("crate::base::", "crate::");
    text.replace("crate::engine", &format!("{copy}::engine"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    // What has not changed is not built again.
    if fs::read_to_string(path).ok().as_deref() != Some(text) {
        fs::write(path, text).unwrap();
    }
}
