//! Each shape of an async function with each set of options, called by a task that `tokio::spawn` takes: the future of the
//! call is `Send` whatever the function borrows and returns.
//!
//! A new option is one line of `each_set_of_options!`, and a new shape one function of `shapes!`.
#![allow(
    unused_variables,
    reason = "the names of guards and tickets: what a body does with them is tested elsewhere"
)]

use std::borrow::Cow;
use std::error::Error;
use std::fmt::Display;
use std::future::Future;
use std::pin::Pin;

/// What `tokio::spawn` asks of a future.
fn spawned<T: Send + 'static>(_: impl Future<Output = T> + Send + 'static) {}

type BoxError = Box<dyn Error + Send + Sync>;

trait Report: Send {
    fn lines(&self) -> usize;
}

impl Report for usize {
    fn lines(&self) -> usize {
        *self
    }
}

#[derive(Clone)]
struct Shop {
    tenant: String,
}

/// Each function is spawned as a service would do it: the task owns what the function borrows.
macro_rules! shapes {
    ($name:ident: $($option:tt)*) => {
        mod $name {
            use super::*;
            use redlocked::{LockError, distributed_lock};

            #[distributed_lock(key = "job:{name}", $($option)*)]
            async fn owns(name: String) -> Result<usize, LockError> {
                std::future::ready(()).await;
                Ok(name.len())
            }

            #[distributed_lock(key = "job:{name}", $($option)*)]
            async fn borrows(name: &str) -> Result<usize, LockError> {
                std::future::ready(()).await;
                Ok(name.len())
            }

            #[distributed_lock(key = "job:{names:?}", $($option)*)]
            async fn borrows_a_list(names: &[&str]) -> Result<usize, LockError> {
                std::future::ready(()).await;
                Ok(names.len())
            }

            #[distributed_lock(key = "job:{name}", $($option)*)]
            async fn fails_with_any_error(name: &str) -> Result<usize, BoxError> {
                std::future::ready(()).await;
                Ok(name.parse()?)
            }

            #[distributed_lock(key = "job:{name}", $($option)*)]
            async fn is_generic<T: Display + Send + Sync>(name: &T) -> Result<(), LockError> {
                std::future::ready(()).await;
                Ok(())
            }

            #[distributed_lock(key = "job:{name}", $($option)*)]
            async fn takes_an_impl(name: impl Display + Send) -> Result<(), LockError> {
                std::future::ready(()).await;
                drop(name);
                Ok(())
            }

            #[distributed_lock(key = "job:{name}", $($option)*)]
            fn returns_a_future(name: &str) -> impl Future<Output = Result<usize, LockError>> + Send {
                async move {
                    std::future::ready(()).await;
                    Ok(name.len())
                }
            }

            #[distributed_lock(key = "job:{name}", $($option)*)]
            fn returns_a_boxed_future<'a>(
                name: &'a str,
            ) -> Pin<Box<dyn Future<Output = Result<usize, LockError>> + Send + 'a>> {
                Box::pin(async move {
                    std::future::ready(()).await;
                    Ok(name.len())
                })
            }

            impl Shop {
                #[distributed_lock(key = "{self.tenant}:{name}", $($option)*)]
                async fn $name(&self, name: &str) -> Result<usize, LockError> {
                    std::future::ready(()).await;
                    Ok(name.len() + self.tenant.len())
                }
            }

            #[async_trait::async_trait]
            trait Job {
                async fn run(&mut self, name: &str) -> Result<usize, BoxError>;
            }

            #[async_trait::async_trait]
            impl Job for Shop {
                #[distributed_lock(key = "{self.tenant}:{name}", $($option)*)]
                async fn run(&mut self, name: &str) -> Result<usize, BoxError> {
                    std::future::ready(()).await;
                    Ok(name.len() + self.tenant.len())
                }
            }

            trait Native {
                fn native(&self, name: &str) -> impl Future<Output = Result<usize, LockError>> + Send;
            }

            impl Native for Shop {
                #[distributed_lock(key = "{self.tenant}:{name}", $($option)*)]
                async fn native(&self, name: &str) -> Result<usize, LockError> {
                    std::future::ready(()).await;
                    Ok(name.len() + self.tenant.len())
                }
            }

            #[test]
            fn compiles() {
                let (name, mut shop) = ("a".to_owned(), Shop { tenant: "b".to_owned() });
                spawned(owns(name.clone()));
                spawned({ let name = name.clone(); async move { borrows(&name).await } });
                spawned({ let name = name.clone(); async move { borrows_a_list(&[&name]).await } });
                spawned({ let name = name.clone(); async move { fails_with_any_error(&name).await } });
                spawned({ let name = name.clone(); async move { is_generic(&name).await } });
                spawned({ let name = name.clone(); async move { takes_an_impl(&name).await } });
                spawned({ let name = name.clone(); async move { returns_a_future(&name).await } });
                spawned({ let name = name.clone(); async move { returns_a_boxed_future(&name).await } });
                spawned({ let (name, shop) = (name.clone(), shop.clone()); async move { shop.$name(&name).await } });
                spawned({ let (name, shop) = (name.clone(), shop.clone()); async move { shop.native(&name).await } });
                spawned(async move { shop.run(&name).await });
            }
        }
    };
}

/// Results that cannot be stored, so that `once` has none of them.
macro_rules! shapes_whose_result_is_of_this_process {
    ($name:ident: $($option:tt)*) => {
        mod $name {
            use super::*;
            use redlocked::{LockError, distributed_lock};

            #[distributed_lock(key = "job:{name}", $($option)*)]
            async fn returns_what_it_borrows(name: &str) -> Result<&str, LockError> {
                std::future::ready(()).await;
                Ok(name)
            }

            #[distributed_lock(key = "job:{name}", $($option)*)]
            async fn returns_a_part<'a>(name: &'a str) -> Result<Cow<'a, str>, BoxError> {
                std::future::ready(()).await;
                Ok(name.into())
            }

            #[distributed_lock(key = "job:{name}", $($option)*)]
            async fn returns_a_box(name: &str) -> Result<Box<dyn Report>, LockError> {
                std::future::ready(()).await;
                Ok(Box::new(name.len()))
            }

            #[distributed_lock(key = "job:{name}", $($option)*)]
            async fn returns_a_box_that_borrows<'a>(name: &'a str) -> Result<Box<dyn Display + Send + 'a>, LockError> {
                std::future::ready(()).await;
                Ok(Box::new(name))
            }

            #[distributed_lock(key = "job:{name}", $($option)*)]
            async fn returns_a_function(name: &str) -> Result<fn(&str) -> &str, LockError> {
                std::future::ready(()).await;
                Ok(str::trim)
            }

            #[distributed_lock(key = "job:{name}", $($option)*)]
            fn returns_a_future_of_what_it_borrows(name: &str) -> impl Future<Output = Result<&str, LockError>> + Send {
                async move {
                    std::future::ready(()).await;
                    Ok(name)
                }
            }

            #[distributed_lock(key = "job:{name}", on_error = |_| "", $($option)*)]
            async fn returns_no_result(name: &str) -> &str {
                std::future::ready(()).await;
                name
            }

            #[test]
            fn compiles() {
                let name = "a".to_owned();
                spawned({ let name = name.clone(); async move { returns_what_it_borrows(&name).await.map(str::len) } });
                spawned({ let name = name.clone(); async move { returns_a_part(&name).await.map(Cow::into_owned) } });
                spawned({ let name = name.clone(); async move { returns_a_box(&name).await.map(|report| report.lines()) } });
                spawned({ let name = name.clone(); async move { returns_a_box_that_borrows(&name).await.map(|text| text.to_string()) } });
                spawned({ let name = name.clone(); async move { returns_a_function(&name).await.map(|trim| trim("a ").len()) } });
                spawned({ let name = name.clone(); async move { returns_a_future_of_what_it_borrows(&name).await.map(str::len) } });
                spawned(async move { returns_no_result(&name).await.len() });
            }
        }
    };
}

macro_rules! each_set_of_options {
    ($shapes:ident) => {
        $shapes!(plain: );
        $shapes!(waits: ttl = "10s", wait = "forever", max_hold = "1h");
        $shapes!(is_not_renewed: renew = false, min_hold = "1s");
        $shapes!(binds_its_guard: guard = lock);
        $shapes!(binds_its_ticket: ticket = lock);
        $shapes!(reads: shared);
        $shapes!(has_a_permit: permits = 5);
        $shapes!(joins: reentrant);
        $shapes!(finishes: on_lost = "finish");
        $shapes!(fails_when_lost: on_lost = "error");
        $shapes!(releases_in_background: release_in_background);
        $shapes!(releases_its_guard_in_background: release_in_background, guard = lock);
        $shapes!(ticks: tick = "1h");
        $shapes!(retries: tick = "1h", tick_missed = "retry");
        $shapes!(retries_with_a_guard: tick = "1h", tick_missed = "retry", guard = lock);
        $shapes!(retries_in_background: tick = "1h", tick_missed = "retry", release_in_background);
    };
}

mod any_result {
    use super::*;
    each_set_of_options!(shapes);
    shapes!(runs_once: once = "24h");
    shapes!(runs_once_for_a_request: once = "24h", once_fingerprint = "job", on_interrupted = "error", on_undecodable = "rerun");
    shapes!(runs_once_with_a_guard: once = "24h", guard = lock);
}

mod results_of_this_process {
    use super::*;
    each_set_of_options!(shapes_whose_result_is_of_this_process);
}
