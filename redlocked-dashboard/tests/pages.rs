//! The pages without a browser: what is on them, what they ask the server, and who may change something.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test may panic"
)]

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use http_body_util::BodyExt;
use kit::{LIMIT, Quorum, RedisCluster, RedisServer, SECOND, eventually, runtime, unique};
use redlocked::{LockError, LockManager, LostReason};
use redlocked_dashboard::Dashboard;
use tower::ServiceExt;

const PAGES: [&str; 5] = ["/", "/lock?key=stock%3A42", "/leaders", "/jobs", "/server"];

struct Answer {
    status: StatusCode,
    headers: axum::http::HeaderMap,
    text: String,
}

async fn answer(app: &Router, request: Request<Body>) -> Answer {
    let response = app.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
    Answer { status: parts.status, headers: parts.headers, text }
}

async fn get(app: &Router, path: &str) -> Answer {
    answer(app, Request::get(path).body(Body::empty()).unwrap()).await
}

async fn post(app: &Router, path: &str, fields: &[(&str, &str)], headers: &[(&str, &str)]) -> Answer {
    let body: String = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    let mut request = Request::post(path).header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    answer(app, request.body(Body::from(body)).unwrap()).await
}

/// The value of a hidden field of the first form that has it.
fn hidden(html: &str, name: &str) -> String {
    let field = html.split_once(&format!("name=\"{name}\" value=\"")).unwrap().1;
    field.split_once('"').unwrap().0.to_owned()
}

async fn manager(url: &str) -> LockManager {
    LockManager::connect(url).await.unwrap()
}

#[test]
fn each_page_shows_what_it_is_for_and_forbids_what_it_does_not_need() {
    let server = RedisServer::start();
    runtime().block_on(async {
        let locks = manager(&server.url()).await;
        let app = Dashboard::new(&locks).router();
        let guard = locks.lock("stock:42").label("shop::sell").acquire().await.unwrap();
        let election = locks.election("cron").announce("10.0.0.5:8080");
        let tick = locks.lock("hourly").tick(Duration::from_secs(3600)).label("reports");
        tick.run_value(async |_| ()).await.unwrap();
        let led = election.lead(async |term| {
            let mut texts = Vec::new();
            for page in PAGES {
                let answer = get(&app, page).await;
                assert_eq!(answer.status, StatusCode::OK, "{page}: {}", answer.text);
                let policy = answer.headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
                assert!(policy.starts_with("default-src 'none';") && !policy.contains("unsafe"), "{policy}");
                assert_eq!(answer.headers[header::CACHE_CONTROL], "no-store");
                texts.push(answer.text);
            }
            let [list, lock, leaders, jobs, server] = texts.try_into().unwrap();
            for words in ["stock:42", "shop::sell", "exclusive", "cron", "leader"] {
                assert!(list.contains(words), "{words}: {list}");
            }
            for words in ["held", "nobody waits", "Timeline", "redlocked show 'stock:42'"] {
                assert!(lock.contains(words), "{words}: {lock}");
            }
            let term = term.fencing_token().to_string();
            assert!(leaders.contains("10.0.0.5:8080") && leaders.contains(&term), "{leaders}");
            assert!(jobs.contains("hourly") && jobs.contains("reports"), "{jobs}");
            assert!(server.contains("redis ") && server.contains("noeviction"), "{server}");
            Ok::<_, LockError>(())
        });
        led.await.unwrap();
        drop(guard);
    });
}

#[test]
fn what_others_have_written_is_text_and_secrets_are_not_shown() {
    let server = RedisServer::start();
    runtime().block_on(async {
        let locks = manager(&server.url()).await;
        let app = Dashboard::new(&locks).router();
        let key = "<script>alert(1)</script>";
        let _guard = locks.lock(key).label("<b>bold</b>").acquire().await.unwrap();
        let _other = locks.lock("stock:42").acquire().await.unwrap();
        let _: () = server.run("SET lock:foreign <i>somebody</i> PX 60000");
        let _: () = server.run("SET lock:x%queue%once 0|d|1|r|o|secret-result");
        let of_key: String = form_urlencoded::byte_serialize(key.as_bytes()).collect();
        let token: String = server.run(&format!("GET lock:{key}"));
        let election = locks.election("cron").announce("<u>here</u>");
        let leads = std::cell::Cell::new(false);
        let mut led = Box::pin(election.lead(async |_| {
            leads.set(true);
            std::future::pending::<Result<(), LockError>>().await
        }));
        while !leads.get() {
            let _ = tokio::time::timeout(SECOND / 100, &mut led).await;
        }
        let leaders = get(&app, "/leaders").await.text;
        assert!(leaders.contains("&lt;u&gt;here&lt;/u&gt;"), "{leaders}");
        for page in PAGES
            .into_iter()
            .map(str::to_owned)
            .chain([format!("/lock?key={of_key}"), "/lock?key=foreign".to_owned()])
        {
            let text = get(&app, &page).await.text;
            for never in ["<script>alert", "<u>here", "<i>somebody", "<b>bold", &token[..22], "secret-result"]
            {
                assert!(!text.contains(never), "{never} on {page}: {text}");
            }
        }
        let list = get(&app, "/").await.text;
        assert!(list.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{list}");
        assert!(list.contains("a client of another kind"), "{list}");
    });
}

#[test]
fn a_lock_is_released_by_typing_its_key_on_the_page_alone() {
    let server = RedisServer::start();
    runtime().block_on(async {
        let locks = manager(&server.url()).await;
        let other = manager(&server.url()).await;
        let guard = other.lock("stock:42").acquire().await.unwrap();
        let reads = Dashboard::new(&locks).router();
        let page = get(&reads, PAGES[1]).await.text;
        assert!(!page.contains("<form method"), "{page}");

        let app = Dashboard::new(&locks).allow_release(true).router();
        let page = get(&app, PAGES[1]).await.text;
        let (token, change) = (hidden(&page, "page_token"), hidden(&page, "change"));
        let typed =
            |typed| [("page_token", &*token), ("key", "stock:42"), ("typed", typed), ("change", &*change)];
        let strange = [("page_token", "0"), ("key", "stock:42"), ("typed", "stock:42"), ("change", &change)];
        for (app, fields, headers, expected) in [
            (&reads, &typed("stock:42"), &[][..], StatusCode::FORBIDDEN),
            (&app, &strange, &[], StatusCode::FORBIDDEN),
            (&app, &typed("stock:42"), &[("sec-fetch-site", "cross-site")], StatusCode::FORBIDDEN),
            (
                &app,
                &typed("stock:42"),
                &[("origin", "https://evil.example"), ("host", "here")],
                StatusCode::FORBIDDEN,
            ),
            (&app, &typed("stock:43"), &[], StatusCode::UNPROCESSABLE_ENTITY),
        ] {
            let answer = post(app, "/release", fields, headers).await;
            assert_eq!(answer.status, expected, "{}", answer.text);
            assert!(locks.inspect("stock:42").await.unwrap().is_some() && guard.is_held());
        }
        let answer = post(&app, "/release", &typed("stock:42"), &[("sec-fetch-site", "same-origin")]).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
        assert!(!answer.text.contains("<form"), "{}", answer.text);
        assert_eq!(guard.lost().await, LostReason::KeyChanged);
        // The next holder is another one than the page has shown.
        let next = other.lock("stock:42").acquire().await.unwrap();
        let answer = post(&app, "/release", &typed("stock:42"), &[]).await;
        assert_eq!(answer.status, StatusCode::CONFLICT, "{}", answer.text);
        assert!(next.is_held());
    });
}

#[test]
fn a_record_is_cleared_by_typing_its_key() {
    let server = RedisServer::start();
    runtime().block_on(async {
        let locks = manager(&server.url()).await;
        locks.lock("hourly").tick(Duration::from_secs(3600)).run_value(async |_| ()).await.unwrap();
        let app = Dashboard::new(&locks).allow_release(true).router();
        let page = get(&app, "/lock?key=hourly").await.text;
        let token = hidden(&page, "page_token");
        let fields = |what| [("page_token", &*token), ("key", "hourly"), ("typed", "hourly"), ("what", what)];
        assert_eq!(post(&app, "/clear", &fields("lock"), &[]).await.status, StatusCode::UNPROCESSABLE_ENTITY);
        assert_eq!(post(&app, "/clear", &fields("once"), &[]).await.status, StatusCode::CONFLICT);
        assert_eq!(post(&app, "/clear", &fields("tick"), &[]).await.status, StatusCode::OK);
        assert_eq!(locks.last_tick("hourly").await.unwrap(), None);
    });
}

#[test]
fn a_mounted_page_names_itself_as_the_browser_does() {
    runtime().block_on(async {
        let locks = manager(&format!("memory://{}", unique("mounted"))).await;
        let _guard = locks.lock("k").acquire().await.unwrap();
        let app = Router::new().nest("/admin/locks", Dashboard::new(&locks).router());
        for path in ["/admin/locks", "/admin/locks/leaders"] {
            let text = get(&app, path).await.text;
            assert!(
                text.contains("href=\"/admin/locks/style.css\"") && text.contains("href=\"/admin/locks\""),
                "{text}"
            );
        }
        let text = get(&app, "/admin/locks").await.text;
        assert!(text.contains("href=\"/admin/locks/lock?key=k\""), "{text}");
        assert_eq!(get(&app, "/admin/locks/style.css").await.status, StatusCode::OK);
        let app = Dashboard::new(&locks).base_path("/cut/off/").router();
        let text = get(&app, "/").await.text;
        assert!(text.contains("href=\"/cut/off/lock?key=k\""), "{text}");
    });
}

#[test]
fn while_redis_is_away_the_last_state_is_shown_and_the_page_comes_back() {
    let mut server = RedisServer::durable();
    runtime().block_on(async {
        let url = server.url();
        let locks = LockManager::builder(url).io_timeout(SECOND / 2).connect().await.unwrap();
        let app = Dashboard::new(&locks).router();
        let _guard = locks.lock("stock:42").acquire().await.unwrap();
        assert!(get(&app, "/").await.text.contains("stock:42"));
        server.kill();
        loop {
            let answer = get(&app, "/").await;
            if answer.text.contains("Redis gives no answer.") {
                assert!(answer.text.contains("What is below was seen") && answer.text.contains("stock:42"));
                assert_eq!(answer.status, StatusCode::OK);
                break;
            }
        }
        // The page has nothing to show for a lock that was never read.
        let answer = get(&app, "/lock?key=other").await;
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{}", answer.text);
        server.restart();
        let back = async { while get(&app, "/").await.text.contains("Redis gives no answer.") {} };
        tokio::time::timeout(LIMIT, back).await.unwrap();
    });
}

#[test]
fn many_browsers_ask_the_server_as_one_does_and_nobody_asks_nothing() {
    let server = RedisServer::start();
    runtime().block_on(async {
        let locks = manager(&server.url()).await;
        let mut guards = Vec::new();
        for number in 0..20 {
            // Nothing is renewed meanwhile.
            let request = locks.lock(format!("k:{number}")).ttl(600 * SECOND);
            guards.push(request.acquire().await.unwrap());
        }
        let app = Dashboard::new(&locks).router();
        eventually("the holders watch their locks", || {
            let before = server.client_commands();
            std::thread::sleep(SECOND / 2);
            server.client_commands() == before
        });
        let before = server.client_commands();
        let browsers: Vec<_> = (0..10).map(|_| get(&app, "/")).collect();
        for answer in futures_util::future::join_all(browsers).await {
            assert!(answer.text.contains("20 held"), "{}", answer.text);
        }
        let asked = server.client_commands() - before;
        // An inspection of each, and a walk that has one page.
        assert!((20..=23).contains(&asked), "{asked} commands");
        // Time itself: a dashboard that nobody looks at is silent.
        let before = server.client_commands();
        tokio::time::sleep(2 * SECOND).await;
        assert_eq!(server.client_commands(), before);
    });
}

#[test]
fn a_long_list_has_its_first_rows_and_a_filter_finds_the_rest() {
    runtime().block_on(async {
        let locks = manager(&format!("memory://{}", unique("long"))).await;
        let keys = (0..250).map(|number| format!("k:{number:03}"));
        let mut guards = Vec::new();
        for key in keys {
            guards.push(locks.lock(key).acquire().await.unwrap());
        }
        let app = Dashboard::new(&locks).router();
        let text = get(&app, "/").await.text;
        assert!(text.contains("and 50 more") && text.contains("k:000") && !text.contains("k:249"), "{text}");
        let text = get(&app, "/?q=K:24").await.text;
        assert!(text.contains("k:249") && !text.contains("k:000") && text.contains("10 held"), "{text}");
        let text = get(&app, "/?q=nothing").await.text;
        assert!(text.contains("</code> that the filter “nothing” finds"), "{text}");
    });
}

#[test]
fn keys_that_no_lock_can_have_are_refused_in_words() {
    runtime().block_on(async {
        let locks = manager(&format!("memory://{}", unique("keys"))).await;
        let app = Dashboard::new(&locks).router();
        let long = format!("/lock?key={}", "k".repeat(60_000));
        for path in ["/lock?key=", "/lock?key=a%0Ab", "/lock?key=k%25queue", &long] {
            let answer = get(&app, path).await;
            assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{}", answer.text);
            assert!(
                answer.text.contains("cannot be the key of a lock") && answer.text.len() < 10_000,
                "{}",
                answer.text
            );
        }
        assert_eq!(get(&app, "/nothing").await.status, StatusCode::NOT_FOUND);
        assert_eq!(post(&app, "/leaders", &[], &[]).await.status, StatusCode::METHOD_NOT_ALLOWED);
    });
}

#[test]
fn a_server_that_refuses_is_shown_with_its_reason() {
    let server = RedisServer::start();
    let _: () = server.run("ACL SETUSER ops on >word allkeys allchannels +@all -scan -info");
    let url = server.url().replace("redis://", "redis://ops:word@");
    runtime().block_on(async {
        let locks = LockManager::builder(url).allow_eviction(true).connect().await.unwrap();
        let app = Dashboard::new(&locks).router();
        let list = get(&app, "/").await;
        assert_eq!(list.status, StatusCode::BAD_GATEWAY, "{}", list.text);
        assert!(list.text.contains("Redis refuses.") && list.text.contains("scan"), "{}", list.text);
        // One key needs neither.
        assert_eq!(get(&app, PAGES[1]).await.status, StatusCode::OK);
        let server = get(&app, "/server").await;
        assert!(server.text.contains("the access rules do not grant <code>+info</code>"), "{}", server.text);
    });
}

#[test]
fn a_quorum_and_a_cluster_have_the_same_pages() {
    let (quorum, cluster) = (Quorum::durable(3), RedisCluster::of_this_process());
    let prefix = unique("dashboard:");
    runtime().block_on(async {
        let of_quorum = quorum.manager();
        let of_cluster = LockManager::builder(cluster.url()).prefix(&prefix).connect().await.unwrap();
        for locks in [of_quorum, of_cluster] {
            let app = Dashboard::new(&locks).router();
            let _guard = locks.lock("stock:42").acquire().await.unwrap();
            for page in PAGES {
                let answer = get(&app, page).await;
                assert_eq!(answer.status, StatusCode::OK, "{page}: {}", answer.text);
                assert!(!answer.text.contains("Redis gives no answer"), "{page}: {}", answer.text);
            }
            assert!(get(&app, "/").await.text.contains("stock:42"));
            assert_eq!(get(&app, "/server").await.text.matches(">primary<").count(), 3);
        }
    });
}
