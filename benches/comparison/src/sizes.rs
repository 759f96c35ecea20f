//! The cost of a dependency to build and to ship: processor time of a cold release build, and bytes
//! of the stripped program.
//!
//! Programs of a few lines are built below `target/`, each from nothing, with the versions of this
//! crate's lockfile, and removed again. Linux only.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::contender::Kind;
use crate::peers::RSLOCK;
use crate::product::product;
use crate::report::Report;
use crate::series::{Series, Table, find};
use crate::workload::{Extent, Servers};

const WITHOUT: &str = "tokio alone";
const OURS: &str = "redlocked";

const TOKIO: &str = r#"tokio = { version = "1", features = ["macros", "rt-multi-thread"] }"#;

struct Program {
    name: &'static str,
    kind: Kind,
    dependencies: String,
    main: &'static str,
}

fn programs(redlocked: &Path) -> [Program; 4] {
    [
        Program {
            name: WITHOUT,
            kind: Kind::Reference,
            dependencies: TOKIO.to_owned(),
            main: "#[tokio::main]\nasync fn main() { println!(\"sold\"); }\n",
        },
        Program {
            name: OURS,
            kind: Kind::Ours,
            dependencies: format!("{TOKIO}\nredlocked = {{ path = '{}' }}", redlocked.display()),
            main: r#"
                use redlocked::{LockError, LockManager, distributed_lock};
                #[distributed_lock(key = "stock:{sku}", wait = "5s")]
                async fn sell(sku: &str) -> Result<usize, LockError> { Ok(sku.len()) }
                #[tokio::main]
                async fn main() -> Result<(), LockError> {
                    LockManager::connect("redis://127.0.0.1/").await?.set_global();
                    println!("{}", sell("shoes").await?);
                    Ok(())
                }
            "#,
        },
        Program {
            name: RSLOCK,
            kind: Kind::Peer,
            dependencies: format!(
                "{TOKIO}\nrslock = {{ version = \"=0.10.0\", default-features = false, features = [\"tokio-comp\"] }}"
            ),
            main: r#"
                #[tokio::main]
                async fn main() {
                    let locks = rslock::LockManager::new(vec!["redis://127.0.0.1/"]);
                    let lock = locks.acquire_no_guard("stock:shoes", std::time::Duration::from_secs(30)).await.unwrap();
                    println!("5");
                    locks.unlock(&lock).await;
                }
            "#,
        },
        Program {
            name: "redis 1.8 alone",
            kind: Kind::Reference,
            dependencies: format!(
                "{TOKIO}\nredis = {{ version = \"1.8\", default-features = false, features = [\"tokio-comp\"] }}"
            ),
            main: r#"
                #[tokio::main]
                async fn main() {
                    let client = redis::Client::open("redis://127.0.0.1/").unwrap();
                    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
                    let set: bool = redis::cmd("SET").arg("stock:shoes").arg("1").arg("NX").arg("PX").arg(30_000)
                        .query_async(&mut connection).await.unwrap();
                    println!("{set}");
                }
            "#,
        },
    ]
}

pub fn measure(_: &Servers, extent: Extent, report: &mut Report) {
    if extent.quick {
        report.left_out("builds and sizes", "only the full run builds");
        return;
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let product = product();
    let place = Place(product.join("target/sizes"));
    // A killed run leaves its directory.
    let _ = fs::remove_dir_all(&place.0);
    let mut builds = Vec::new();
    for program in programs(product) {
        let Program { name, kind, .. } = program;
        match build(&place.0, here, &program) {
            Ok((seconds, size)) => {
                let mut series = Series::new(name, kind);
                series.rounds.push(Some(seconds));
                series.cost("KiB, stripped", Some(size / 1024.0));
                builds.push(series);
            }
            Err(why) => report.left_out(&format!("the build of {name}"), &why),
        }
        // Each build starts from nothing.
        let _ = fs::remove_dir_all(&place.0);
    }
    let table = Table {
        workload: "build",
        title: "Cold release build of a program of a few lines",
        unit: "s of processor time",
        more_is_better: false,
        references: &[(WITHOUT, "tokio alone")],
        more: &[],
    };
    report.add(&table, &builds);
    let (ours, theirs) = (find(&builds, OURS), find(&builds, RSLOCK));
    report.target("program, build", ours.and_then(|ours| ours.over(theirs?)));
    let size = |one: Option<&Series>| one?.costs.first()?.1;
    report.target("program, size", size(ours).zip(size(theirs)).map(|(ours, theirs)| ours / theirs));
}

/// A directory, removed with this.
struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Seconds of processor time, and bytes.
fn build(place: &Path, here: &Path, program: &Program) -> Result<(f64, f64), String> {
    let words = |error: std::io::Error| error.to_string();
    fs::create_dir_all(place.join("src")).map_err(words)?;
    let manifest = format!(
        "[package]\nname = \"program\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n[dependencies]\n{}\n",
        program.dependencies
    );
    fs::write(place.join("Cargo.toml"), manifest).map_err(words)?;
    fs::write(place.join("src/main.rs"), program.main).map_err(words)?;
    fs::copy(here.join("Cargo.lock"), place.join("Cargo.lock")).map_err(words)?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--release", "--offline", "--quiet"]).current_dir(place);
    cargo.env("CARGO_TARGET_DIR", place.join("target")).env("CARGO_PROFILE_RELEASE_STRIP", "symbols");
    cargo.stdin(Stdio::null()).stderr(Stdio::piped());
    let before = children_cpu().ok_or("no /proc/self/stat here")?;
    let output = cargo.output().map_err(words)?;
    let after = children_cpu().ok_or("no /proc/self/stat here")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(said.lines().next().unwrap_or("it failed").to_owned());
    }
    let size = fs::metadata(place.join("target/release/program")).map_err(words)?.len();
    Ok((after - before, f64::from(u32::try_from(size).unwrap())))
}

/// The CPU time of all ended children and their children, in seconds: the kernel counts in
/// hundredths.
fn children_cpu() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program is in brackets, and may hold anything.
    let (_, fields) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    let ticks = |field: usize| fields.get(field)?.parse::<u32>().ok().map(f64::from);
    Some((ticks(13)? + ticks(14)?) / 100.0)
}
