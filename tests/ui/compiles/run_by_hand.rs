//! Bodies of `run`, `run_value` and `run_fn`, and watchers of a guard, in tasks that are spawned and in boxed futures.

use std::error::Error;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use redlocked::{LockError, LockGuard, LockManager, Lost, LostReason};

type BoxError = Box<dyn Error + Send + Sync>;
type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

fn spawn<F: Future<Output: Send> + Send + 'static>(future: F) {
    drop(future);
}

fn require_send<T: Send>(value: T) -> T {
    value
}

enum Failure {
    Lock(LockError),
    Own(u8),
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

impl Failure {
    fn text(&self) -> String {
        match self {
            Self::Lock(error) => error.to_string(),
            Self::Own(number) => number.to_string(),
        }
    }
}

#[derive(Clone)]
struct Service {
    locks: LockManager,
    rows: u64,
}

impl Service {
    async fn work(&self, guard: &LockGuard) -> Result<u64, BoxError> {
        tokio::task::yield_now().await;
        Ok(guard.fencing_token() + self.rows)
    }

    fn start(self) {
        spawn(async move { self.locks.lock("k").run(async |guard| self.work(guard).await).await });
    }

    fn by_reference(&self) -> impl Future<Output = Result<u64, BoxError>> + Send {
        self.locks.lock("k").run(async |guard| self.work(guard).await)
    }

    async fn in_a_loop(&self, keys: &[String]) -> Result<u64, BoxError> {
        let mut sum = 0;
        for key in keys {
            self.locks
                .lock(key)
                .run(async |guard| {
                    sum += self.work(guard).await?;
                    Ok::<_, BoxError>(())
                })
                .await?;
        }
        Ok(sum)
    }

    fn boxed<'a>(&'a self, name: &'a str) -> Boxed<'a, Result<usize, BoxError>> {
        Box::pin(async move {
            let body = async |guard: &LockGuard| self.work(guard).await.map(|_| name.len());
            self.locks.lock(name).run(body).await
        })
    }

    fn value<'a>(&'a self, name: &'a str) -> Boxed<'a, Result<usize, LockError>> {
        Box::pin(async move { self.locks.lock(name).run_value(async |_guard| name.len()).await })
    }

    fn function<'a>(&'a self, name: &'a str) -> Boxed<'a, Result<usize, BoxError>> {
        Box::pin(self.locks.lock(name).run_fn(async move |guard| self.work(&guard).await.map(|_| name.len())))
    }
}

#[async_trait::async_trait]
trait Job {
    async fn run(&self, name: &str) -> Result<u64, BoxError>;
}

#[async_trait::async_trait]
impl Job for Service {
    async fn run(&self, name: &str) -> Result<u64, BoxError> {
        self.locks.lock(name).run(async |guard| self.work(guard).await).await
    }
}

// The type of the body is a parameter.

fn generic<B, F, T, E>(locks: &LockManager, body: B)
where
    B: FnOnce(Arc<LockGuard>) -> F + Send + 'static,
    F: Future<Output = Result<T, E>> + Send + 'static,
    T: Send + 'static,
    E: From<LockError> + Send + 'static,
{
    spawn(locks.lock("k").run_fn(body));
}

fn generic_without_the_guard<B, F, T, E>(locks: &LockManager, body: B)
where
    B: FnOnce() -> F + Send + 'static,
    F: Future<Output = Result<T, E>> + Send + 'static,
    T: Send + 'static,
    E: From<LockError> + Send + 'static,
{
    spawn(locks.lock("k").run(async move |_guard| body().await));
}

fn generic_value<B, F, T>(locks: &LockManager, body: B)
where
    B: FnOnce() -> F + Send + 'static,
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    spawn(locks.lock("k").run_value(async move |_guard| body().await));
}

// An error of the body's own.

async fn own_error(locks: &LockManager, row: &str) -> Result<u8, Failure> {
    let number = locks.lock("k").run(async |_guard| row.parse().map_err(|_| Failure::Own(0))).await?;
    locks.lock("k").run_blocking(|_guard| if number > 0 { Ok(number) } else { Err(Failure::Own(number)) })
}

// A watcher in a task of its own.

fn watch(guard: &LockGuard) {
    spawn(guard.lost());
}

async fn watch_beside_other_work(guard: &LockGuard) -> LostReason {
    let mut lost: Lost = require_send(guard.lost());
    let first = std::future::poll_fn(|cx| std::task::Poll::Ready(Pin::new(&mut lost).poll(cx)));
    if first.await.is_pending() {
        tokio::task::yield_now().await;
    }
    lost.await
}

// What is not spawned may be anything.

async fn not_send(locks: &LockManager) -> Result<Rc<u8>, BoxError> {
    let shared = Rc::new(1);
    locks.lock("k").run_value(async |_guard| Rc::clone(&shared)).await?;
    locks.lock("k").run_fn(async |_guard| Ok::<_, BoxError>(Rc::clone(&shared))).await?;
    locks.lock("k").run(async |_guard| Ok(Rc::clone(&shared))).await
}

#[test]
fn compiles() {
    let uses = |service: &'static Service, guard: &'static LockGuard| {
        spawn(service.by_reference());
        spawn(service.in_a_loop(&[]));
        spawn(async { own_error(&service.locks, "1").await.is_ok() });
        spawn(watch_beside_other_work(guard));
        let _ = (service.boxed("k"), service.value("k"), service.function("k"), Job::run(service, "k"));
        generic(&service.locks, async |guard| Ok::<_, LockError>(guard.fencing_token()));
        generic_without_the_guard(&service.locks, async || Ok::<_, LockError>(5));
        generic_value(&service.locks, async || 5);
    };
    let _ = (uses, Service::start, watch, not_send);
    assert_ne!(Failure::from(LockError::NotLocked).text(), Failure::Own(7).text());
}
