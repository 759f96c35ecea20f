//! Real PostgreSQL, MariaDB and MySQL servers, each on a free loopback port, with a directory of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::Instant;

use crate::{LIMIT, free_port, skipped, unique};

/// `nobody`, everywhere.
const NOBODY: &str = "65534";

/// A server that is killed when this is dropped.
pub struct DatabaseServer {
    process: Child,
    url: String,
    directory: PathBuf,
}

impl DatabaseServer {
    /// PostgreSQL, with a superuser `postgres` and a database of that name. `None` where it is not to
    /// be had, which is a failure where `CI` is set.
    pub fn postgres() -> Option<Self> {
        static PROGRAMS: LazyLock<Option<Programs>> =
            LazyLock::new(|| Programs::get("postgres").or_fails_in_ci());
        let programs = PROGRAMS.as_ref()?;
        let directory = directory();
        let no_root = without_root(&directory);
        let data = directory.join("data");
        let mut initdb = programs.command("initdb", &no_root);
        initdb.args(["--username=postgres", "--auth=trust", "--no-sync", "--encoding=UTF8"]);
        succeeds(initdb.args(["--locale=C", "-D"]).arg(&data));
        Some(Self::start(&directory, "postgres://postgres@127.0.0.1:{port}/postgres", &|port| {
            let mut server = programs.command("postgres", &no_root);
            server.arg("-D").arg(&data).args(["-p", &port.to_string(), "-h", "127.0.0.1"]);
            for setting in ["unix_socket_directories=", "fsync=off", "jit=off", "max_connections=200"] {
                server.args(["-c", setting]);
            }
            server
        }))
    }

    /// MariaDB, with a database `test`, without users and passwords. `None` where it is not to be had,
    /// which is a failure where `CI` is set.
    pub fn mariadb() -> Option<Self> {
        static PROGRAMS: LazyLock<Option<Programs>> =
            LazyLock::new(|| Programs::get("mariadb").or_fails_in_ci());
        let programs = PROGRAMS.as_ref()?;
        let directory = directory();
        // The directory of a database.
        fs::create_dir_all(directory.join("data/test")).unwrap();
        Some(Self::start(&directory, "mysql://root@127.0.0.1:{port}/test", &|port| {
            let mut server = programs.mysql("mariadbd", &directory);
            server.args(["--skip-grant-tables", "--innodb-log-file-size=16M"]);
            server.arg(format!("--port={port}"));
            server
        }))
    }

    /// MySQL, with a database `test`, and without passwords. `None` where it is not to be had: it is in
    /// Debian's unstable suite alone, so its absence is no failure where `CI` is set.
    pub fn mysql() -> Option<Self> {
        static PROGRAMS: LazyLock<Option<Programs>> = LazyLock::new(|| Programs::get("mysql").or_skips());
        let programs = PROGRAMS.as_ref()?;
        let directory = directory();
        succeeds(programs.mysql("mysqld", &directory).arg("--initialize-insecure"));
        let first = directory.join("first.sql");
        fs::write(&first, "CREATE DATABASE IF NOT EXISTS test;\n").unwrap();
        Some(Self::start(&directory, "mysql://root@127.0.0.1:{port}/test", &|port| {
            let mut server = programs.mysql("mysqld", &directory);
            server.args(["--mysqlx=OFF", "--secure-file-priv=NULL", "--innodb-redo-log-capacity=32M"]);
            server.arg(format!("--port={port}")).arg(path_option("--init-file", &first));
            server
        }))
    }

    fn start(directory: &Path, url: &str, command: &dyn Fn(u16) -> Command) -> Self {
        // Another process may take the port before the server binds it: then try another one.
        for _ in 0..50 {
            let port = free_port();
            let log = fs::File::create(directory.join("log")).unwrap();
            let mut command = command(port);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
            let process = command.spawn().unwrap();
            let url = url.replace("{port}", &port.to_string());
            let mut server = Self { process, url, directory: directory.to_path_buf() };
            if server.is_up() {
                return server;
            }
            // It goes on with the same directory.
            server.directory = PathBuf::new();
        }
        let log = fs::read_to_string(directory.join("log")).unwrap_or_default();
        panic!("{} does not start on any port: {log}", command(0).get_program().display())
    }

    /// As its own log says: a port that another server has taken does not answer for this one.
    fn is_up(&mut self) -> bool {
        let start = Instant::now();
        loop {
            let log = fs::read_to_string(self.directory.join("log")).unwrap_or_default();
            if ["ready to accept connections", "ready for connections"].iter().any(|line| log.contains(line))
            {
                return true;
            }
            if self.process.try_wait().unwrap().is_some() {
                return false;
            }
            assert!(start.elapsed() < 3 * LIMIT, "the database does not start: {log}");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// For a client.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for DatabaseServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// The programs, or why there are none.
struct Found(Result<Programs, String>);

impl Found {
    fn or_skips(self) -> Option<Programs> {
        self.0.map_err(|why| skipped(&why)).ok()
    }

    fn or_fails_in_ci(self) -> Option<Programs> {
        let in_ci = std::env::var_os("CI").is_some();
        assert!(!in_ci || self.0.is_ok(), "{:?}", self.0.err());
        self.or_skips()
    }
}

/// The programs of a database, and their libraries where they are unpacked.
struct Programs {
    directory: PathBuf,
    libraries: Option<String>,
}

impl Programs {
    fn get(name: &str) -> Found {
        let get = Path::new(env!("CARGO_MANIFEST_DIR")).join("../databases/get");
        let found = Command::new(get).arg(name).stderr(Stdio::inherit()).output();
        let found = match found {
            Ok(Output { status, stdout, .. }) if status.success() => String::from_utf8(stdout).unwrap(),
            other => {
                return Found(Err(format!(
                    "these tests need {name}, and `tests/databases/get {name}` found none: {other:?}"
                )));
            }
        };
        let mut lines = found.lines();
        let directory = lines.next().unwrap().into();
        Found(Ok(Self { directory, libraries: lines.next().map(str::to_owned) }))
    }

    /// A server of this kind that keeps its data below this directory.
    fn mysql(&self, program: &str, directory: &Path) -> Command {
        let mut server = self.command(program, &[]);
        server.args(["--no-defaults", "--user=root", "--skip-log-bin", "--bind-address=127.0.0.1"]);
        server.args(["--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=32M"]);
        server.arg(path_option("--datadir", &directory.join("data")));
        server.arg(path_option("--socket", &directory.join("socket")));
        server.arg(path_option("--pid-file", &directory.join("pid")));
        if let Some(share) = self.unpacked("share/mysql") {
            server.arg(path_option("--lc-messages-dir", &share));
            server.arg(path_option("--character-sets-dir", &share.join("charsets")));
        }
        server
    }

    /// A folder below the `usr` that holds these programs, where they are unpacked: they would look for
    /// it in the system.
    fn unpacked(&self, folder: &str) -> Option<PathBuf> {
        self.libraries.as_ref()?;
        Some(self.directory.parent()?.join(folder))
    }

    /// Started by the words before it.
    fn command(&self, program: &str, before: &[&str]) -> Command {
        let program = self.directory.join(program);
        let mut command = match before {
            [] => Command::new(program),
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command.args(rest).arg(program);
                command
            }
        };
        if let Some(libraries) = &self.libraries {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        command
    }
}

fn path_option(name: &str, path: &Path) -> String {
    format!("{name}={}", path.display())
}

/// In memory where the system has such a directory, because a disk may be busy.
fn directory() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let below = if memory.is_dir() { memory } else { std::env::temp_dir() };
    let directory = below.join(unique("redlocked-database"));
    fs::create_dir_all(&directory).unwrap();
    directory
}

/// The words that start a program which refuses to run as root.
fn without_root(directory: &Path) -> Vec<&'static str> {
    let id = Command::new("id").arg("-u").output().unwrap();
    if id.stdout != b"0\n" {
        return Vec::new();
    }
    // It has another name there, and may read what it might: the programs may lie in root's home.
    let namespace = vec!["unshare", "--user", "--map-user", NOBODY, "--map-group", NOBODY];
    let tried = Command::new(namespace[0]).args(&namespace[1..]).arg("true").stderr(Stdio::null()).status();
    if tried.is_ok_and(|status| status.success()) {
        return namespace;
    }
    succeeds(Command::new("chown").arg(format!("{NOBODY}:{NOBODY}")).arg(directory));
    vec!["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]
}

fn succeeds(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
