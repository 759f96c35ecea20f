//! Certificates of an authority that lives as long as a test, and a server that speaks TLS with
//! them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{RedisCluster, RedisServer, free_port, unique};

/// An authority, and the certificates that it has signed: `<name>.pem` and `<name>.key` in one
/// directory.
pub struct Authority {
    directory: PathBuf,
}

impl Authority {
    /// Made with `openssl`: `ca.pem` and `ca.key`.
    pub fn new() -> Self {
        let directory = std::env::temp_dir().join(unique("redlocked-authority"));
        fs::create_dir_all(&directory).unwrap();
        let authority = Self { directory };
        authority.request("ca");
        let extensions = "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign,cRLSign\n";
        authority.sign("ca", extensions, &["-signkey", "ca.key"]);
        authority
    }

    /// With its key: for a server on this host, and for a client.
    pub fn vouch_for(&self, name: &str, names: &str) {
        self.request(name);
        let extensions = format!("subjectAltName={names}\n");
        self.sign(name, &extensions, &["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"]);
    }

    fn request(&self, name: &str) {
        let (key, request) = (format!("{name}.key"), format!("{name}.csr"));
        let subject = format!("/CN={name}");
        self.openssl(&[
            "ecparam",
            "-name",
            "prime256v1",
            "-genkey",
            "-noout",
            "-out",
            &format!("{name}.sec1"),
        ]);
        self.openssl(&["pkcs8", "-topk8", "-nocrypt", "-in", &format!("{name}.sec1"), "-out", &key]);
        self.openssl(&["req", "-new", "-key", &key, "-subj", &subject, "-out", &request]);
    }

    fn sign(&self, name: &str, extensions: &str, by: &[&str]) {
        let file = format!("{name}.ext");
        fs::write(self.directory.join(&file), extensions).unwrap();
        let (request, certificate) = (format!("{name}.csr"), format!("{name}.pem"));
        let mut arguments =
            vec!["x509", "-req", "-in", &request, "-out", &certificate, "-days", "2", "-sha256"];
        arguments.extend(["-extfile", &file]);
        arguments.extend(by);
        self.openssl(&arguments);
    }

    fn openssl(&self, arguments: &[&str]) {
        let mut command = Command::new("openssl");
        command.args(arguments).current_dir(&self.directory).stdin(Stdio::null());
        let output = command
            .output()
            .unwrap_or_else(|error| panic!("the tests of TLS need `openssl` on PATH ({error})"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Where one of its files is.
    pub fn path(&self, file: &str) -> PathBuf {
        self.directory.join(file)
    }

    /// The contents of one of its files.
    pub fn pem(&self, file: &str) -> Vec<u8> {
        fs::read(self.path(file)).unwrap()
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// A server that speaks TLS on one port, and plainly to the test on another.
pub struct TlsServer {
    /// The plain port, for the test.
    pub plain: RedisServer,
    port: u16,
}

impl TlsServer {
    /// With the certificate `server.pem`. `clients`: whether it wants one of theirs.
    pub fn start(authority: &Authority, clients: &str) -> Self {
        let file = |name: &str| authority.path(name).to_str().unwrap().to_owned();
        let plain = RedisServer::start();
        let settings =
            [("tls-cert-file", "server.pem"), ("tls-key-file", "server.key"), ("tls-ca-cert-file", "ca.pem")];
        for (setting, name) in settings {
            let _: String = plain.run(&format!("CONFIG SET {setting} {}", file(name)));
        }
        let _: String = plain.run(&format!("CONFIG SET tls-auth-clients {clients}"));
        // Another process may take the port before the server binds it: then try another one.
        let mut client = plain.client();
        for _ in 0..50 {
            let port = free_port();
            let mut set = redis::cmd("CONFIG");
            set.arg("SET").arg("tls-port").arg(port);
            if set.exec(&mut client).is_ok() {
                return Self { plain, port };
            }
        }
        panic!("redis-server speaks TLS on no port");
    }

    /// The port that speaks TLS.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the address of the port that speaks TLS.
    pub fn url(&self, scheme: &str, host: &str) -> String {
        format!("{scheme}://{host}:{}/", self.port)
    }
}

/// Nodes that speak TLS to each other and to clients, with the certificate `server.pem`, and
/// plainly to the test.
pub fn tls_cluster(authority: &Authority, clients: &str) -> RedisCluster {
    RedisCluster::of_nodes("tls-port", || {
        let file = |name: &str| authority.path(name).display().to_string();
        let settings = [
            ("--tls-port", free_port().to_string()),
            ("--tls-cluster", "yes".to_owned()),
            ("--tls-replication", "yes".to_owned()),
            ("--tls-auth-clients", clients.to_owned()),
            ("--tls-cert-file", file("server.pem")),
            ("--tls-key-file", file("server.key")),
            ("--tls-ca-cert-file", file("ca.pem")),
        ];
        settings.into_iter().flat_map(|(setting, value)| [setting.to_owned(), value]).collect()
    })
}

/// Where the system's own authorities are looked for, instead: for a process of its own.
pub fn trusting(command: &mut Command, authority: &Path) {
    command.env("SSL_CERT_FILE", authority).env_remove("SSL_CERT_DIR");
}
