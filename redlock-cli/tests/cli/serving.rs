use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use kit::{RedisServer, eventually};
use redlocked::LockManager;

use crate::tool::{Running, Scratch, said};

const TOKEN: &str = "0123456789abcdef0123";

/// The tool, and the address that it has printed.
fn serve(url: &str, more: &[&str]) -> (Running, String) {
    let arguments: Vec<_> =
        ["serve", "--listen", "127.0.0.1:0"].into_iter().chain(more.iter().copied()).collect();
    let mut tool = Running::start(url, &arguments);
    let mut out = String::new();
    tool.until(&mut out, "/\n");
    let address = out.trim().trim_start_matches("http://").trim_end_matches('/').to_owned();
    (tool, address)
}

/// The whole answer to a request with these headers.
fn ask(address: &str, request: &str, headers: &[&str], body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let host = if headers.iter().any(|header| header.starts_with("Host:")) {
        String::new()
    } else {
        format!("Host: {address}\r\n")
    };
    let headers = headers.iter().fold(String::new(), |all, header| all + header + "\r\n");
    let length = body.len();
    write!(
        stream,
        "{request} HTTP/1.1\r\n{host}{headers}Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn token_file(text: &str, mode: u32) -> Scratch {
    use std::os::unix::fs::PermissionsExt;
    let file = Scratch::new();
    std::fs::write(file.path(), text).unwrap();
    std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
    file
}

#[test]
fn the_pages_are_served_until_an_interrupt_and_only_read() {
    let server = RedisServer::start();
    let locks = LockManager::connect_blocking(server.url()).unwrap();
    let _guard = locks.lock("stock:42").acquire_blocking().unwrap();
    let (tool, address) = serve(&server.url(), &[]);
    let page = ask(&address, "GET /", &[], "");
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("stock:42"), "{page}");
    let refused = ask(&address, "POST /release", &[], "page_token=0&key=stock%3A42&typed=stock%3A42");
    assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");
    // A page of another site, whose name leads to this machine.
    let strange = ask(&address, "GET /", &["Host: evil.example"], "");
    assert!(strange.starts_with("HTTP/1.1 421") && !strange.contains("stock:42"), "{strange}");
    tool.signal("-INT");
    assert_eq!(tool.said().code, Some(0));
}

#[test]
fn a_release_from_the_pages_has_a_line_with_the_address_it_came_from() {
    let server = RedisServer::start();
    let locks = LockManager::connect_blocking(server.url()).unwrap();
    let guard = locks.lock("stock:42").acquire_blocking().unwrap();
    let (tool, address) = serve(&server.url(), &["--allow-release"]);
    let page = ask(&address, "GET /lock?key=stock%3A42", &[], "");
    let field = |name: &str| {
        let rest = page.split_once(&format!("name=\"{name}\" value=\"")).unwrap().1;
        rest.split_once('"').unwrap().0.to_owned()
    };
    let form = format!(
        "page_token={}&key=stock%3A42&typed=stock%3A42&change={}",
        field("page_token"),
        field("change")
    );
    let released = ask(&address, "POST /release", &[], &form);
    assert!(released.starts_with("HTTP/1.1 200"), "{released}");
    eventually("the holder has lost it", || !guard.is_held());
    tool.signal("-TERM");
    let said = tool.said();
    assert!(said.err.contains("a lock was released from the dashboard"), "{}", said.err);
    assert!(said.err.contains("stock:42") && said.err.contains("from=127.0.0.1:"), "{}", said.err);
}

#[test]
fn other_machines_need_the_token_of_a_file_that_only_its_owner_reads() {
    let server = RedisServer::start();
    let usage = |arguments: &[&str], words: &str| {
        let said = said(&server.url(), arguments);
        assert!(said.code == Some(64) && said.err.contains(words), "{said:?}");
    };
    usage(&["serve", "--listen", "0.0.0.0:0"], "give --token-file, or listen on 127.0.0.1");
    for (text, mode, words) in [
        (TOKEN, 0o644, "others than its owner can read it: chmod 600"),
        ("", 0o600, "16 to 1024 visible ASCII characters"),
        ("short", 0o600, "16 to 1024 visible ASCII characters"),
        ("two words are no token", 0o600, "16 to 1024 visible ASCII characters"),
    ] {
        let file = token_file(text, mode);
        usage(&["serve", "--token-file", file.path()], words);
    }
    usage(&["serve", "--token-file", Scratch::new().path()], "No such file");
    usage(&["serve", "--token-file", "/"], "it is no file");

    let file = token_file(&format!("{TOKEN}\n"), 0o600);
    let (_tool, address) = serve(&server.url(), &["--token-file", file.path()]);
    let without = ask(&address, "GET /", &[], "");
    assert!(without.starts_with("HTTP/1.1 401") && without.contains("www-authenticate: Basic"), "{without}");
    let wrong = ask(&address, "GET /", &["Authorization: Bearer 0123456789abcdef0124"], "");
    assert!(wrong.starts_with("HTTP/1.1 401"), "{wrong}");
    // By any name.
    let with = ask(&address, "GET /", &["Host: ops.example", &format!("Authorization: Bearer {TOKEN}")], "");
    assert!(with.starts_with("HTTP/1.1 200") && !with.contains(TOKEN), "{with}");
}

#[test]
fn what_keeps_it_from_serving_is_said() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let in_use = said("memory://serve", &["serve", "--listen", &address]);
    assert_eq!(in_use.code, Some(71), "{in_use:?}");
    assert!(in_use.err.contains(&format!("cannot listen on {address}: ")), "{}", in_use.err);
    assert_eq!(said("nonsense", &["serve", "--listen", "127.0.0.1:0"]).code, Some(64));
    assert_eq!(said("memory://serve", &["serve", "--listen", "localhost"]).code, Some(64));
}

#[test]
fn a_server_that_is_away_is_shown_and_may_come_back() {
    let mut server = RedisServer::durable();
    server.kill();
    let (_tool, address) = serve(&server.url(), &[]);
    let page = ask(&address, "GET /", &[], "");
    assert!(page.starts_with("HTTP/1.1 503") && page.contains("Redis gives no answer."), "{page}");
    server.restart();
    eventually("the page is back", || ask(&address, "GET /", &[], "").starts_with("HTTP/1.1 200"));
}
