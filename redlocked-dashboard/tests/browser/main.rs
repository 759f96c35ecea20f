//! The pages in a real browser: on a phone and on a wide screen, light and dark, live and without
//! JavaScript. The pictures are in `target/dashboard/`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test may panic"
)]

mod chromium;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use chromium::Browser;
use kit::{LIMIT, RedisServer, SECOND, eventually, unique};
use redlocked::{LockError, LockManager};
use redlocked_dashboard::Dashboard;
use serde_json::json;
use tokio::runtime::Runtime;

/// A service with the pages below `/admin/locks`.
struct Service {
    runtime: Runtime,
    locks: LockManager,
    base: String,
}

impl Service {
    fn start(url: &str, allow_release: bool) -> Self {
        let runtime = Runtime::new().unwrap();
        let (locks, address) = runtime.block_on(async {
            let locks = LockManager::connect(url).await.unwrap();
            let pages = Dashboard::new(&locks).allow_release(allow_release).router();
            let app = axum::Router::new().nest("/admin/locks", pages);
            let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
            let address = listener.local_addr().unwrap();
            let service = app.into_make_service_with_connect_info::<SocketAddr>();
            tokio::spawn(async move { axum::serve(listener, service).await.unwrap() });
            (locks, address)
        });
        Self { runtime, locks, base: format!("http://{address}/admin/locks") }
    }
}

#[test]
fn each_page_is_whole_on_a_phone_and_on_a_wide_screen_light_and_dark() {
    let Some(mut browser) = Browser::start() else { return };
    let server = RedisServer::start();
    let service = Service::start(&server.url(), true);
    let locks = &service.locks;
    let _guard = locks.lock("stock:42").label("shop::sell").acquire_blocking().unwrap();
    let _readers =
        [1, 2].map(|_| locks.lock("catalogue").shared().label("shop::read").acquire_blocking().unwrap());
    let _long = locks.lock(format!("very:{}", "long:".repeat(40))).acquire_blocking().unwrap();
    locks.lock("hourly").tick(Duration::from_secs(3600)).label("reports").run_value_blocking(|_| ()).unwrap();
    let led = locks.election("cron").announce("10.0.0.5:8080").lead_blocking(|_| {
        for (name, path, words) in [
            ("locks", "", &["stock:42", "2 readers", "leader", "shop::sell"][..]),
            ("lock", "/lock?key=stock%3A42", &["Who has it", "Timeline", "Release the lock", "redlocked show 'stock:42'"]),
            ("leaders", "/leaders", &["cron", "10.0.0.5:8080"]),
            ("jobs", "/jobs", &["hourly", "reports", "over"]),
            ("server", "/server", &["hand-off", "noeviction", "redis "]),
        ] {
            for (width, is_dark) in [(360, false), (360, true), (1280, false), (1280, true)] {
                browser.shows(width, is_dark);
                browser.open(&format!("{}{path}", service.base));
                browser.waits_for("it is live", "document.getElementById('state').textContent === 'live'");
                let text = browser.text();
                for words in words {
                    assert!(text.contains(words), "{words} on {name} at {width}: {text}");
                }
                // Nobody has to scroll to the side.
                assert_eq!(browser.run("document.documentElement.scrollWidth"), json!(width), "{name}");
                let back = browser.run("getComputedStyle(document.body).backgroundColor");
                assert_eq!(back == json!("rgb(255, 255, 255)"), !is_dark, "{back}");
                // What a screen reader and the keyboard need.
                let unnamed = "[...document.querySelectorAll('svg, input:not([type=hidden]), nav')].filter(e => \
                    !(e.ariaLabel || e.labels?.length)).length + document.querySelectorAll('[tabindex=\"1\"]').length";
                assert_eq!(browser.run(unnamed), json!(0), "{name}");
                assert_eq!(browser.run("document.querySelectorAll('h1').length"), json!(1), "{name}");
                browser.keep(&format!("{name}-{width}-{}", if is_dark { "dark" } else { "light" }));
            }
        }
        Ok::<_, LockError>(())
    });
    led.unwrap();
}

#[test]
fn a_hand_off_is_on_the_timeline_while_it_is_looked_at() {
    let Some(mut browser) = Browser::start() else { return };
    let url = format!("memory://{}", unique("hand-off"));
    let service = Service::start(&url, false);
    let first = service.locks.lock("k").label("first").acquire_blocking().unwrap();
    browser.open(&format!("{}/lock?key=k&last=1m", service.base));
    let bars =
        |count| format!("document.querySelectorAll('.lane:first-child rect[class^=p]').length === {count}");
    browser.waits_for("the first holder has a bar", &bars(1));
    first.release_blocking().unwrap();
    let _second = service.locks.lock("k").label("second").acquire_blocking().unwrap();
    let begun = Instant::now();
    browser.waits_for("the second one has, too", &bars(2));
    // How soon is measured, not promised: the machine may be busy.
    eprintln!("the hand-off was on the timeline after {:?}", begun.elapsed());
    assert!(browser.text().contains("second"), "{}", browser.text());
}

#[test]
fn a_lock_is_released_by_typing_its_key() {
    let Some(mut browser) = Browser::start() else { return };
    let url = format!("memory://{}", unique("release"));
    let service = Service::start(&url, true);
    let guard = service.locks.lock("stock:42").acquire_blocking().unwrap();
    let types = |key: &str| {
        format!(
            "document.querySelector('[name=typed]').value = '{key}'; setTimeout(() => document.querySelector('.act button').click())"
        )
    };
    browser.open(&format!("{}/lock?key=stock%3A42", service.base));
    browser.run(&types("stock:43"));
    browser.waits_for("it is refused", "document.body.innerText.includes('What was typed is not the key')");
    assert!(guard.is_held());
    browser.open(&format!("{}/lock?key=stock%3A42", service.base));
    browser.run(&types("stock:42"));
    browser.waits_for("it is released", "document.body.innerText.includes('The lock was taken from')");
    eventually("the holder has lost it", || !guard.is_held());
}

#[test]
fn a_key_that_is_a_script_is_text() {
    let Some(mut browser) = Browser::start() else { return };
    let url = format!("memory://{}", unique("script"));
    let service = Service::start(&url, true);
    let key = "<script>document.title='run'</script><img src=x onerror=\"document.title='run'\">";
    let _guard = service.locks.lock(key).acquire_blocking().unwrap();
    browser.open(&service.base);
    browser.waits_for("it is live", "document.getElementById('state').textContent === 'live'");
    assert!(browser.text().contains(key), "{}", browser.text());
    browser.run("setTimeout(() => document.querySelector('th a.key').click())");
    browser.waits_for(
        "its page is there",
        "document.querySelector('h1')?.innerText.startsWith('<script>') ?? false",
    );
    assert_eq!(browser.run("document.querySelectorAll('main script, main img').length"), json!(0));
    assert_ne!(browser.run("document.title"), json!("run"));
}

#[test]
fn without_javascript_the_page_is_whole_and_reloads() {
    let Some(mut browser) = Browser::start() else { return };
    let url = format!("memory://{}", unique("plain"));
    let service = Service::start(&url, false);
    let _first = service.locks.lock("first").acquire_blocking().unwrap();
    browser.without_javascript(true);
    browser.open(&service.base);
    assert!(
        browser.text().contains("first") && browser.text().contains("reloads every 5 s"),
        "{}",
        browser.text()
    );
    let _second = service.locks.lock("second").acquire_blocking().unwrap();
    // Time itself: five seconds.
    kit::within(LIMIT.max(20 * SECOND), "it was loaded again", || browser.text().contains("second"));
}

#[test]
fn a_page_comes_back_when_its_service_has_started_again_and_when_redis_has() {
    let Some(mut browser) = Browser::start() else { return };
    let mut server = RedisServer::durable();
    let service = Service::start(&server.url(), false);
    let _guard = service.locks.lock("stock:42").acquire_blocking().unwrap();
    browser.open(&service.base);
    browser.waits_for("the lock is there", "document.body.innerText.includes('stock:42')");
    server.kill();
    browser.waits_for("it says so", "document.body.innerText.includes('Redis gives no answer.')");
    assert!(browser.text().contains("stock:42"), "{}", browser.text());
    server.restart();
    browser.waits_for("it is back", "!document.body.innerText.includes('Redis gives no answer.')");
    drop(service.runtime);
    browser.waits_for(
        "the page says so",
        "document.getElementById('state').textContent.startsWith('no connection')",
    );
}
