//! The locks of a program whose client encrypts. Needs `openssl`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use kit::{Authority, TlsServer};
use redis::{Client, TlsCertificates};
use redlocked::{LockError, LockManager};

#[tokio::test]
async fn certificates_of_a_tls_client_are_given_to_the_builder_as_well() {
    let authority = Authority::new();
    authority.vouch_for("server", "DNS:localhost,IP:127.0.0.1");
    let server = TlsServer::start(&authority, "no");
    let url = server.url("rediss", "localhost");

    let certificates = TlsCertificates { client_tls: None, root_cert: Some(authority.pem("ca.pem")) };
    let client = Client::build_with_tls(&*url, certificates).unwrap();
    let error = LockManager::connect(&client).await.map(drop).unwrap_err();
    assert!(matches!(error, LockError::InvalidUrl { .. }), "{error:?}");
    assert!(error.to_string().contains("`tls_ca`") && error.to_string().contains("`tls_client`"), "{error}");

    let builder = LockManager::builder(&client).tls_ca(authority.pem("ca.pem"));
    let guard = builder.connect().await.unwrap().lock("k").acquire().await.unwrap();
    assert_eq!(server.plain.keys(), ["lock:k"]);
    drop(guard);

    // Its address alone says that it is encrypted.
    let client = Client::open(url).unwrap();
    let builder = LockManager::builder(client).tls_ca(authority.pem("ca.pem"));
    drop(builder.connect().await.unwrap().lock("k").acquire().await.unwrap());
}
